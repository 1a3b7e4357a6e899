"""All ACLs of a namespace: also what `permissions` has no words for, such as what is denied or goes by a prefix, and
what Kafka's tools do not show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.admin.exchange import Reply, json
from gateway.admin.slices import turn
from gateway.admin.topics import namespace_of
from gateway.broker.permissions import PAGE

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call


async def of_namespace(context: Context, call: Call) -> Reply:
    """Rows as objects, sorted; names of resources are those that the namespace has for them."""
    broker = context.broker
    rows = []
    for count, row in enumerate(broker.access.table.rows(namespace_of(broker, *call.path[2:4]))):
        if count % PAGE == PAGE - 1:
            await turn()
        rows.append(row)
    return json(
        [
            {
                "resource": row.resource.name,
                "pattern": row.pattern.name,
                "name": row.name,
                "principal": row.principal,
                "host": row.host,
                "operation": row.operation.name,
                "permission": row.permission.name,
            }
            for row in sorted(rows)
        ]
    )
