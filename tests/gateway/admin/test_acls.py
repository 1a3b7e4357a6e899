"""All ACLs of a namespace over HTTP, whoever made them."""

from __future__ import annotations

import json

from gateway.broker.namespaces import NamespaceRow, TenantRow
from semantics.access.acl import Permission
from semantics.names import DEFAULT
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin
from tests.gateway.broker.rights import EU, row

PATH = "/admin/v2/magnetar/acls"


def test_of_a_namespace_there_are_all(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.broker.tenancy.create_tenant("shop", TenantRow())
        await admin.broker.tenancy.create(EU, NamespaceRow())
        denied = row("*", permission=Permission.DENY, host="10.0.0.9", namespace=EU)
        await admin.broker.access.add([denied, row(namespace=DEFAULT)])
        granted = await admin.ask(
            "POST", "/admin/v2/namespaces/shop/eu/permissions/ada", json.dumps(["sinks"])
        )
        assert granted.status == 204
        both = {
            "resource": "TOPIC", "pattern": "LITERAL", "name": "*", "principal": "User:ada",
        }  # fmt: skip
        assert (await admin.ask("GET", f"{PATH}/shop/eu")).json == [
            {**both, "host": "*", "operation": "SINKS", "permission": "ALLOW"},
            {**both, "host": "10.0.0.9", "operation": "READ", "permission": "DENY"},
        ]
        assert len((await admin.ask("GET", f"{PATH}/public/default")).json) == 1
        assert (await admin.ask("GET", f"{PATH}/no/such")).status == 404
        assert (await admin.ask("GET", f"{PATH}/a.b/c")).status == 412

    serve(test)
