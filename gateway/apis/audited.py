"""What of requests is told (`gateway/audit.py`): of those that change something, and of those that are refused to who
may not make them. Names, and never a value.

One line for a request: what it is about, and whether it was done. A row of `AUDITED` says it of a request that changes
something; the answer's errors say what became of it. Of any other request, the answer says what its client may not, as
of one that names nothing to be changed.
Produce, Fetch and the share requests are not looked at: what they are refused their clients are refused before by
Metadata, FindCoordinator, InitProducerId or JoinGroup, nearly always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.apis.registry import APIS
from gateway.wire import schema
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation, PatternType, Permission, ResourceType

if TYPE_CHECKING:
    from enum import IntEnum

    from gateway.apis.registry import Context
    from gateway.broker.broker import Broker
    from gateway.wire.schema import Field

NAMED = 10
"""Names of one request that are told; of the others, how many there are."""

DENIED = frozenset(
    {
        Error.TOPIC_AUTHORIZATION_FAILED,
        Error.GROUP_AUTHORIZATION_FAILED,
        Error.CLUSTER_AUTHORIZATION_FAILED,
        Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""What is answered to who may not."""

_RESOURCES = {2: "topic", 4: "broker", 8: "broker logger", 16: "client metrics", 32: "group"}
"""Kinds of what has configs, by Kafka's numbers."""
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}

Told = Callable[[Any], None]


def begun(broker: Broker, context: Context, request: Any) -> Told | None:
    """What is to be called with the answer to a request; None where nothing of it is told."""
    about = AUDITED.get(context.api_key)
    if about is not None and not getattr(request, "validate_only", False):
        target = _listed(about(broker, request))
        if target:
            return partial(_answered, broker, context, target)
    if context.peer.rights.checked:
        own = (said for each in _WHOLE if (said := getattr(request, each, None)))
        return partial(_denied, broker, context, next(own, ""))
    return None


def _answered(broker: Broker, context: Context, target: str, answer: Any) -> None:
    codes = [code for _, code in _errors(answer, "", _shape(context.api_key))]
    wrong = [code for code in codes if code]
    what, peer = APIS[context.api_key].name, context.peer
    host = peer.host.removeprefix("/")
    if wrong and len(wrong) == len(codes) and DENIED.issuperset(wrong):
        broker.audit.refused(what, peer.principal, host, "kafka", target)
        return
    outcome = "done"
    if wrong:
        outcome = _name(wrong[0]) + (f" ({len(wrong)} of {len(codes)})" if len(codes) > 1 else "")
    tell = broker.audit.routine if context.api_key in ROUTINE else broker.audit.change
    tell(what, peer.principal, host, "kafka", outcome, target)


def _denied(broker: Broker, context: Context, own: str, answer: Any) -> None:
    """What of an answer is refused to its client. `own`: whom the request is about as a whole."""
    errors = _errors(answer, own, _shape(context.api_key))
    names = dict.fromkeys(name for name, code in errors if code in DENIED)
    if names:
        what, peer = APIS[context.api_key].name, context.peer
        host = peer.host.removeprefix("/")
        broker.audit.refused(what, peer.principal, host, "kafka", _listed(filter(None, names)))


class _Shape(NamedTuple):
    """Where a part of an answer, or all of it, says its error; as the schema has it, in whichever version."""

    attribute: str
    """what the list of these parts is called"""
    names: tuple[str, ...]
    """what names one, the first that is said"""
    code: str
    """its own error; "" where it has none"""
    parts: tuple[_Shape, ...]
    """those further in that may have other errors than it has"""


@cache
def _shape(key: int) -> _Shape:
    """Of the answers of an API."""
    return _shape_of("", schema.load(schema.api_name(key) + "Response").fields, whole=True)


def _shape_of(attribute: str, fields: Sequence[Field], *, whole: bool = False) -> _Shape:
    own = [each.attribute for each in fields if each.attribute.endswith("error_code")]
    parts = [_shape_of(each.attribute, each.fields) for each in fields if each.fields is not None]
    found = [each for each in parts if each.code or each.parts]
    if own and not whole:
        # a topic tells of its partitions; a group does not of the topics that somebody asks for in it
        things = {each.attribute for each in fields if any(map(_names_a_thing, each.fields or ()))}
        found = [each for each in found if each.attribute in things]
    names = (each.attribute for each in fields if _names_a_thing(each) or each.attribute in _NAMES)
    return _Shape(attribute, tuple(names), own[0] if own else "", tuple(found))


def _names_a_thing(field: Field) -> bool:
    """Whether it is the name of what has rights."""
    return field.type == "string" and not field.array and field.entity != ""


def _errors(answer: Any, name: str, shape: _Shape) -> Iterator[tuple[str, int]]:
    """(name, error) of each thing in an answer, or of all together where that failed, or has no parts."""
    own = getattr(answer, shape.code) if shape.code else 0
    empty = True
    if not own:
        for part in shape.parts:
            for each in getattr(answer, part.attribute) or ():
                empty = False
                called = next((said for kind in part.names if (said := getattr(each, kind))), name)
                yield from _errors(each, called, part)
    if empty:
        yield name, own


_NAMES = frozenset({"key", "resource_name", "user"})
"""What names a part, besides topics, groups and transactional ids, of which the schema says that they are."""
_WHOLE = ("group_id", "transactional_id", "v3_and_below_transactional_id", "key")
"""What names that which a request as a whole is about."""


def _name(code: int) -> str:
    return next((error.name for error in Error if error == code), f"error {code}")


def _listed(names: Iterable[str]) -> str:
    told: list[str] = []
    more = 0
    for name in names:
        if len(told) < NAMED:
            told.append(name)
        else:
            more += 1
    return ", ".join(told) + (f" and {more} more" if more else "")


# -- of which request what


def _topics(broker: Broker, request: Any) -> Iterator[str]:
    return (topic.name for topic in request.topics)


def _deleted_topics(broker: Broker, request: Any) -> Iterator[str]:
    """By name, or by id."""
    yield from request.topic_names or ()
    for asked in request.topics or ():
        yield asked.name if asked.name is not None else _by_id(broker, asked.topic_id)


def _by_id(broker: Broker, topic_id: bytes) -> str:
    topic = broker.catalog.by_id(topic_id)
    return topic.name if topic is not None else topic_id.hex()


def _of_group(broker: Broker, request: Any) -> Iterator[str]:
    """The requests say names in different fields, and OffsetCommit from version 10 on ids."""

    def said(each: Any) -> str:
        name = str(getattr(each, "topic_name", "") or getattr(each, "name", ""))
        topic_id = getattr(each, "topic_id", None)
        return name if name or topic_id is None else _by_id(broker, topic_id)

    names = map(said, request.topics)
    if request.topics:
        yield f"group {request.group_id}: {_listed(names)}"


def _of_group_from_outside(broker: Broker, request: Any) -> Iterable[str]:
    """Members commit what they have read. Who is none, such as a tool, moves where a group goes on."""
    member = request.member_id or request.generation_id_or_member_epoch >= 0
    return () if member else _of_group(broker, request)


def _markers(broker: Broker, request: Any) -> Iterator[str]:
    for marker in request.markers:
        ends = "commit" if marker.transaction_result else "abort"
        yield f"{ends} of producer {marker.producer_id}: {_listed(topic.name for topic in marker.topics)}"


def _configs(broker: Broker, request: Any) -> Iterator[str]:
    for resource in request.resources:
        kind = _RESOURCES.get(resource.resource_type, f"resource {resource.resource_type}")
        # values may be secret
        names = _listed(config.name for config in resource.configs)
        yield f"{kind} {resource.resource_name or 'of all'}: {names}"


def _acls(broker: Broker, request: Any) -> Iterator[str]:
    for acl in request.creations:
        allows = f"{_of(Permission, acl.permission_type)} {_of(Operation, acl.operation)}"
        kind, pattern = _of(ResourceType, acl.resource_type), _of(PatternType, acl.resource_pattern_type)
        yield f"{allows} to {acl.principal} from {acl.host} on {kind} {pattern} {acl.resource_name}"


def _filters(broker: Broker, request: Any) -> Iterator[str]:
    for each in request.filters:
        allows = f"{_of(Permission, each.permission_type)} {_of(Operation, each.operation)}"
        kind, pattern = (
            _of(ResourceType, each.resource_type_filter),
            _of(PatternType, each.pattern_type_filter),
        )
        who, host = each.principal_filter or "ANY", each.host_filter or "ANY"
        yield f"{allows} to {who} from {host} on {kind} {pattern} {each.resource_name_filter or 'ANY'}"


def _quotas(broker: Broker, request: Any) -> Iterator[str]:
    for entry in request.entries:
        entity = " ".join(f"{each.entity_type} {each.entity_name or '<default>'}" for each in entry.entity)
        yield f"{entity}: {_listed(each.key for each in entry.ops)}"


def _credentials(broker: Broker, request: Any) -> Iterator[str]:
    for each in (*request.deletions, *request.upsertions):
        mechanism = _MECHANISMS.get(each.mechanism, f"mechanism {each.mechanism}")
        yield f"user {each.name}: {mechanism}"


def _features(broker: Broker, request: Any) -> Iterator[str]:
    return (each.feature for each in request.feature_updates)


def _of(kind: type[IntEnum], number: int) -> str:
    try:
        return kind(number).name
    except ValueError:
        return str(number)


AUDITED: dict[int, Callable[[Broker, Any], Iterable[str]]] = {
    ApiKey.CREATE_TOPICS: _topics,
    ApiKey.DELETE_TOPICS: _deleted_topics,
    ApiKey.DELETE_RECORDS: _topics,
    ApiKey.CREATE_ACLS: _acls,
    ApiKey.DELETE_ACLS: _filters,
    ApiKey.ALTER_CONFIGS: _configs,
    ApiKey.CREATE_PARTITIONS: _topics,
    ApiKey.DELETE_GROUPS: lambda broker, request: request.groups_names,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs,
    ApiKey.OFFSET_DELETE: _of_group,
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _credentials,
    ApiKey.UPDATE_FEATURES: _features,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _of_group,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _of_group,
    ApiKey.OFFSET_COMMIT: _of_group_from_outside,
    ApiKey.WRITE_TXN_MARKERS: _markers,
}
"""By API, what names the things that a request is about. Topics that Metadata makes are told where they are made."""
ROUTINE = frozenset({ApiKey.OFFSET_COMMIT})
"""Consumers that assign partitions to themselves do this all day."""


def made_by_the_way(broker: Broker, context: Context, names: Iterable[str]) -> None:
    """Topics came into being since a client asked for them."""
    if target := _listed(names):
        what, peer = APIS[context.api_key].name, context.peer
        broker.audit.change(what, peer.principal, peer.host.removeprefix("/"), "kafka", "done", target)
