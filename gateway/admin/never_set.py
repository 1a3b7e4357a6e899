"""Policies of Pulsar's that cannot be set here: what is asked of them is answered as Pulsar does where nobody has set
one, and taking one away is done already. To set one is refused, for the reason in `gateway/not_served.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.admin.context import CLUSTER
from gateway.admin.exchange import DONE, RefusedError, Reply, json
from gateway.admin.places import named_subscription
from gateway.admin.topics import found_by, namespace_of
from gateway.not_served import POLICIES, said, sentence

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call

    Verb = Callable[[Context, Call], Awaitable[Reply]]


class Unset(NamedTuple):
    """A policy of one kind of thing, which nobody can set."""

    segment: str
    """of the path behind the name"""
    answer: Any = None
    """what Pulsar says where it is not set"""
    applied: Any = None
    """what is in force for a topic then, where that is something else"""
    removes: str | None = ""
    """the segment by which it is taken away, where it is another; None: nothing takes it away"""


_NOT_OFFLOADED = {
    "status": "NOT_RUN",
    "lastError": "",
    "firstUnoffloadedMessage": {"ledgerId": -1, "entryId": -1, "partitionIndex": -1, "batchIndex": -1},
}

ROWS: dict[str, tuple[Unset, ...]] = {
    "namespace": (
        Unset("deduplicationSnapshotInterval", removes=None),
        Unset("dispatcherPauseOnAckStatePersistent", False),
        Unset("encryptionRequired", False, removes=None),
        Unset("entryFilters"),
        Unset("isAllowAutoUpdateSchema", True, removes=None),
        Unset("offloadDeletionLagMs"),
        Unset("offloadPolicies", removes="removeOffloadPolicies"),
        Unset("offloadThreshold", -1, removes=None),
        Unset("offloadThresholdInSeconds", -1, removes=None),
        Unset("persistence"),
        Unset("persistence/bookieAffinity"),
        Unset("replicatorDispatchRate"),
        # null, which Pulsar answers, is more than its client takes: this is what counts here
        Unset("schemaAutoUpdateCompatibilityStrategy", "AlwaysCompatible", removes=None),
        Unset("schemaCompatibilityStrategy", "UNDEFINED", removes=None),
        Unset("schemaValidationEnforced", False, removes=None),
        Unset("subscribeRate"),
    ),
    "topic": (
        Unset("deduplicationSnapshotInterval"),
        Unset("dispatcherPauseOnAckStatePersistent", False, applied=False),
        Unset("entryFilters"),
        Unset("offload", _NOT_OFFLOADED, applied=_NOT_OFFLOADED, removes=None),
        Unset("offloadPolicies"),
        Unset("persistence"),
        Unset("replication", applied=[CLUSTER]),
        Unset("replicatorDispatchRate"),
        Unset("schemaCompatibilityStrategy"),
        Unset("schemaValidationEnforced", False, applied=False, removes=None),
        # likewise
        Unset("shadowTopics", [], applied=[]),
        Unset("subscribeRate"),
    ),
}
"""By what the path names, as `routes.py` has it."""


AT_CREATION = {
    "clusterSubscribeRate": "subscribe-rate",
    "deduplicationSnapshotIntervalSeconds": "deduplication-snapshot-interval",
    "dispatcherPauseOnAckStatePersistentEnabled": "dispatcher-pause-on-ack-state-persistent",
    "encryption_required": "encryption-required",
    "entryFilters": "entry-filters",
    "offload_deletion_lag_ms": "offload-deletion-lag",
    "offload_policies": "offload-policies",
    "offload_threshold": "offload-threshold",
    "offload_threshold_in_seconds": "offload-threshold",
    "persistence": "persistence",
    "replicatorDispatchRate": "replicator-dispatch-rate",
    "schema_compatibility_strategy": "schema-compatibility-strategy",
    "schema_validation_enforced": "schema-validation-enforce",
}
"""Keys of Policies, and what stands behind `set-` in their verbs. Not among them are those for which Go's client writes
other values than Java's where its user said nothing."""

_NOTHING: tuple[Any, ...] = (None, False, 0, -1, "", "UNDEFINED", [], {})
"""What clients write there where their users have said nothing."""


def check_creation(policies: Mapping[str, Any]) -> None:
    """Refuses Policies of a new namespace that say what cannot be set, with the reason that their verb has."""
    for key, verb in AT_CREATION.items():
        if policies.get(key) not in _NOTHING:
            raise RefusedError(501, said(f"{key} of a new namespace", POLICIES[verb]))


async def _of_namespace(row: Unset, context: Context, call: Call) -> Reply:
    namespace_of(context.broker, *call.path[1:3])
    return DONE if call.method == "DELETE" else json(row.answer)


async def _of_topic(row: Unset, context: Context, call: Call) -> Reply:
    await found_by(context.broker, call)
    if call.method == "DELETE":
        return DONE
    return json(row.applied if call.flag("applied") else row.answer)


async def _snapshot_interval(context: Context, call: Call) -> Reply:
    """Pulsar's client takes this one away by setting nothing."""
    namespace_of(context.broker, *call.path[1:3])
    if call.json() is not None:
        raise RefusedError(501, sentence("namespaces", "set-deduplication-snapshot-interval") or "")
    return DONE


async def _replicated(context: Context, call: Call) -> Reply:
    """Whether a subscription is kept in step in all clusters, by the partition: none is."""
    found = (await named_subscription(context.broker, call)).found
    whole = found.index < 0
    names = (
        [found.name.with_partition(each) for each in range(len(found.topic.partitions))]
        if whole
        else [found.name]
    )
    return json({str(name): False for name in names})


def _verbs() -> dict[tuple[str, str, str], Verb]:
    found: dict[tuple[str, str, str], Verb] = {
        ("GET", "subscription", "replicatedSubscriptionStatus"): _replicated,
        ("POST", "namespace", "deduplicationSnapshotInterval"): _snapshot_interval,
    }
    for kind, answer in (("namespace", _of_namespace), ("topic", _of_topic)):
        for row in ROWS[kind]:
            found["GET", kind, row.segment] = partial(answer, row)
            if row.removes is not None:
                found["DELETE", kind, row.removes or row.segment] = partial(answer, row)
    return found


VERBS = _verbs()
"""By method, what the path names, and the policy's segment: as `routes.py` has them."""
