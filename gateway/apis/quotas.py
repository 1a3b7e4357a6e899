"""48 DescribeClientQuotas (0-1) and 49 AlterClientQuotas (0-1): rates of users, client ids and addresses (KIP-546).

What the rows mean is in `semantics/quotas.py`, and what becomes of them in `broker/client_quotas.py`. Who is at home in
another namespace than public/default sees and changes those of its tenant's users, whose names begin with that of the
tenant and a dot; what it sets leaves them less than who may alter quotas of all has set, and never more. All other
quotas are about what tenants share.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gateway.apis.checks import check_over_users
from gateway.apis.registry import Context, handles
from gateway.apis.slices import answered
from gateway.broker.errors import KafkaError
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from semantics.quotas import IP, KINDS, USER, Entity, QuotaError, check, check_key, entity_of
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.client_quotas import Change
    from gateway.peer import Peer

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
"""How a component of a filter is matched (KIP-546)."""

Described = messages.DescribeClientQuotasResponse
Altered = messages.AlterClientQuotasResponse
Row = tuple[Entity, dict[str, float]]


def _owner(peer: Peer) -> str | None:
    """How the names of those users begin whose quotas it may see and change; None: all there are."""
    return peer.namespace.partition("/")[0] + "." if peer.prefix else None


def _is_of(owner: str | None, entity: Entity) -> bool:
    return owner is None or (dict(entity).get(USER) or "").startswith(owner)


@handles(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1)
def describe_client_quotas(
    broker: Broker, context: Context, request: messages.DescribeClientQuotasRequest
) -> Pending[messages.DescribeClientQuotasResponse]:
    try:
        check_over_users(context.peer, Operation.DESCRIBE_CONFIGS)
        _check_filter(request.components)
    except KafkaError as error:
        return Described(error_code=error.code, error_message=error.text, entries=None)
    owner = _owner(context.peer)
    components = [(each.entity_type, each.match_type, _name(each)) for each in request.components]

    def look(row: Row) -> Any:
        entity, values = row
        if not (_matches(entity, components, strict=request.strict) and _is_of(owner, entity)):
            return None
        return Described.EntryData(
            entity=[Described.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[Described.ValueData(key=key, value=value) for key, value in sorted(values.items())],
        )

    def answer(entries: list[Any]) -> messages.DescribeClientQuotasResponse:
        # as Kafka: no error has an empty text
        return Described(
            error_code=0, error_message="", entries=[each for each in entries if each is not None]
        )

    return answered(broker.client_quotas.shown(), look, answer)


def _name(component: Any) -> str | None:
    """What an exact match is for. Addresses are compared as they are kept."""
    if component.entity_type == IP and component.match:
        try:
            return str(ipaddress.ip_address(component.match))
        except ValueError:
            pass
    name: str | None = component.match
    return name


def _matches(entity: Entity, components: Sequence[tuple[str, int, str | None]], *, strict: bool) -> bool:
    """`strict`: it has no other parts than those that are asked for."""
    parts = dict(entity)
    if strict and len(parts) != len(components):
        return False
    return all(kind in parts and (how == SPECIFIED or parts[kind] == name) for kind, how, name in components)


def _check_filter(components: Sequence[Any]) -> None:
    """Raises KafkaError, as Kafka refuses a filter."""
    times = Counter(each.entity_type for each in components)
    for each in components:
        kind = each.entity_type
        if not kind:
            raise KafkaError(Error.INVALID_REQUEST, "A type of entity has no name.")
        if kind not in KINDS:
            raise KafkaError(Error.UNSUPPORTED_VERSION, f"There are no quotas of '{kind}'.")
        if times[kind] > 1:
            raise KafkaError(Error.INVALID_REQUEST, f"'{kind}' may be in a filter once.")
        if each.match_type not in (EXACT, DEFAULT, SPECIFIED):
            raise KafkaError(Error.INVALID_REQUEST, f"There is no type of match {each.match_type}.")
        if (each.match is None) == (each.match_type == EXACT):
            raise KafkaError(Error.INVALID_REQUEST, "A name is for an exact match, and for no other.")
    if IP in times and len(times) > 1:
        raise KafkaError(Error.INVALID_REQUEST, "Addresses cannot be combined with users or clients.")


@handles(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1)
async def alter_client_quotas(
    broker: Broker, context: Context, request: messages.AlterClientQuotasRequest
) -> messages.AlterClientQuotasResponse:
    """Each entry is refused or taken by itself, one after the other; those that are taken are one commit."""
    changes: list[Change] = []
    taken: list[messages.AlterClientQuotasResponse.EntryData] = []
    # the tenant whose own rows these are
    setter = None if context.peer.rights.node(Operation.ALTER_CONFIGS) else _owner(context.peer)

    def look(entry: Any) -> messages.AlterClientQuotasResponse.EntryData:
        answer = Altered.EntryData(
            error_code=0,
            error_message=None,
            entity=[Altered.EntityData(entity_type=kind, entity_name=name) for kind, name in _parts(entry)],
        )
        try:
            change = _change(context.peer, entry)
            if setter is not None:
                broker.client_quotas.check_lower(change)
            changes.append(change)
            taken.append(answer)
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.text
        except QuotaError as error:
            answer.error_code, answer.error_message = Error.INVALID_REQUEST, str(error)
        return answer

    answers = answered(request.entries, look, lambda entries: Altered(entries=entries))
    answer = answers if isinstance(answers, Altered) else await answers
    try:
        await broker.client_quotas.alter(changes, validate_only=request.validate_only, owner=setter)
    except KafkaError as error:
        for each in taken:
            each.error_code, each.error_message = error.code, error.text
    return answer


def _parts(entry: Any) -> tuple[tuple[str, str | None], ...]:
    return tuple((each.entity_type, each.entity_name) for each in entry.entity)


def _change(peer: Peer, entry: Any) -> Change:
    """Raises KafkaError; QuotaError for what can be no quota."""
    check_over_users(peer, Operation.ALTER_CONFIGS)
    entity = entity_of(_parts(entry))
    owner = _owner(peer)
    if not _is_of(owner, entity):
        raise KafkaError(
            Error.CLUSTER_AUTHORIZATION_FAILED,
            f"Clients that are at home in {peer.namespace} change quotas of users whose names begin with {owner}",
        )
    values: dict[str, float | None] = {}
    for operation in entry.ops:
        if operation.key in values:
            raise QuotaError(f"'{operation.key}' appears more than once.")
        if operation.remove:
            check_key(entity, operation.key)
        else:
            check(entity, operation.key, operation.value)
        values[operation.key] = None if operation.remove else operation.value
    return entity, values
