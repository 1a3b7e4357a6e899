"""Subscriptions in an order, a page at a time, and what needs attention: from sums that are kept as they change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.admin.exchange import Call, RefusedError, Reply, iso, json
from gateway.admin.findings import shown as shown_finding
from gateway.admin.mishaps import mishaps
from gateway.admin.slices import Pace, turn
from gateway.admin.topics import namespace_of
from semantics.console import ranking
from semantics.console.attention import RULES, Finding
from semantics.console.ranking import Order, Place
from semantics.console.standing import NEVER, Standing
from semantics.console.together import together
from semantics.group_names import bare
from semantics.names import NamingError, canonical, dotted, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.admin.asker import Asker
    from gateway.admin.context import Context
    from gateway.broker.broker import Broker
    from semantics.console.together import Several
    from semantics.names import Namespace

PAGE, LARGEST_PAGE = 50, 1_000
"""Subscriptions in an answer."""
STRETCH = 200
"""Places that are looked at in one go."""
MOST_LOOKED = 20_000
"""Places that are looked at for a page: what matches a filter behind these is found by the next call."""
WAIT_S = 5.0
"""Seconds that a call waits for the first look at everything, after a start."""
KEPT_AFTER = 4096
"""Characters of `after` at most."""

_STATES = {"in_hand": "inHand"}
_NAMES = ("unread", "available", "in_hand", "blocked", "backoff", "delayed", "dying")


class Filter(NamedTuple):
    """What of all is asked for. `sees` says whether the caller may see a topic: no other is part of any list."""

    asker: Asker
    namespace: Namespace | None
    topic: str | None
    text: str

    def takes(self, broker: Broker, topic: str, group: str) -> bool:
        if self.topic is not None and topic != self.topic:
            return False
        if self.namespace is not None and broker.catalog.namespaces.full(topic).namespace != self.namespace:
            return False
        if not self.text:
            return True
        return any(self.text in each.casefold() for each in (dotted(topic), bare(group)))

    def sees(self, topic: str) -> bool:
        return self.asker.sees(topic)


async def subscriptions(context: Context, call: Call) -> Reply:
    """A page of the Shared and Key_Shared subscriptions and of what consumer groups read: `{"subscriptions": […],
    "next": "…"}`, without `next` at the end. (Magnetar's own.)

    `sort` is oldest (who waits longest comes first), open, deadLetters or name; `after` is the `next` of the page
    before, `limit` how many. `namespace`, `topic` and `q` (a part of the topic's name or the subscription's) leave
    others out. The rows of a page are as they are now; where a change was not told, as they were ten seconds ago at
    most. What it is sorted by may be some seconds old: `behind` is how many have changed since they were sorted, for
    who may see all. `of` is how many there are that the caller may see, `looked` at how many of them was looked for
    this page. `atLeast` is true while not all were looked at, after a start.
    """
    order = call.query.get("sort", Order.OLDEST)
    if order not in list(Order):
        raise RefusedError(400, f"The order is one of {', '.join(Order)}; not {order[:40]!r}.")
    limit = call.whole_number("limit", 1, LARGEST_PAGE, PAGE)
    wanted = _filter(context.broker, call)
    page = await page_of(context, Order(order), _after(call, Order(order)), limit, wanted)
    wall, pace = context.broker.clock.wall_ms(), Pace()
    found: list[dict[str, Any]] = []
    for each in page.found:
        found.append(shown(context.broker, each, wall))
        await pace.rest()
    answer: dict[str, Any] = {
        "subscriptions": found,
        "of": await total(context, call.asker),
        "looked": page.looked,
    }
    if not call.asker.checked:
        answer["behind"] = context.sums.behind
    if not context.sums.whole:
        answer["atLeast"] = True
    if page.next is not None:
        answer["next"] = ranking.written(Order(order), page.next)
    return json(answer)


class Page(NamedTuple):
    """Standings, where to go on behind (None at the end), and at how many places was looked that the caller may see."""

    found: list[Standing]
    next: Place | None
    looked: int


async def page_of(context: Context, order: Order, after: Place | None, limit: int, wanted: Filter) -> Page:
    """Up to `limit` in an order. Raises KafkaError, StoreError."""
    broker, sums = context.broker, context.sums
    await sums.until_whole(WAIT_S)
    await sums.sweep(AT_ONCE)
    pace = Pace()
    places: list[Place] = []
    looked, place, more = 0, after, False
    at = after
    while True:
        some = sums.ranking.behind(order, at, STRETCH)
        for at, _ in some:
            # those that it may not see are no part of the list: neither of its numbers nor of where it goes on
            if not wanted.sees(at[1]):
                continue
            more = len(places) == limit or looked == MOST_LOOKED
            if more:
                break
            looked += 1
            place = at
            if wanted.takes(broker, at[1], at[2]):
                places.append(at)
        if more or len(some) < STRETCH:
            break
        await pace.rest()
    # what is shown is as it is now: what it is sorted by may be older
    await sums.refresh([(topic, group) for _, topic, group in places])
    each = [sums.ranking.get(topic, group) for _, topic, group in places]
    return Page([one for one in each if one is not None], place if more else None, looked)


async def total(context: Context, asker: Asker) -> int:
    """How many subscriptions there are that the caller may see."""
    ranking_ = context.sums.ranking
    if not asker.checked:
        return len(ranking_)
    pace, count = Pace(), 0
    for topic in ranking_.topics():
        if asker.sees(topic):
            count += ranking_.count_on(topic)
        await pace.rest()
    return count


AT_ONCE = 500
"""Changed subscriptions that are looked at before a page: it shows what was made just now."""


def _after(call: Call, order: Order) -> Place | None:
    text = call.query.get("after", "")
    if not text:
        return None
    try:
        return ranking.read(order, text[:KEPT_AFTER])
    except ValueError as error:
        raise RefusedError(
            400, f"The parameter after is what the page before gave as next. {error}"
        ) from None


def _filter(broker: Broker, call: Call) -> Filter:
    text = call.query.get("namespace", "")
    namespace = None
    if text:
        tenant, _, name = text.partition("/")
        namespace = namespace_of(broker, tenant, name)
    said, topic = call.query.get("topic", ""), None
    if said:
        try:
            full = parse(said)
        except NamingError as error:
            raise RefusedError(412, str(error)) from None
        topic = canonical(full)
        if broker.catalog.get(topic) is None and full.partition >= 0:
            topic = canonical(full.parent)
    return Filter(call.asker, namespace, topic, call.query.get("q", "")[:200].casefold())


def shown(broker: Broker, one: Standing, wall: int) -> dict[str, Any]:
    """A subscription as JSON; `wall` in ms since 1970."""
    full = broker.catalog.full(one.topic)
    found: dict[str, Any] = {
        "topic": str(full),
        "subscription": one.group,
        "namespace": str(full.namespace),
        "type": one.type,
        "partitions": one.partitions,
        "open": one.open,
        "states": {_STATES.get(name, name): getattr(one, name) for name in _NAMES},
        # of those that are not delayed; -1: there is none
        "oldestAgeSeconds": max(wall - one.oldest, 0) // 1000 if one.oldest != NEVER else -1,
        "deadLetters": one.dead_letters,
        "consumers": one.consumers,
    }
    if one.oldest != NEVER:
        found["oldest"] = iso(one.oldest)
    if one.next_due != NEVER:
        found["nextDue"] = iso(one.next_due)
    if one.letters_in:
        # of all whose letters go there
        found["deadLettersIn"] = dotted(one.letters_in)
    if one.full:
        found["fullPartitions"] = list(one.full)
    if one.at_least:
        found["blockedAtLeast"] = True
    return found


# -- attention -----------------------------------------------------------------------------------------------------


async def attention(context: Context, call: Call) -> Reply:
    """What somebody should look at, the most urgent first: `{"findings": […], "next": "…"}`. Each says in a sentence
    what it is, where, since when, how to look at it (`path`, `cli`), and by which `rule` it was found. (Magnetar's
    own.)

    `namespace`, `topic`, `q` and `rule` leave others out; `limit` and `after` choose the page. With `together` three
    and more of one rule about one topic are one, and `findings` says how many.
    """
    rule = call.query.get("rule", "")
    if rule and rule not in RULES:
        raise RefusedError(400, f"The rule is one of {', '.join(RULES)}; not {rule[:40]!r}.")
    limit = call.whole_number("limit", 1, LARGEST_PAGE, PAGE)
    skip = call.query.get("after", "0")
    if not skip.isascii() or not skip.isdigit() or len(skip) > 9:
        raise RefusedError(400, "The parameter after is what the page before gave as next.")
    wanted = _filter(context.broker, call)
    broker = context.broker
    each_ = [one for one in await findings(context, wanted) if one.rule == rule or not rule]
    found: Sequence[Finding | Several] = each_
    if call.flag("together"):
        found = await Pace().drive(together(each_, broker.clock.wall_ms(), dotted, bare))
    page = found[int(skip) : int(skip) + limit]
    answer: dict[str, Any] = {
        "findings": [shown_finding(broker, one) for one in page],
        "of": len(found),
        "looked": await total(context, call.asker),
    }
    if not context.sums.whole:
        answer["atLeast"] = True
    if int(skip) + limit < len(found):
        answer["next"] = str(int(skip) + limit)
    return json(answer)


async def findings(context: Context, wanted: Filter) -> list[Finding]:
    """All that there are, the most urgent first: by rule, then by how long. Raises KafkaError, StoreError."""
    broker, sums = context.broker, context.sums
    await sums.until_whole(WAIT_S)
    await sums.sweep(AT_ONCE)
    pace, found = Pace(), list[Finding]()
    wall = broker.clock.wall_ms()
    for count, (topic, group) in enumerate(sums.attention.suspects()):
        if wanted.takes(broker, topic, group) and wanted.sees(topic):
            found += sums.attention.of(topic, group, wall, dotted, bare)
        if count % 50 == 49:
            await pace.rest()
    found += await mishaps(context, wanted, pace)
    urgent = {rule: number for number, rule in enumerate(RULES)}
    found.sort(key=lambda one: (urgent[one.rule], one.since, one.topic, one.group, one.about))
    await turn()
    return found
