"""29 DescribeAcls (1-3), 30 CreateAcls (1-3), 31 DeleteAcls (1-3): who may do what.

As in Kafka: where rights are not asked for, all three are refused with SECURITY_DISABLED. To list takes DESCRIBE on the
cluster, to change ALTER; for a client at home in a namespace the cluster is that namespace, and ACLs are those of it
(`acl_names.py`). A request changes all that it can in one commit.

Other than in Kafka: what is no ACL (a type, a pattern, an operation or a permission that nobody knows, or that is for
filters only) is refused with INVALID_REQUEST, and what is beside it is made. Kafka answers UNKNOWN_SERVER_ERROR for all
of the request, or closes the connection. Names have at most 249 characters. An ACL on the cluster of
public/default, which is the gateway, is made by who may do so there already, and by no administrator of a tenant.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from gateway.apis import homes
from gateway.apis.acl_names import Words
from gateway.apis.checks import check_cluster
from gateway.apis.registry import Context, handles
from gateway.apis.slices import answered
from gateway.broker.errors import KafkaError
from gateway.peer import is_address
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import ANYWHERE, CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from semantics.access.filters import Filter
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.peer import Peer

log = logging.getLogger("magnetar.apis")

MOST = 10_000
"""ACLs that one request makes; Kafka's bound."""
MOST_FILTERS = 1_000
"""Filters of one request: each may look at all ACLs."""

Described = messages.DescribeAclsResponse
Created = messages.CreateAclsResponse
Deleted = messages.DeleteAclsResponse

Found = list[tuple[Acl, Acl]]
"""(A row, how the client calls it)."""
E = TypeVar("E", bound=IntEnum)


@handles(ApiKey.DESCRIBE_ACLS, "DescribeAcls", 1, 3)
def describe_acls(
    broker: Broker, context: Context, request: messages.DescribeAclsRequest
) -> Pending[messages.DescribeAclsResponse]:
    try:
        words = _words(broker, context.peer, Operation.DESCRIBE)
        said = _filter(request)
    except KafkaError as error:
        return Described(error_code=error.code, error_message=error.text or error.code.sentence, resources=[])
    return _meant(words, said, _described)


def _described(found: Found) -> messages.DescribeAclsResponse:
    by_pattern: dict[tuple[int, str, int], list[Any]] = {}
    for _, acl in found:
        by_pattern.setdefault((acl.resource, acl.name, acl.pattern), []).append(
            Described.AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
        )
    return Described(
        error_code=0,
        error_message="",
        resources=[
            Described.DescribeAclsResource(
                resource_type=resource, resource_name=name, pattern_type=pattern, acls=acls
            )
            for (resource, name, pattern), acls in by_pattern.items()
        ],
    )


@handles(ApiKey.CREATE_ACLS, "CreateAcls", 1, 3)
async def create_acls(
    broker: Broker, context: Context, request: messages.CreateAclsRequest
) -> messages.CreateAclsResponse:
    creations = request.creations
    # as Kafka: no error has an empty text, save that of a removal, which has none
    results = [Created.AclCreationResult(error_code=0, error_message="") for _ in creations]
    try:
        words = _words(broker, context.peer, Operation.ALTER)
        _check_count(len(creations), MOST, "ACLs")
    except KafkaError as error:
        _refuse(results, error)
        return Created(results=results)
    made: list[Acl] = []
    theirs = []

    def row(place: int) -> None:
        try:
            found = words.row(_created(creations[place]))
            _check_cluster_name(found)
            broker.access.check(found)
        except KafkaError as error:
            _refuse([results[place]], error)
        else:
            made.append(found)
            theirs.append(results[place])

    rows = answered(range(len(creations)), row, lambda _: None)
    if rows is not None:
        await rows
    try:
        await broker.access.add(made)
    except KafkaError as error:
        _refuse(theirs, error)
    else:
        _tell_of_nobodys(context.peer, made)
    return Created(results=results)


@handles(ApiKey.DELETE_ACLS, "DeleteAcls", 1, 3)
async def delete_acls(
    broker: Broker, context: Context, request: messages.DeleteAclsRequest
) -> messages.DeleteAclsResponse:
    results = [
        Deleted.DeleteAclsFilterResult(error_code=0, error_message=None, matching_acls=[])
        for _ in request.filters
    ]
    try:
        words = _words(broker, context.peer, Operation.ALTER)
        _check_count(len(results), MOST_FILTERS, "filters")
    except KafkaError as error:
        _refuse(results, error)
        return Deleted(filter_results=results)
    gone: dict[Acl, None] = {}
    theirs = []
    for result, each in zip(results, request.filters, strict=True):
        try:
            said = _filter(each)
        except KafkaError as error:
            _refuse([result], error)
            continue
        pending = _meant(words, said, lambda found: found)
        found = await pending if isinstance(pending, Awaitable) else pending
        gone |= dict.fromkeys(row for row, _ in found)
        result.matching_acls = [_deleted(acl) for _, acl in found]
        theirs.append(result)
    try:
        await broker.access.remove(list(gone))
    except KafkaError as error:
        for result in theirs:
            result.matching_acls = []
        _refuse(theirs, error)
    return Deleted(filter_results=results)


def _deleted(acl: Acl) -> messages.DeleteAclsResponse.DeleteAclsMatchingAcl:
    return Deleted.DeleteAclsMatchingAcl(
        error_code=0,
        error_message=None,
        resource_type=acl.resource,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


# -- what is shared


def _words(broker: Broker, peer: Peer, operation: Operation) -> Words:
    """Raises KafkaError for a client that may not, or has nothing to ask for."""
    check_cluster(peer.rights, operation)
    if not broker.access.asked:
        raise KafkaError(
            Error.SECURITY_DISABLED, "Nobody is asked for rights here: the setting authorization says so."
        )
    words = Words(broker, peer, operation)
    if not broker.catalog.namespaces.exists(words.home):
        raise KafkaError(Error.INVALID_REQUEST, homes.missing(words.home))
    return words


def _meant(words: Words, said: Filter, answer: Any) -> Pending[Any]:
    """What `answer` makes of the rows that a filter means, and how the client calls them; in slices."""

    def meant(found: list[tuple[Acl, Acl | None]]) -> Any:
        return answer([(row, shown) for row, shown in found if shown is not None])

    return answered(words.meant(said), lambda each: each, meant)


def _check_count(count: int, most: int, what: str) -> None:
    if count > most:
        raise KafkaError(Error.INVALID_REQUEST, f"A request has at most {most} {what}; this one has {count}.")


def _refuse(results: Iterable[Any], error: KafkaError) -> None:
    for each in results:
        each.error_code, each.error_message = error.code, error.text or error.code.sentence


def _tell_of_nobodys(peer: Peer, rows: Iterable[Acl]) -> None:
    """Kafka takes any text for a host, and so a name or a net that is the address of no client; and any type of
    principal, and so `user:bob`.
    """
    hosts = dict.fromkeys(row.host for row in rows if row.host != ANYWHERE and not is_address(row.host))
    if hosts:
        log.warning(
            "ACLs were made for hosts that no client has, so they count for nobody: a host is one address, such as "
            "10.0.0.7 or 2001:db8::1, or *",
            extra={"principal": peer.principal, "client": peer.host, "hosts": ", ".join(islice(hosts, 10))},
        )
    named = dict.fromkeys(row.principal for row in rows if not row.principal.startswith("User:"))
    if named:
        log.warning(
            "ACLs were made for principals that no client is, so they count for nobody: all are called User:name",
            extra={
                "principal": peer.principal,
                "client": peer.host,
                "principals": ", ".join(islice(named, 10)),
            },
        )


def _known(kind: type[E], code: int, what: str) -> E:
    """One of Kafka's, whatever it be. Raises KafkaError INVALID_REQUEST."""
    try:
        found = kind(code)
    except ValueError:
        found = kind(0)
    if not found or (isinstance(found, Operation) and not found.shown):
        raise KafkaError(Error.INVALID_REQUEST, f"There is no {what} {code}.")
    return found


def _filter(said: Any) -> Filter:
    """Raises KafkaError INVALID_REQUEST."""
    return Filter(
        _known(ResourceType, said.resource_type_filter, "type of resource"),
        _known(PatternType, said.pattern_type_filter, "type of pattern"),
        said.resource_name_filter,
        said.principal_filter,
        said.host_filter,
        _known(Operation, said.operation, "operation"),
        _known(Permission, said.permission_type, "type of permission"),
    )


def _created(said: messages.CreateAclsRequest.AclCreation) -> Acl:
    """In the client's words. Raises KafkaError INVALID_REQUEST."""
    row = Acl(
        _known(ResourceType, said.resource_type, "type of resource"),
        _known(PatternType, said.resource_pattern_type, "type of pattern"),
        said.resource_name,
        said.principal,
        said.host,
        _known(Operation, said.operation, "operation"),
        _known(Permission, said.permission_type, "type of permission"),
    )
    for what, value, wrong in (
        ("type of resource", row.resource, (ResourceType.ANY,)),
        ("type of pattern", row.pattern, (PatternType.ANY, PatternType.MATCH)),
        ("operation", row.operation, (Operation.ANY,)),
        ("type of permission", row.permission, (Permission.ANY,)),
    ):
        if value in wrong:
            raise KafkaError(Error.INVALID_REQUEST, f"An ACL has one {what}; {value.name} is for filters.")
    if not row.name:
        raise KafkaError(Error.INVALID_REQUEST, "An ACL names a resource, or a prefix of names.")
    if ":" not in row.principal:
        raise KafkaError(
            Error.INVALID_REQUEST,
            f"A principal is written with its type, such as User:ada; not {row.principal[:80]!r}.",
        )
    return row


def _check_cluster_name(row: Acl) -> None:
    """The one cluster has one name. Raises KafkaError INVALID_REQUEST."""
    if row.resource is ResourceType.CLUSTER and row.name != CLUSTER_NAME:
        raise KafkaError(Error.INVALID_REQUEST, f"The cluster is called {CLUSTER_NAME}.")
