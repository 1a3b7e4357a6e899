"""32 DescribeConfigs (1-4), 33 AlterConfigs (0-2), 44 IncrementalAlterConfigs (0-1), for topics, brokers, groups and
subscriptions to client metrics.

Those of a topic stand in its catalog row; those of the others that were altered in rows of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from gateway.apis.checks import check_group, check_node, check_topic
from gateway.apis.cluster import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from gateway.apis.groups import check_said
from gateway.apis.letter_rights import check_letters
from gateway.apis.registry import Context, handles
from gateway.broker.errors import KafkaError
from gateway.broker.new_topics import check_name
from gateway.config import client_metrics, group_configs, subscription_configs, topic_configs
from gateway.config.schema import Source
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics import group_names
from semantics.access.acl import Operation

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import QueueOf
    from gateway.config.schema import Described
    from gateway.rights import Rights
    from semantics.names import Namespace

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
"""Operations of IncrementalAlterConfigs (KIP-339)."""

Result = messages.DescribeConfigsResponse.DescribeConfigsResult
Row = messages.DescribeConfigsResponse.DescribeConfigsResourceResult
Alteration = tuple[str, int, str | None]
"""name, operation, value."""


@handles(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4)
def describe_configs(
    broker: Broker, context: Context, request: messages.DescribeConfigsRequest
) -> messages.DescribeConfigsResponse:
    results = []
    for resource in request.resources:
        result = Result(
            error_code=0,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[],
        )
        results.append(result)
        try:
            kind, name = resource.resource_type, resource.resource_name
            _check_rights(context.peer.rights, Operation.DESCRIBE_CONFIGS, kind, name)
            if kind == GROUP:
                check_said(context.peer, name)
            rows = list(_described(broker, kind, name))
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.text
            continue
        wanted = resource.configuration_keys
        # as Kafka: no error has an empty text
        result.error_message = ""
        result.configs = [
            Row(
                name=row.name,
                value=row.value,
                read_only=row.read_only,
                config_source=int(row.source),
                is_sensitive=row.sensitive,
                synonyms=[
                    messages.DescribeConfigsResponse.DescribeConfigsSynonym(
                        name=synonym.name, value=synonym.value, source=int(synonym.source)
                    )
                    for synonym in (row.synonyms if request.include_synonyms else ())
                ],
                config_type=int(row.kind),
                documentation=row.doc if request.include_documentation else None,
            )
            for row in rows
            if not wanted or row.name in wanted
        ]
    return messages.DescribeConfigsResponse(results=results)


def _check_rights(rights: Rights, operation: Operation, kind: int, name: str) -> None:
    """Raises KafkaError. Brokers and subscriptions to client metrics are everybody's."""
    if kind == TOPIC:
        check_topic(rights, operation, name)
    elif kind == GROUP:
        check_group(rights, operation, name)
    elif kind in (BROKER, BROKER_LOGGER, CLIENT_METRICS):
        check_node(rights, operation)


def _described(broker: Broker, kind: int, name: str) -> Iterable[Described]:
    if kind == TOPIC:
        check_name(name)
        topic = broker.topics.get(name)
        policies = broker.catalog.namespaces.policies_of(topic.name)
        rows = topic_configs.describe(topic.configs, broker.settings, policies)
        return rows if topic.queue is None else chain(rows, _of_subscription(broker, topic.queue))
    if kind == BROKER:
        if name == "":
            # The cluster-wide level: only what was altered there.
            altered = broker.broker_configs.cluster
            settings = broker.settings.with_dynamic({}, altered)
            return (row for row in settings.describe() if row.name in altered)
        _check_node(broker, name)
        return broker.settings.describe()
    if kind == GROUP:
        if not name:
            raise KafkaError(Error.INVALID_REQUEST, "A group's name must not be empty.")
        return group_configs.describe(broker.group_configs.own(name), broker.settings)
    if kind == CLIENT_METRICS:
        return client_metrics.describe(broker.client_metrics.own(name))
    if kind == BROKER_LOGGER:
        raise KafkaError(
            Error.INVALID_REQUEST, "Loggers are set with log.level at the start, not by this API."
        )
    raise KafkaError(Error.INVALID_REQUEST, f"There are no configs of resource type {kind}.")


def _of_subscription(broker: Broker, queue: QueueOf) -> Iterator[Described]:
    """What lanes go by: the configs of their subscription, which are set there and not here. Raises KafkaError."""
    own = queue.overrides
    if not queue.pattern:
        base = broker.catalog.by_id(queue.topic_id)
        found = broker.subscriptions.row(queue.subscription, base.name) if base is not None else None
        own = broker.subscriptions.configs.own(found) if found is not None else {}
    groups = group_configs.describe({**broker.group_configs.own(queue.subscription), **own}, broker.settings)
    for row in groups:
        if row.name in subscription_configs.NAMES:
            yield row._replace(read_only=True, source=Source.TOPIC if row.name in own else row.source)


def _check_node(broker: Broker, name: str) -> None:
    if name != str(broker.node_id):
        raise KafkaError(
            Error.INVALID_REQUEST,
            f"Broker '{name}' cannot be asked here: this is {broker.node_id} (empty for all).",
        )


@handles(ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2)
async def alter_configs(
    broker: Broker, context: Context, request: messages.AlterConfigsRequest
) -> messages.AlterConfigsResponse:
    """The old way: what is not named goes back to its default."""
    responses = []
    for resource in request.resources:
        answer = messages.AlterConfigsResponse.AlterConfigsResourceResponse(
            error_code=0,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        responses.append(answer)
        given = [(config.name, config.value) for config in resource.configs]

        def replace(old: dict[str, str], given: list[tuple[str, str | None]] = given) -> dict[str, str]:
            for name, value in given:
                if value is None:
                    raise KafkaError(Error.INVALID_REQUEST, f"The value of {name} is missing.")
            return {name: value for name, value in given if value is not None}

        try:
            if len({name for name, _ in given}) < len(given):
                raise KafkaError(Error.INVALID_REQUEST, "A config may appear once in a request.")
            await _alter(
                broker,
                context,
                resource.resource_type,
                resource.resource_name,
                replace,
                request.validate_only,
            )
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.text
    return messages.AlterConfigsResponse(responses=responses)


@handles(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1)
async def incremental_alter_configs(
    broker: Broker, context: Context, request: messages.IncrementalAlterConfigsRequest
) -> messages.IncrementalAlterConfigsResponse:
    responses = []
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    for resource in request.resources:
        answer = messages.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
            error_code=0,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        responses.append(answer)
        changes = [(config.name, config.config_operation, config.value) for config in resource.configs]

        def apply(old: dict[str, str], changes: list[Alteration] = changes) -> dict[str, str]:
            return apply_changes(old, changes)

        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise KafkaError(Error.INVALID_REQUEST, "A resource may appear once in a request.")
            if len({name for name, _, _ in changes}) < len(changes):
                raise KafkaError(Error.INVALID_REQUEST, "A config may appear once in a request.")
            await _alter(
                broker, context, resource.resource_type, resource.resource_name, apply, request.validate_only
            )
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.text
    return messages.IncrementalAlterConfigsResponse(responses=responses)


def apply_changes(old: dict[str, str], changes: list[Alteration]) -> dict[str, str]:
    """Configs after the operations of KIP-339. Raises KafkaError."""
    new = dict(old)
    for name, operation, value in changes:
        if operation == DELETE:
            new.pop(name, None)
            continue
        if value is None:
            raise KafkaError(Error.INVALID_REQUEST, f"The value of {name} is missing.")
        if operation == SET:
            new[name] = value
        elif operation in (APPEND, SUBTRACT):
            if not (topic_configs.is_list(name) or group_configs.is_list(name)):
                raise KafkaError(
                    Error.INVALID_CONFIG, f"{name} is no list: it cannot be appended to or subtracted from."
                )
            text = new[name] if name in new else topic_configs.default_text(name) or ""
            items = [item for item in text.split(",") if item]
            named = [item.strip() for item in value.split(",") if item.strip()]
            if operation == APPEND:
                items += [item for item in named if item not in items]
            else:
                items = [item for item in items if item not in named]
            new[name] = ",".join(items)
        else:
            raise KafkaError(Error.INVALID_REQUEST, f"Unknown operation {operation} on {name}.")
    return new


async def _alter(
    broker: Broker,
    context: Context,
    kind: int,
    name: str,
    change: Callable[[dict[str, str]], dict[str, str]],
    validate_only: bool,
) -> None:
    _check_rights(context.peer.rights, Operation.ALTER_CONFIGS, kind, name)
    if kind == TOPIC:
        if not name:
            raise KafkaError(Error.INVALID_REQUEST, "Topics have no resource that stands for all of them.")
        check_name(name)
        where = broker.catalog.namespaces.full(name).namespace
        await broker.topics.configure(
            name, _with_letters(broker, context, where, change), validate_only=validate_only
        )
    elif kind == BROKER:
        _check_for_all(context)
        if name:
            _check_node(broker, name)
        await broker.broker_configs.alter(name, change, validate_only=validate_only)
    elif kind == GROUP:
        check_said(context.peer, name)
        where = group_names.home_of(name)
        await broker.group_configs.alter(
            name, _with_letters(broker, context, where, change), validate_only=validate_only
        )
    elif kind == CLIENT_METRICS:
        _check_for_all(context)
        await broker.client_metrics.alter(name, change, validate_only=validate_only)
    else:
        raise KafkaError(Error.INVALID_REQUEST, f"Configs of resource type {kind} cannot be altered yet.")


def _with_letters(
    broker: Broker, context: Context, where: Namespace, change: Callable[[dict[str, str]], dict[str, str]]
) -> Callable[[dict[str, str]], dict[str, str]]:
    """The same change, if its client may say so of what it says anew. What it makes raises KafkaError."""

    def allowed(old: dict[str, str]) -> dict[str, str]:
        new = change(old)
        said = {key: value for key, value in new.items() if old.get(key) != value}
        check_letters(broker, context.peer, where, said)
        return new

    return allowed


def _check_for_all(context: Context) -> None:
    """Raises KafkaError for a client of one namespace."""
    if context.peer.prefix:
        raise KafkaError(
            Error.CLUSTER_AUTHORIZATION_FAILED,
            f"This listener is for the namespace {context.peer.namespace}, and this config of the broker is for all.",
        )
