"""/ui/t/{tenant}/{namespace}/{topic}: who is where, and which policy comes from which level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.admin.exchange import RefusedError
from gateway.console import charted, shown
from gateway.console.lines import topic_word
from gateway.console.standing import STATES, seen
from gateway.console.visit import LIVE, ROWS, url
from semantics.command_line import line
from semantics.names import dotted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.admin.exchange import Reply
    from gateway.admin.routes import Key
    from gateway.console.visit import Visit


READ: Key = ("GET", "topic", "examinemessage")
"""What it takes to look at a message."""
POLICIES: Key = ("GET", "topic", "policies")


class Place(NamedTuple):
    """A topic that a path names, with all of its partitions."""

    domain: str
    tenant: str
    namespace: str
    local: str

    @property
    def path(self) -> tuple[str, str, str, str]:
        """In the admin API."""
        return self.domain, self.tenant, self.namespace, self.local

    @property
    def full(self) -> str:
        """Its full name."""
        return f"{self.domain}://{self.tenant}/{self.namespace}/{self.local}"

    def last_read(self, origin: Mapping[str, Any]) -> tuple[int, int, str]:
        """Partition and offset that a letter was last read from, by its `origin`, and the topic where that is another:
        what came again by RETRY has died there. What a client has written may say a part of it, or nothing: -1 and -1.
        """
        topic, partition, offset = origin["topic"], origin["partition"], origin["offset"]
        if not topic or partition < 0 or offset < 0:
            return -1, -1, ""
        own = dotted(topic) in (dotted(self.local), dotted("/".join(self.path[1:])))
        return partition, offset, "" if own else shown.visible(topic, lines=False)[:100]

    @property
    def word(self) -> str:
        """As one types it."""
        return topic_word(*self)

    def partition_word(self, index: int, partitioned: bool) -> str:
        return f"{self.word}-partition-{index}" if partitioned else self.word

    def word_of(self, partition: str) -> str:
        """Of the partition that a query says; of the topic where it says none, or what is none."""
        known = partition.isascii() and partition.isdigit() and len(partition) < 10
        return self.partition_word(int(partition), True) if known else self.word

    def partition_path(self, index: int, partitioned: bool) -> tuple[str, str, str, str]:
        return (*self.path[:3], f"{self.local}-partition-{index}" if partitioned else self.local)

    def url(self, *more: str | int) -> str:
        return url("t", self.tenant, self.namespace, self.local, *more)

    def subscription_url(self, name: str, *more: str | int) -> str:
        return url("s", self.tenant, self.namespace, self.local, name, *more)

    def message_url(self, partition: int, offset: int) -> str:
        return url("m", self.tenant, self.namespace, self.local, partition, offset)

    def crumbs(self) -> list[tuple[str, str]]:
        space = f"{self.tenant}/{self.namespace}"
        return [("Topics", url("topics")), (space, f"{url('topics')}?namespace={space}")]


def place_of(visit: Visit, tenant: str, namespace: str, local: str) -> Place:
    return Place(visit.domain(tenant, namespace, local), tenant, namespace, local)


class Stats(NamedTuple):
    """What the admin API tells of a topic."""

    whole: dict[str, Any]
    # by index; of a plain topic itself
    partitions: list[dict[str, Any]]
    partitioned: bool


async def stats_of(visit: Visit, place: Place) -> Stats:
    """Refuses what is not there."""
    metadata = await visit.get(*place.path, "partitions")
    if not metadata["partitions"]:
        whole = await visit.value(*place.path, "stats")
        return Stats(whole, [whole], False)
    whole = await visit.value(*place.path, "partitioned-stats")
    return Stats(whole, list(whole["partitions"].values()), True)


def states_of(stats: dict[str, Any]) -> dict[str, int]:
    """Open messages of a subscription by state, those that there are."""
    its = stats.get("magnetar", {})
    counts = {**its.get("states", {}), "unread": its.get("unread", 0)}
    if "states" not in its:
        # a consumer group knows no more than how far it is
        counts = {"unread": stats["msgBacklog"]}
    return {name: counts[name] for name in STATES if counts.get(name)}


def connected(stats: dict[str, Any]) -> int:
    """How many consumers of a subscription are connected. To a cursor each lane is one, whether somebody has it or
    not: there it is the members that have lanes.
    """
    queue = stats.get("magnetar", {}).get("queue")
    if queue is None:
        return len(stats["consumers"])
    return len({each["member"] for each in queue["lanes"] if "member" in each})


async def show(visit: Visit, tenant: str, namespace: str, local: str) -> Reply:
    """The page."""
    place = place_of(visit, tenant, namespace, local)
    stats = await stats_of(visit, place)
    policies, why_no_policies = await visit.get_if_may(POLICIES, *place.path, "policies")
    start, wrong_start = visit.number("from", max(len(stats.partitions) - 1, 0))
    # what waits for its key is in no stats
    kept = {each.name: each.states for each in (await seen(visit, "open", topic=place.word)).found}
    subscriptions = [
        {
            "name": name,
            "url": place.subscription_url(name),
            "states": kept.get(name) or states_of(each),
            "connected": connected(each),
            **each,
        }
        for name, each in sorted(stats.whole["subscriptions"].items(), key=lambda one: -one[1]["msgBacklog"])
    ]
    partitions = [
        {
            "index": index,
            "start": each["magnetar"]["logStartOffset"],
            "end": each["magnetar"]["highWatermark"],
            "open": max([one["msgBacklog"] for one in each["subscriptions"].values()], default=0),
            "rate": each["msgRateIn"],
            "size": each["storageSize"],
        }
        for index, each in enumerate(stats.partitions[start : start + ROWS], start)
    ]
    shared = [each["name"] for each in subscriptions if each.get("magnetar", {}).get("states")]
    _, wrong_span = charted.span_of(visit)
    wrong = f"{wrong_start} {wrong_span}".strip()
    verb = "partitioned-stats" if stats.partitioned else "stats"
    return await visit.page(
        "topic.html",
        400 if wrong else 200,
        live=0 if wrong else LIVE,
        wrong=wrong,
        did=visit.note(),
        title=local,
        section="topics",
        crumbs=place.crumbs(),
        place=place,
        stats=stats,
        subscriptions=subscriptions[:ROWS],
        more_subscriptions=len(subscriptions) - ROWS,
        charts=await charted.of_topic(visit, place.path, place.word, shared) if shared else None,
        partitions=partitions,
        start=start,
        end=start + len(partitions),
        rows=ROWS,
        policies=[{**each, "says": says(each)} for each in policies] if policies is not None else None,
        why_no_policies=why_no_policies,
        command=line("topics", verb, place.word),
        policies_command=line("topicPolicies", "list", place.word),
        may_read=await visit.may(READ, *place.path, "examinemessage"),
        may_delete=visit.writes and await visit.may(("DELETE", "topic", ""), *place.path),
    )


_UNITS = {"retentionTimeInMinutes": 60_000, "message-ttl": 1000, "limitTime": 1000}
"""Milliseconds in the unit of a policy, by its field or by its name."""


def says(policy: dict[str, Any]) -> str:
    """A length of time or a size as people say it; "" for what says it by itself."""
    value, name = policy["value"], policy.get("field") or policy["policy"]
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        return ""
    if name == "retentionSizeInMB":
        return shown.size(value * 1024 * 1024)
    return shown.age(value * _UNITS[name]) if name in _UNITS else ""


def index_of(text: str, what: str) -> int:
    """A number of a path. Refuses what is none with 404."""
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise RefusedError(404, f"{text[:40]!r} is no {what}.")
    return int(text)
