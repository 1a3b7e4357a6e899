"""`magnetar-admin subscriptions` and `magnetar-admin attention`: which are behind, and what to look at."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import click

from gateway.cli.admin_client import HOME, AdminError, topic_path
from gateway.cli.admin_lag import age
from gateway.cli.admin_options import HELP, Noun, Options, common, pass_options
from gateway.cli.admin_output import columns

SORTS = ("oldest", "open", "deadLetters", "name")
HEADS = [
    "topic",
    "subscription",
    "type",
    "open",
    "oldest",
    "in hand",
    "blocked",
    "waits",
    "dead letters",
    "consumers",
]
CONSUMER_HEADS = ["name", "address", "client id", "version", "since", "in hand", "delivered"]
PAGE = 1_000
"""Rows that are asked for at once."""


@click.group(cls=Noun, name="subscriptions", context_settings=HELP)
def subscriptions() -> None:
    """Subscriptions of all topics: which are behind, who consumes them."""


@subscriptions.command(
    "list",
    context_settings=HELP,
    epilog="""\b
Examples:
  magnetar-admin subscriptions list
  magnetar-admin subscriptions list --sort deadLetters --limit 10
  magnetar-admin subscriptions list -n shop/eu -q billing
  magnetar-admin --output json subscriptions list --topic orders

\b
oldest      for how long the first open message that is not delayed has been deliverable
blocked     messages that wait behind others of their key
waits       messages in backoff or delayed""",
)
@click.option(
    "--sort", type=click.Choice(SORTS), default="oldest", show_default=True,
    help="What comes first: who waits longest, has most open, or most dead letters.",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many at most.")
@click.option("-n", "--namespace", default="", metavar="TENANT/NAMESPACE", help="Only those on its topics.")
@click.option("-t", "--topic", default="", help="Only those of this topic.")
@click.option(
    "-q", "text", default="", metavar="TEXT", help="Only those with this in the topic's name or their own."
)
@click.option("--after", default="", help="Go on behind a page: its `next`, which --output json shows.")
@common
@pass_options
def list_subscriptions(
    options: Options, sort: str, limit: int, namespace: str, topic: str, text: str, after: str
) -> None:
    """Shared and Key_Shared subscriptions and those of consumer groups, with what they have open.

    The rows are as they are now; their order may be some seconds old.
    """
    query = {"sort": sort, "namespace": namespace, "topic": topic, "q": text}
    found, answer = _pages(options, "magnetar/subscriptions", "subscriptions", query, limit, after)
    if options.output == "json":
        options.show({**answer, "subscriptions": found})
        return
    click.echo(columns(HEADS, [_cells(each) for each in found]))
    if answer.get("atLeast"):
        click.echo("The gateway has not looked at all of them yet: ask again.", err=True)
    elif "next" in answer:
        click.echo(f"{len(found):,} of {answer['of']:,}; --limit shows more.", err=True)


@subscriptions.command(
    context_settings=HELP,
    epilog="""\b
Examples:
  magnetar-admin subscriptions consumers orders -s billing
  magnetar-admin --output json subscriptions consumers shop/eu/orders -s billing""",
)
@click.argument("topic")
@click.option("-s", "--subscription", required=True, help="Its name: the group's id.")
@click.option("--limit", type=click.IntRange(1), default=1_000, show_default=True, help="How many at most.")
@common
@pass_options
def consumers(options: Options, topic: str, subscription: str, limit: int) -> None:
    """Who consumes a subscription: from where, with which client, since when.

    TOPIC is a topic, or a partition of one (orders-partition-0).
    """
    path = f"{topic_path(topic)}/subscription/{quote(subscription, safe='')}/magnetar/consumers"
    found, _ = _pages(options, path, "consumers", {}, limit, "")
    if options.output == "json":
        options.show(found)
    else:
        click.echo(columns(CONSUMER_HEADS, [_consumer(each) for each in found]))


@click.command(
    context_settings=HELP,
    epilog="""\b
Examples:
  magnetar-admin attention
  magnetar-admin attention -n shop/eu
  magnetar-admin attention --together
  magnetar-admin attention -t orders --rule nobody
  magnetar-admin --output json attention

\b
What is told, the most urgent first:
  nobody       messages wait, and no consumer is connected
  full         a partition delivers nothing, since too many messages are unacknowledged
  transaction  readers of committed records wait for a transaction that is open for long
  blocked      messages wait behind earlier ones of their keys
  idle         messages wait, and no consumer has any in hand
  dying        dead letters cannot be stored
  job          a replay or a discard of dead letters ended by itself, and has not done all
  deadLetters  there are new dead letters
  letters      there are dead letters that nobody has replayed or discarded""",
)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many at most.")
@click.option("-n", "--namespace", default="", metavar="TENANT/NAMESPACE", help="Only of its topics.")
@click.option("-t", "--topic", default="", help="Only of this topic.")
@click.option("--rule", default="", help="Only what was found by this rule.")
@click.option("--together", is_flag=True, help="Three and more of one rule about one topic as one.")
@common
@pass_options
def attention(options: Options, limit: int, namespace: str, topic: str, rule: str, together: bool) -> None:
    """What somebody should look at: a sentence each, and the command that looks at it.

    Nothing is printed when there is nothing.
    """
    query = {
        "namespace": namespace, "topic": topic, "rule": rule, "together": "true" if together else "",
    }  # fmt: skip
    found, answer = _pages(options, "magnetar/attention", "findings", query, limit, "")
    if options.output == "json":
        options.show({**answer, "findings": found})
    elif options.output == "table":
        cells = [[each["rule"], each["since"], each["sentence"], each["cli"]] for each in found]
        click.echo(columns(["rule", "since", "what", "look at it by"], cells))
    else:
        for each in found:
            click.echo(f"{each['sentence']}\n    {each['cli']}")
        if len(found) < answer["of"]:
            click.echo(f"{len(found):,} of {answer['of']:,}; --limit shows more.", err=True)


def _pages(
    options: Options, path: str, key: str, query: dict[str, str], limit: int, after: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows up to a limit, page by page, and what the last page says beside them. Raises AdminError."""
    client = options.client()
    found: list[dict[str, Any]] = []
    asked = {name: value for name, value in query.items() if value}
    while True:
        more = {**asked, "limit": str(min(limit - len(found), PAGE))}
        if after:
            more["after"] = after
        answer = client.get(path, **more)
        if not isinstance(answer, dict) or key not in answer:
            raise AdminError(f"{client.url} does not answer like a Magnetar gateway.")
        found += answer.pop(key)
        after = answer.get("next", "")
        if not after or len(found) >= limit:
            return found, answer


def _cells(one: dict[str, Any]) -> list[str]:
    states = one["states"]
    blocked = f"{states['blocked']}+" if one.get("blockedAtLeast") else str(states["blocked"])
    return [
        str(one["topic"]).removeprefix(HOME),
        one["subscription"],
        one["type"],
        str(one["open"]),
        age(one["oldestAgeSeconds"] * 1000) if one["oldestAgeSeconds"] >= 0 else "-",
        str(states["inHand"]),
        blocked,
        str(states["backoff"] + states["delayed"]),
        str(one["deadLetters"]),
        str(one["consumers"]),
    ]


def _consumer(one: dict[str, Any]) -> list[str]:
    return [
        one["consumerName"],
        one.get("address") or "-",
        one.get("metadata", {}).get("clientId") or "-",
        one.get("clientVersion") or "-",
        one.get("connectedSince", "-"),
        str(one.get("unackedMessages", "-")),
        str(one.get("msgOutCounter", "-")),
    ]
