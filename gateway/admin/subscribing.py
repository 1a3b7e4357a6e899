"""Subscriptions listed, made, and what they say of themselves: names, create, properties. Named in `routes.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.admin import group_consumers, groups
from gateway.admin.exchange import DONE, Call, RefusedError, Reply, done, json
from gateway.admin.places import commit_offsets, has_committed, named_subscription, start_of, whole
from gateway.admin.refusals import check_called, check_tenant
from gateway.admin.slices import Pace
from gateway.admin.topic_names import said, told
from gateway.admin.topics import Found, found_by
from gateway.broker.catalog import MOST_LANES
from gateway.broker.errors import KafkaError
from gateway.broker.loading import until_loaded
from gateway.broker.new_topics import as_base
from gateway.broker.policies import check_topics
from gateway.broker.queues.making import New
from gateway.broker.share_groups import stored
from gateway.broker.subscriptions import letter_names
from gateway.config import subscription_configs
from gateway.config.group_table import NAME_TOPICS
from gateway.not_served import sentence
from gateway.wire.errors import Error
from semantics.names import dotted, of_catalog
from semantics.policies import SHARING_TYPES, TYPE_NAMES

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.coordinators.classic_events import Plain
    from semantics.names import Namespace
    from store.pending import Pending

TYPES = tuple(TYPE_NAMES)


async def names(context: Context, call: Call) -> Reply:
    """The names of a topic's subscriptions. With `details` (Magnetar's own) an object for each: its type, the configs
    that are not its group's, its properties.
    """
    broker = context.broker
    found = await found_by(broker, call)
    there = sorted(await names_of(broker, found))
    if not call.flag("details"):
        return json(there)
    listed: list[dict[str, object]] = []
    pace = Pace()
    for name in there:
        await pace.rest()
        row = broker.subscriptions.row(name, found.topic.name)
        if row is None:
            kind = group_consumers.type_of(broker, name)
            listed.append({"subscription": name, "type": kind, "overrides": {}, "properties": {}})
            continue
        kind = broker.subscriptions.configs.of(row).subscription.type
        listed.append(
            {
                "subscription": name,
                "type": TYPE_NAMES[kind],
                "overrides": told(broker.subscriptions.configs.own(row)),
                "properties": told(row.properties),
            }
        )
    return json(listed)


async def names_of(broker: Broker, found: Found) -> set[str]:
    """Groups that have a cursor on the topic, or have committed an offset of it."""
    topic = found.topic
    there = {row.group async for row in broker.subscriptions.each_of_topic(topic.topic_id)}
    pace = Pace()
    for listed in await groups.listing(broker):
        await pace.rest()
        if not broker.catalog.namespaces.shows(listed.group_id, topic.name):
            continue
        if await has_committed(broker, topic, listed.group_id):
            there.add(listed.group_id)
    return there


async def create(context: Context, call: Call) -> Reply:
    """Make a subscription that begins at the message id in the body (latest without one), with its `properties`.

    `type` is shared, key_shared, exclusive or failover; without one the group's configs say, which is shared unless
    they were changed. An exclusive or failover one is a consumer group's, and the group has that type from then on. As
    with Pulsar's clients a new Shared or Key_Shared subscription has no ack timeout and lets a nacked message wait a
    minute, unless the group or the properties say otherwise. `enableRetry=true` makes its RETRY topic.

    `lanes` (Magnetar's own) makes its queue topic with so many lanes: consumer groups are served then, and no share
    groups. A subscription that is there already and that nobody reads is served by them from then on: it stays where it
    stands, whatever the body says, and what it is. So it goes on where a consumer group stands that has read the topic
    itself until now. Then the answer is `{"kept": true}`.
    """
    broker = context.broker
    found, name = whole(await found_by(broker, call)), call.path[5]
    kind = call.query.get("type", "").lower()
    if kind and kind not in TYPES:
        raise RefusedError(
            400, f"The type of a subscription is one of {', '.join(TYPES)}; not {kind[:40]!r}."
        )
    if not name:
        raise RefusedError(412, "A subscription has a name.")
    if call.flag("replicated"):
        raise RefusedError(501, sentence("topics", "create-subscription --replicated") or "")
    body = call.json()
    properties = said(broker, _properties(body.get("properties") if isinstance(body, dict) else None))
    _check_configs(call, found, properties)
    retries = call.flag("enableRetry")
    topic = found.topic
    lanes = call.whole_number("lanes", 1, MOST_LANES)
    of_group = bool(kind) and kind not in SHARING_TYPES
    if lanes and of_group:
        raise RefusedError(400, "A subscription that lanes serve is shared or key_shared.")
    there = RefusedError(
        409,
        f"{found.name} has a subscription {name} already."
        + (" Leave properties and --enableRetry out to have lanes serve it from now on." if lanes else ""),
    )
    existing = broker.subscriptions.by_id(name, topic.topic_id)
    if existing is not None and lanes and not properties and not retries:
        await broker.queues.make(topic.name, name, lanes, {subscription_configs.TYPE: kind} if kind else {})
        return json({"kept": True})
    committed = await has_committed(broker, topic, name)
    if existing is not None or (committed and not lanes):
        raise there
    starts = [start_of(broker.partition(topic, index), call) for index in range(len(topic.partitions))]
    if of_group:
        if properties or retries:
            raise RefusedError(
                501,
                f"Such a subscription ({kind}) is a consumer group: it keeps no properties and has no RETRY topic.",
            )

        def typed(old: dict[str, str]) -> dict[str, str]:
            return {**old, subscription_configs.TYPE: kind}

        await broker.group_configs.alter(name, typed, validate_only=True)
        try:
            await commit_offsets(broker, found, name, dict(enumerate(starts)))
        except KafkaError as error:
            if error.code != Error.INCONSISTENT_GROUP_PROTOCOL:
                raise
            raise RefusedError(
                409, f"{name} is a share group, and cannot be a consumer group as well: choose another name."
            ) from None
        # last: what is refused leaves the group as it was
        await broker.group_configs.alter(name, typed)
        return DONE
    group = broker.group_configs.own(name)
    overrides = {subscription_configs.TYPE: kind} if kind else {}
    if kind and properties.get(subscription_configs.TYPE, kind) != kind:
        raise RefusedError(400, f"The type is {kind}, and {subscription_configs.TYPE} says another.")
    if letter_names.base_of_retries(broker.catalog, broker.group_configs.get(name), name, topic.name) is None:
        overrides |= subscription_configs.as_pulsars(group, properties)
    problem = subscription_configs.check(properties, group, overrides, broker.settings)
    if problem is not None:
        raise RefusedError(412, problem)
    retry_topic = broker.group_configs.get(name).retries_of(name, topic.name) if retries else None
    if lanes:
        if retry_topic is not None:
            _check_retries(broker, topic, retry_topic, lanes)
        new = New(overrides, properties, None if committed else starts)
        await broker.queues.make(topic.name, name, lanes, new=new)
        if retry_topic is not None:
            await broker.subscriptions.make_retries(name, topic.name, retry_topic)
        return json({"kept": True}) if committed else DONE
    # it is stored with the subscription, or not at all: a group that is there keeps its id from consumer groups
    group_made: list[Pending[Plain]] = []
    try:
        await until_loaded(lambda: broker.share_groups.get(name))
        if not await broker.subscriptions.make(
            *(name, topic.name, starts, overrides, properties, retry_topic),
            beside=lambda: group_made.append(broker.share_groups.made(name)),
        ):
            raise there
        for each in group_made:
            await stored(each)
    except KafkaError as error:
        if error.code != Error.GROUP_ID_NOT_FOUND:
            raise
        raise RefusedError(
            409,
            f"{name} is a consumer group, and cannot be a share group as well. With --lanes N its consumers read the"
            " subscription through a queue topic; or choose another name.",
        ) from None
    if retry_topic is not None:
        # one that was there already
        await broker.subscriptions.ensure(
            name, retry_topic, [0] * len(broker.topics.get(retry_topic).partitions)
        )
    return DONE


def _check_retries(broker: Broker, topic: Topic, retries: str, lanes: int) -> None:
    """Whether a RETRY topic may be made after a queue topic with so many lanes. Raises KafkaError."""
    if broker.catalog.get(retries) is not None:
        return
    more = len(topic.partitions)
    broker.topics.new.check(retries, more, as_base(topic))
    namespaces = broker.catalog.namespaces
    namespace = namespaces.full(retries).namespace
    if namespace == namespaces.full(topic.name).namespace:
        check_topics(broker, broker.catalog, namespace, lanes, more)


async def create_over(context: Context, call: Call) -> Reply:
    """Make the queue topic over a `pattern` of topics, with so many `lanes`, and the subscription on all that match. It
    begins at the `latest` record, or the `earliest`, of topics on which it is not there yet. The answer says how
    the queue topic is called, and over how many topics it is. (Magnetar's own.)
    """
    name, body = call.path[2], call.json()
    asked = body if isinstance(body, dict) else {}
    pattern = asked.get("pattern")
    if not isinstance(pattern, str) or not pattern:
        raise RefusedError(400, 'The body says over which topics it is, such as {"pattern": "orders-.*"}.')
    begin = asked.get("position", "latest")
    if begin not in ("earliest", "latest"):
        raise RefusedError(400, "The position in many topics is earliest or latest.")
    kind = call.query.get("type", "").lower()
    if kind not in ("", "shared", "key_shared"):
        raise RefusedError(400, f"The type is shared or key_shared; not {kind[:40]!r}.")
    properties = said(context.broker, _properties(asked.get("properties")))
    if kind and properties.get(subscription_configs.TYPE, kind) != kind:
        raise RefusedError(400, f"The type is {kind}, and {subscription_configs.TYPE} says another.")
    lanes = call.whole_number("lanes", 1, MOST_LANES)
    if not lanes:
        raise RefusedError(400, "A subscription over a pattern is served by lanes: say how many.")
    overrides = {**properties, subscription_configs.TYPE: kind} if kind else properties
    broker = context.broker
    over = broker.queues.patterned.pattern_of(pattern)
    check_tenant(call, over.namespace.tenant)
    _check_letters(call, over.namespace, properties)
    check_called(call, broker, letter_names.queue_over(over.namespace, name))
    made = await broker.queues.make_over(name, over, lanes, overrides, begin)
    return done(queue=dotted(made.name), topics=len(broker.queues.patterned.bases(made)))


async def properties_of(context: Context, call: Call) -> Reply:
    """What is kept with a subscription: exactly what was given to it."""
    at = await named_subscription(context.broker, call)
    row = context.broker.subscriptions.row(at.name, at.found.topic.name) if at.shared else None
    return json(told(row.properties) if row is not None else {})


async def update_properties(context: Context, call: Call) -> Reply:
    """The properties in the body take the place of those there are; an empty object leaves none."""
    broker = context.broker
    at = await named_subscription(broker, call)
    whole(at.found)
    properties = said(broker, _properties(call.json()))
    _check_configs(call, at.found, properties)
    if at.shared:
        await broker.subscriptions.configs.alter_properties(at.name, at.found.topic.name, properties)
    elif properties:
        raise RefusedError(501, f"{at.name} is a consumer group: it keeps no properties.")
    return DONE


def _check_configs(call: Call, found: Found, properties: dict[str, str]) -> None:
    """A property that is a config of the subscription may name topics that it writes to: who may only consume does not
    set it. Refuses with 403."""
    if not subscription_configs.NAMES.isdisjoint(properties):
        check_tenant(call, found.name.namespace.tenant)
        _check_letters(call, found.name.namespace, properties)


def _check_letters(call: Call, namespace: Namespace, properties: dict[str, str]) -> None:
    """Letters stay in the namespace, for who may not do everything. Refuses with 412."""
    for name in NAME_TOPICS & properties.keys() if call.asker.checked else ():
        where = of_catalog(properties[name]).namespace
        if where != namespace:
            raise RefusedError(
                412,
                f"{name} names a topic of {where}, and letters of {namespace} stay in {namespace}: write"
                f" {namespace}/ before the topic.",
            )


def _properties(value: object) -> dict[str, str]:
    """The properties in a body. Refuses what is no object of texts with 400."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise RefusedError(400, 'Properties are an object with texts, such as {"team": "billing"}.')
    return value
