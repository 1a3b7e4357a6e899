"""/ui/find?q=: where a topic, a subscription, a transactional id or a message is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from gateway.admin import ranked
from gateway.admin.slices import Pace
from gateway.console import sought, transactions_page
from gateway.console.visit import ROWS, topic_parts, url
from semantics.command_line import line
from semantics.console.ranking import Order
from semantics.group_names import shown
from semantics.names import DEFAULT, NON_PERSISTENT, NamingError, canonical, is_local, parse

if TYPE_CHECKING:
    from gateway.admin.exchange import Reply
    from gateway.broker.catalog import Topic
    from gateway.console.visit import Visit

BUDGET_SECONDS = 0.2
"""Of the loop's time for one search, in slices."""
PAGE = 100
TRANSACTIONS = 20
"""Transactional ids that are shown."""

_BEFORE = f"{NON_PERSISTENT}://{DEFAULT}/"
"""The longest that stands before what the catalog calls a topic when its name is written out: what is sought and is
neither in this nor has a slash is in the catalog's name, or not in the topic's at all.
"""
_MESSAGE = re.compile(
    r"(?P<topic>\S+?)(?:-partition-|[ :])(?P<partition>[0-9]{1,9})[ :@](?P<offset>[0-9]{1,18})"
)
"""orders-partition-4:4711, orders:4:4711, orders 4 4711"""


async def show(visit: Visit) -> Reply:
    """What is found; where that is but one name, and just what was said, its page at once. What is only a part of a
    name may be in messages as well.
    """
    said = visit.query.get("q", "").strip()[:300]
    if (at := _message(visit, said)) is not None:
        return visit.to(at)
    exact = _exact(visit, said)
    subscriptions, one_is_so, all_of_them = await _subscriptions(visit, said) if said else ([], False, True)
    if exact is not None and not one_is_so:
        return visit.to(exact)
    topics, looked, whole = await _topics(visit, said) if said else ([], 0, True)
    transactions = await _transactions(visit, said) if said else []
    # where it is known to be the only one
    only = len(topics) + len(subscriptions) + len(transactions) == 1 and whole and all_of_them
    if only and (subscriptions or transactions):
        (one,) = subscriptions or transactions
        if one["name"] == said:
            return visit.to(one["url"])
    found = await sought.messages(visit, said) if said else None
    return await visit.page(
        "find.html",
        title=f"Found for “{said}”" if said else "Find",
        said=said,
        topics=topics,
        subscriptions=subscriptions,
        all_of_them=all_of_them,
        transactions=transactions,
        found=found,
        looked=looked,
        whole=whole,
        command=(found.command if found else "") or line("topics", "list", "public/default"),
    )


def _topic(visit: Visit, said: str) -> Topic | None:
    """The topic that is called so, if the caller may see it."""
    catalog = visit.context.broker.catalog
    for name in (_canonical(said), catalog.said(said) if is_local(said) else ""):
        found = catalog.get(name) if name else None
        if found is not None and visit.asker.sees(found.name):
            return found
    return None


def _canonical(said: str) -> str:
    """What the catalog calls a topic of this name; "" for what is no name."""
    try:
        return canonical(parse(said))
    except NamingError:
        return ""


def _url(visit: Visit, topic: Topic) -> tuple[str, str]:
    full = str(visit.context.broker.catalog.full_of(topic))
    return full, url("t", *topic_parts(full)[1:])


def _exact(visit: Visit, said: str) -> str | None:
    topic = _topic(visit, said)
    return _url(visit, topic)[1] if topic is not None else None


def _message(visit: Visit, said: str) -> str | None:
    found = _MESSAGE.fullmatch(said)
    topic = _topic(visit, found["topic"]) if found is not None else None
    if found is None or topic is None or int(found["partition"]) >= max(len(topic.partitions), 1):
        return None
    parts = topic_parts(_url(visit, topic)[0])[1:]
    return url("m", *parts, found["partition"], found["offset"])


async def _topics(visit: Visit, said: str) -> tuple[list[dict[str, Any]], int, bool]:
    """Topics whose names have this in them: (ROWS at most, how many were looked at, whether those were all)."""
    broker, wanted = visit.context.broker, said.lower()
    # most names need not be written out for that
    whole_name = "/" in wanted or wanted in _BEFORE
    found: list[dict[str, Any]] = []
    looked, start, pace = 0, "", Pace()
    while True:
        page = list(broker.catalog.topics(start, PAGE))
        for topic in page:
            if not visit.asker.sees(topic.name):
                continue
            looked += 1
            if not whole_name and wanted not in topic.name.lower():
                continue
            full = str(broker.catalog.full_of(topic))
            if wanted in full.lower() and not topic.internal:
                found.append({"name": full, "url": url("t", *topic_parts(full)[1:])})
                if len(found) == ROWS:
                    return found, looked, False
        if len(page) < PAGE:
            return found, looked, True
        start = page[-1].name + "\0"
        if pace.spent > BUDGET_SECONDS:
            return found, looked, False
        await pace.rest()


async def _subscriptions(visit: Visit, said: str) -> tuple[list[dict[str, Any]], bool, bool]:
    """Share groups and consumer groups with this in their names, on topics that the caller may see, by topic: (ROWS at
    most, whether any is called just so, whether the first are all).
    """
    sums, catalog, wanted = visit.context.sums, visit.context.broker.catalog, said.casefold()
    await sums.until_whole(ranked.WAIT_S)
    await sums.sweep(ranked.AT_ONCE)
    found: list[dict[str, Any]] = []
    one_is_so = more = False
    pace, place = Pace(), None
    while pace.spent < BUDGET_SECONDS:
        some = sums.ranking.behind(Order.NAME, place, ranked.STRETCH)
        for _, each in some:
            name = shown(each.group, catalog.namespaces.home_of(each.topic))
            if wanted not in name.casefold() or not visit.asker.sees(each.topic):
                continue
            one_is_so = one_is_so or name == said
            more = len(found) == ROWS
            if more:
                continue
            full = str(catalog.full(each.topic))
            at = url("s", *topic_parts(full)[1:], name)
            found.append({"name": name, "type": each.type, "topic": full, "url": at})
        if len(some) < ranked.STRETCH:
            return found, one_is_so, sums.whole and not more
        place = some[-1][0]
        await pace.rest()
    return found, one_is_so, False


async def _transactions(visit: Visit, said: str) -> list[dict[str, str]]:
    """Transactional ids with this in them, and where each is shown."""
    page, _ = await visit.try_get("magnetar", "transactions", state="any", q=said, limit=str(TRANSACTIONS))
    return [
        {
            "name": each["transactionalId"],
            "word": transactions_page.WORDS.get(each["state"], each["state"]),
            "url": "/ui/transactions?" + urlencode({"state": "any", "q": each["transactionalId"]}),
        }
        for each in (page or {}).get("transactions", ())
    ]
