"""55 DescribeQuorum (0-2) and 57 UpdateFeatures (0-2): what tools ask of Kafka's controllers.

There is no quorum of controllers, and no log of theirs: the node that is told as the controller is the one voter of
what it decides alone. Its log's end is how often the catalog of topics has changed since the gateway started, under the
leader epoch of this start.

Features (`versions.py`) are as this gateway is made. A level that a feature has already may be set, which changes
nothing; no other can be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gateway.apis.checks import check_cluster, check_node
from gateway.apis.registry import Context, handles
from gateway.apis.versions import FEATURES
from gateway.broker.errors import KafkaError
from gateway.broker.new_topics import CLUSTER_METADATA
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation

if TYPE_CHECKING:
    from gateway.broker.broker import Broker

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""How a feature's level may change (KIP-584)."""

NO_ID = bytes(16)
Quorum = messages.DescribeQuorumResponse


# -- 55 ----------------------------------------------------------------------------------------------------------------


@handles(ApiKey.DESCRIBE_QUORUM, "DescribeQuorum", 0, 2)
def describe_quorum(
    broker: Broker, context: Context, request: messages.DescribeQuorumRequest
) -> messages.DescribeQuorumResponse:
    """Answered for the one partition of Kafka's log of its cluster, and when nothing else is asked for."""
    try:
        check_cluster(context.peer.rights, Operation.DESCRIBE)
    except KafkaError as error:
        return Quorum(error_code=error.code, error_message=error.text, topics=[], nodes=[])
    # a client of another namespace says the same name
    own = {CLUSTER_METADATA, context.peer.prefix + CLUSTER_METADATA}
    places = [
        (topic.topic_name, each.partition_index) for topic in request.topics for each in topic.partitions
    ]
    right = len(places) == len(request.topics) == 1 and places[0][0] in own and places[0][1] == 0
    nodes = []
    if right:
        nodes = [
            Quorum.Node(
                node_id=node.id,
                listeners=[Quorum.Listener(name=context.peer.listener, host=node.host, port=node.port)],
            )
            for node in broker.placement.nodes(context.peer.listener)
            if node.id == broker.placement.controller
        ]
    return Quorum(
        error_code=0,
        # as Kafka: no error has an empty text
        error_message="",
        topics=[
            Quorum.TopicData(
                topic_name=topic.topic_name,
                partitions=[
                    _voters(broker) if right else _not_hosted(each.partition_index)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
        nodes=nodes,
    )


def _voters(broker: Broker) -> messages.DescribeQuorumResponse.PartitionData:
    end, now = broker.catalog.version, broker.clock.wall_ms()
    return Quorum.PartitionData(
        partition_index=0,
        error_code=0,
        error_message="",
        leader_id=broker.placement.controller,
        leader_epoch=broker.durable.leader_epoch(0),
        high_watermark=end,
        current_voters=[
            Quorum.ReplicaState(
                replica_id=broker.placement.controller,
                replica_directory_id=NO_ID,
                log_end_offset=end,
                last_fetch_timestamp=now,
                last_caught_up_timestamp=now,
            )
        ],
        observers=[],
    )


def _not_hosted(index: int) -> messages.DescribeQuorumResponse.PartitionData:
    return Quorum.PartitionData(
        partition_index=index,
        error_code=Error.UNKNOWN_TOPIC_OR_PARTITION,
        error_message="Only the one partition of the cluster's own log has a quorum, and it is asked for alone.",
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=[],
        observers=[],
    )


# -- 57 ----------------------------------------------------------------------------------------------------------------


class Update(NamedTuple):
    """A level that a feature is to have."""

    feature: str
    level: int
    kind: int


@handles(ApiKey.UPDATE_FEATURES, "UpdateFeatures", 0, 2)
def update_features(
    broker: Broker, context: Context, request: messages.UpdateFeaturesRequest
) -> messages.UpdateFeaturesResponse:
    """All of them, or none."""
    response = messages.UpdateFeaturesResponse
    updates = []
    for each in request.feature_updates:
        if context.api_version:
            kind = each.upgrade_type
        else:
            kind = SAFE_DOWNGRADE if each.allow_downgrade else UPGRADE
        updates.append(Update(each.feature, each.max_version_level, kind))
    try:
        check_node(context.peer.rights, Operation.ALTER)
        for update in updates:
            _check(update)
    except KafkaError as error:
        return response(error_code=error.code, error_message=error.text, results=[])
    return response(
        error_code=0,
        error_message=None,
        results=[
            # as Kafka: its name for no error
            response.UpdatableFeatureResult(feature=update.feature, error_code=0, error_message="NONE")
            for update in updates
        ],
    )


def _check(update: Update) -> None:
    """Raises KafkaError unless the feature has this level."""
    known = FEATURES.get(update.feature)
    if update.kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        reason = f"there is no type of update {update.kind}"
    elif known is None:
        reason = f"there is no such feature here; there are {', '.join(sorted(FEATURES))}"
    elif update.level > known.level or update.level < known.least:
        reason = f"levels {known.least} to {known.level} are known here"
    elif update.level < known.level:
        reason = "features come with the version of the gateway, and none can be taken back"
    else:
        return
    raise KafkaError(
        Error.INVALID_UPDATE_VERSION,
        f"Feature '{update.feature}' cannot have level {update.level}: {reason}.",
    )
