"""`broker-stats topics`: the stats of all topics that are in memory, in Pulsar's shape.

That is namespace, then bundle, then domain, then the full name of each plain topic or partition. Topics that nobody has
used for a minute are rows on the disk, as in Pulsar those are not there that no broker has loaded; `topics stats` tells
of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.admin import groups, stats
from gateway.admin.backlogs import readers_of
from gateway.admin.cluster import BUNDLE
from gateway.admin.exchange import Reply, json_of_tree
from gateway.admin.slices import Pace
from gateway.broker.errors import KafkaError
from gateway.broker.loading import load
from store.api import StoreError, of_partition

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call
    from gateway.broker.group_kinds import Listed
    from gateway.broker.topic_runtime import TopicRuntime

DEPTH = 4
"""Names above the stats of one: namespace, bundle, domain, full name."""

_Topics = dict[str, dict[str, dict[str, dict[str, stats.Stats]]]]


async def topics(context: Context, call: Call) -> Reply:
    """By namespace, bundle, domain and full name."""
    broker = context.broker
    listed = {each.group_id: each for each in await groups.listing(broker)}
    readers = await readers_of(broker)
    found: _Topics = {}
    pace = Pace()
    for runtime in broker.runtimes():
        await pace.rest()
        among = [listed[group] for group in readers.get(runtime.name, ()) if group in listed]
        try:
            await _of_topic(context, runtime, among, found, pace)
        except (KafkaError, StoreError, KeyError, IndexError):
            # it has been deleted meanwhile, or cannot be read: others are told all the same
            continue
    return await json_of_tree(found, DEPTH)


async def _of_topic(
    context: Context, runtime: TopicRuntime, among: list[Listed], found: _Topics, pace: Pace
) -> None:
    broker, topic = context.broker, runtime.topic
    indexes = [index for index, partition in enumerate(runtime.partitions) if partition is not None]
    if not indexes:
        return
    loading = load(broker.store, [of_partition(topic.partitions[index]) for index in indexes])
    if loading is not None:
        await loading
    spans = await stats.spans(context, topic, indexes, pace)
    subscriptions = await groups.subscriptions(broker, topic, spans, among)
    name, extras = broker.catalog.full_of(topic), stats.extras_of(context, topic)
    for index in indexes:
        full = name.with_partition(index) if topic.partitioned else name
        one = await stats.of_partition(context, topic, index, subscriptions[index], extras)
        its = found.setdefault(str(name.namespace), {}).setdefault(BUNDLE, {})
        its.setdefault(name.domain, {})[str(full)] = one
        await pace.rest()
