"""Backlogs as `topics list --lag` and `topics subscriptions --lag` show them: a line for each subscription."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click

from gateway.cli.admin_client import HOME, AdminError, Client, topic_path
from gateway.cli.admin_options import Options
from gateway.cli.admin_output import columns

PAGE = 10_000
"""Topics that are asked for at once."""

SORTS = ("name", "backlog", "age")
HEADS = ["topic", "subscription", "type", "backlog", "delayed", "oldest", "consumers"]

Lag = dict[str, Any]


def show_topics(options: Options, namespace: str, subscription: str | None, system: bool, sort: str) -> None:
    """Every topic of a namespace. By name they are printed page by page. Raises AdminError."""
    pages = _pages(options.client(), namespace, subscription, system)
    if options.output != "json" and sort == "name":
        found = _show_by_page(pages, subscription)
        _must_be_somewhere(found, subscription)
        return
    topics = [topic for page in pages for topic in page]
    if options.output == "json":
        options.show(topics)
        return
    _must_be_somewhere(bool(topics), subscription)
    lines = [line for topic in topics for line in _lines(topic)]
    lines.sort(key=lambda line: _order(line, sort), reverse=True)
    click.echo(columns(HEADS, [_cells(*line) for line in lines]))


def show_topic(options: Options, topic: str) -> None:
    """One topic. Raises AdminError."""
    found = options.client().get(topic_path(topic) + "/lag")
    if options.output == "json":
        options.show(found)
    else:
        click.echo(columns(HEADS, [_cells(*line) for line in _lines(found)]))


def _pages(client: Client, namespace: str, subscription: str | None, system: bool) -> Iterator[list[Lag]]:
    after: str | None = ""
    while after is not None:
        query: dict[str, str | bool] = {
            "namespace": namespace,
            "after": after,
            "limit": str(PAGE),
            "includeSystemTopic": system,
        }
        if subscription:
            query["subscription"] = subscription
        answer = client.get("magnetar/lag", **query)
        if not isinstance(answer, dict) or "topics" not in answer:
            raise AdminError(f"{client.url} does not answer like a Magnetar gateway.")
        yield answer["topics"]
        after = answer.get("next")


def _must_be_somewhere(found: bool, subscription: str | None) -> None:
    if subscription and not found:
        raise AdminError(f"No topic has a subscription {subscription}.")


def _show_by_page(pages: Iterator[list[Lag]], subscription: str | None) -> bool:
    """Whether there was something to show. The widths of the first columns hold for all pages, as far as they can."""
    widths: list[int] = []
    found = False
    for page in pages:
        cells = [_cells(*line) for topic in page for line in _lines(topic)]
        found = found or bool(cells)
        if not widths and (cells or not subscription):
            rows = [HEADS, *cells]
            widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
            click.echo(columns(HEADS, cells, widths))
        elif cells:
            click.echo(columns(None, cells, widths))
    return found


Line = tuple[Lag, Lag | None]


def _lines(topic: Lag) -> list[Line]:
    """A topic that nobody subscribes to has a line as well."""
    return [(topic, subscription) for subscription in topic["subscriptions"]] or [(topic, None)]


def _order(line: Line, sort: str) -> int:
    _, subscription = line
    if subscription is None:
        return -1
    if sort == "backlog":
        return int(subscription["msgBacklog"])
    return _age_ms(subscription)


def _cells(topic: Lag, subscription: Lag | None) -> list[str]:
    name = str(topic["topic"]).removeprefix(HOME)
    if subscription is None:
        return [name, "-", "-", "-", "-", "-", "-"]
    waits = _age_ms(subscription)
    return [
        name,
        subscription["name"],
        subscription["type"],
        str(subscription["msgBacklog"]),
        str(subscription["msgDelayed"]),
        age(waits) if waits >= 0 else "-",
        str(subscription["consumersCount"]),
    ]


def _age_ms(subscription: Lag) -> int:
    """For how long the oldest message could have been delivered; -1 without one."""
    if "oldestAgeSeconds" in subscription:
        return int(subscription["oldestAgeSeconds"]) * 1000 if subscription["oldestAgeSeconds"] >= 0 else -1
    # an older gateway knows when it was published
    earliest = int(subscription["earliestMsgPublishTimeInBacklog"])
    return _now_ms() - earliest if earliest >= 0 else -1


def age(ms: int) -> str:
    """`0s`, `59s`, `59m`, `23h`, `400d`: whole units of the largest that fits."""
    seconds = max(ms, 0) // 1000
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _now_ms() -> int:
    return int(time.time() * 1000)
