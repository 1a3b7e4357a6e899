"""48 DescribeClientQuotas (0-1) and 49 AlterClientQuotas (0-1): there are no quotas of users, clients or addresses.

So the list of them is empty, what is taken from it was not there, and nothing can be added. Topics and namespaces have
rates of their own, which are policies.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gateway.apis.checks import check_node
from gateway.apis.registry import Context, handles
from gateway.apis.slices import answered
from gateway.broker.errors import KafkaError
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.rights import Rights

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
"""How a component of a filter is matched (KIP-546)."""

USER, CLIENT, IP = KINDS = ("user", "client-id", "ip")

Described = messages.DescribeClientQuotasResponse
Altered = messages.AlterClientQuotasResponse


@handles(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1)
def describe_client_quotas(
    broker: Broker, context: Context, request: messages.DescribeClientQuotasRequest
) -> messages.DescribeClientQuotasResponse:
    try:
        check_node(context.peer.rights, Operation.DESCRIBE_CONFIGS)
        _check_filter(request.components)
    except KafkaError as error:
        return Described(error_code=error.code, error_message=error.text, entries=None)
    # as Kafka: no error has an empty text
    return Described(error_code=0, error_message="", entries=[])


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
def alter_client_quotas(
    broker: Broker, context: Context, request: messages.AlterClientQuotasRequest
) -> Pending[messages.AlterClientQuotasResponse]:
    rights = context.peer.rights
    return answered(
        request.entries, lambda entry: _altered(rights, entry), lambda entries: Altered(entries=entries)
    )


def _altered(rights: Rights, entry: Any) -> messages.AlterClientQuotasResponse.EntryData:
    answer = Altered.EntryData(
        error_code=0,
        error_message=None,
        entity=[
            Altered.EntityData(entity_type=each.entity_type, entity_name=each.entity_name)
            for each in entry.entity
        ],
    )
    try:
        check_node(rights, Operation.ALTER_CONFIGS)
        _check_entity([(each.entity_type, each.entity_name) for each in entry.entity])
        if not all(operation.remove for operation in entry.ops):
            raise KafkaError(
                Error.UNSUPPORTED_VERSION,
                "Quotas of users, clients and addresses are not kept here. Rates of topics and namespaces are: "
                "publish-rate and dispatch-rate.",
            )
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, error.text
    return answer


def _check_entity(parts: Sequence[tuple[str, str | None]]) -> None:
    """Raises KafkaError for what can have no quotas."""
    kinds = dict(parts)
    if not kinds or len(kinds) < len(parts):
        raise KafkaError(
            Error.INVALID_REQUEST, "A quota is of one user, client or address, or of a user's client."
        )
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise KafkaError(Error.INVALID_REQUEST, f"There are no quotas of '{unknown[0]}'.")
    if any(name == "" for name in kinds.values()):
        raise KafkaError(Error.INVALID_REQUEST, "A name is empty; what has none is the default.")
    if IP in kinds:
        if len(kinds) > 1:
            raise KafkaError(Error.INVALID_REQUEST, "Addresses cannot be combined with users or clients.")
        address = kinds[IP]
        try:
            if address is not None:
                ipaddress.ip_address(address)
        except ValueError:
            raise KafkaError(Error.INVALID_REQUEST, f"'{address}' is no address.") from None
