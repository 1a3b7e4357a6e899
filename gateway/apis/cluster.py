"""60 DescribeCluster (0-2), 35 DescribeLogDirs (1-5), 74 ListConfigResources (0-1)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gateway.apis.checks import check_cluster
from gateway.apis.metadata import cluster_operations
from gateway.apis.reach import cluster_id
from gateway.apis.registry import Context, handles
from gateway.broker.errors import KafkaError
from gateway.broker.loading import until_loaded
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics import group_names
from semantics.access.acl import Operation
from semantics.names import Namespace
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.peer import Peer

BROKERS, CONTROLLERS = 1, 2
"""Endpoint types; there are no controllers here."""
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""Types of resources that have configs."""

Dirs = messages.DescribeLogDirsResponse
_FOLDER = "data"
"""What clients are told the data folder is called that see one namespace only."""


@handles(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 2)
def describe_cluster(
    broker: Broker, context: Context, request: messages.DescribeClusterRequest
) -> messages.DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        known = request.endpoint_type == CONTROLLERS
        return messages.DescribeClusterResponse(
            error_code=Error.MISMATCHED_ENDPOINT_TYPE if known else Error.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of the wrong type: this is a broker.",
            cluster_id="",
            brokers=[],
        )
    return messages.DescribeClusterResponse(
        error_code=0,
        error_message=None,
        endpoint_type=BROKERS,
        cluster_id=cluster_id(broker, context.peer),
        controller_id=broker.placement.controller,
        brokers=[
            messages.DescribeClusterResponse.DescribeClusterBroker(
                broker_id=node.id, host=node.host, port=node.port, rack=node.rack, is_fenced=False
            )
            for node in broker.placement.nodes(context.peer.listener)
        ],
        cluster_authorized_operations=cluster_operations(
            context.peer.rights, asked=request.include_cluster_authorized_operations
        ),
    )


@handles(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 5)
async def describe_log_dirs(
    broker: Broker, context: Context, request: messages.DescribeLogDirsRequest
) -> messages.DescribeLogDirsResponse:
    """The data folder, and what the partitions asked for take of it."""
    try:
        check_cluster(context.peer.rights, Operation.DESCRIBE)
    except KafkaError as error:
        return Dirs(error_code=error.code, results=[])
    topics = []
    if request.topics is None:
        async for topic in broker.catalog.every(context.peer.prefix):
            topics.append(await _sizes(broker, topic, list(range(len(topic.partitions)))))
    else:
        for asked in request.topics:
            known = broker.catalog.get(asked.topic)
            if known is not None:
                topics.append(
                    await _sizes(
                        broker, known, [i for i in asked.partitions if 0 <= i < len(known.partitions)]
                    )
                )
    # the folder and the disk are of all tenants
    folder, total, usable = broker.disk() if not _of_tenant(context.peer) else (_FOLDER, -1, -1)
    return Dirs(
        error_code=0,
        results=[
            Dirs.DescribeLogDirsResult(
                error_code=0, log_dir=folder, topics=topics, total_bytes=total, usable_bytes=usable
            )
        ],
    )


def _of_tenant(peer: Peer) -> bool:
    """Whether somebody is at home in one namespace, and may not look at the gateway as a whole."""
    return bool(peer.prefix) and peer.rights.checked and not peer.rights.node(Operation.DESCRIBE)


async def _sizes(
    broker: Broker, topic: Topic, indexes: list[int]
) -> messages.DescribeLogDirsResponse.DescribeLogDirsTopic:
    partitions = []
    for index in indexes:
        try:
            size = (await until_loaded(partial(broker.log_of, topic, index))).size
        except KafkaError:
            # going at this moment, or damaged: it has no size
            continue
        partitions.append(
            Dirs.DescribeLogDirsPartition(
                partition_index=index, partition_size=size, offset_lag=0, is_future_key=False
            )
        )
    return Dirs.DescribeLogDirsTopic(name=topic.name, partitions=partitions)


@handles(ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", 0, 1)
def list_config_resources(
    broker: Broker, context: Context, request: messages.ListConfigResourcesRequest
) -> messages.ListConfigResourcesResponse:
    """What has configs (KIP-1142). Version 0 lists subscriptions to client metrics."""
    rights = context.peer.rights
    try:
        check_cluster(rights, Operation.DESCRIBE_CONFIGS)
    except KafkaError as error:
        return messages.ListConfigResourcesResponse(error_code=error.code, config_resources=[])
    served = {TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP}
    asked = {CLIENT_METRICS} if context.api_version == 0 else set(request.resource_types) or served
    if not asked <= served:
        return messages.ListConfigResourcesResponse(error_code=Error.UNSUPPORTED_VERSION, config_resources=[])
    resource = messages.ListConfigResourcesResponse.ConfigResource
    found = []
    if TOPIC in asked:
        names = [name for name in broker.catalog.names() if name.startswith(context.peer.prefix)]
        if not context.peer.prefix:
            names += [topic.name for topic in broker.internal_topics.listed()]
        found += [resource(resource_name=name, resource_type=TOPIC) for name in names]
    for kind in (BROKER, BROKER_LOGGER):
        if kind in asked:
            found += [resource(resource_name=str(node), resource_type=kind) for node in broker.placement.ids]
    home = Namespace.parse(context.peer.namespace)
    try:
        # those are everybody's
        listed = CLIENT_METRICS in asked and rights.node(Operation.DESCRIBE_CONFIGS)
        metrics = broker.client_metrics.named() if listed else []
        groups = broker.group_configs.named() if GROUP in asked else []
    except StoreError:
        return messages.ListConfigResourcesResponse(error_code=Error.KAFKA_STORAGE_ERROR, config_resources=[])
    found += [resource(resource_name=name, resource_type=CLIENT_METRICS) for name in metrics]
    found += [
        resource(resource_name=name, resource_type=GROUP)
        for name in groups
        if group_names.home_of(name) == home
    ]
    return messages.ListConfigResourcesResponse(error_code=0, config_resources=found)
