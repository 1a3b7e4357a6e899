"""`magnetar-admin subscriptions why` and `act`: what holds messages up, and what to do about it."""

from __future__ import annotations

from typing import Any

import click

from gateway.cli.admin_client import Misused
from gateway.cli.admin_lag import age
from gateway.cli.admin_options import HELP, Noun, Options, common, counted, pass_options
from gateway.cli.admin_output import columns
from gateway.cli.admin_subscriptions import subscription_option, subscription_path
from gateway.cli.admin_topics import topic_argument

ACTS = ("deliver-now", "settle", "dead-letter", "take-back")
STATES = ("available", "blocked", "acquired", "delayed", "backoff", "dying", "unread")
HEADS = ["partition", "offset", "id", "state", "key", "failed", "age", "why"]

_ABOUT = {
    "key": "{held} wait for {key}",
    "no-owner": "{held} wait for {key}, which nobody owns",
    "no-consumer": "{held} wait for a consumer",
    "unacknowledged": "{held} wait until others are acknowledged",
    "dispatch-rate": "{held} wait for the dispatch rate",
    "next-consumer": "{held} are for whoever asks next",
    "unread": "{held} were not looked at yet",
    "delay": "{held} are delayed",
    "backoff": "{held} back off",
    "dead-letter": "{held} are to be dead letters",
    "in-hand": "{consumer} has {number} in hand",
    "uncommitted": "{held} wait until a transaction ends",
    "transaction": "a transaction has {number} in hand",
}
"""Cause -> what is said of it in one line."""


@click.group("subscriptions", cls=Noun, context_settings=HELP)
def subscriptions() -> None:
    """Subscriptions: why their messages do not arrive, and what to do about it."""


verbs = click.Group("verbs")
"""What `subscriptions` has of this."""


def _filters(command: Any) -> Any:
    """The flags by which messages are chosen."""
    for option in reversed(
        (
            click.option(
                "--state",
                type=click.Choice(STATES),
                multiple=True,
                help="Only those in this state; may be given again.",
            ),
            click.option("--key", help="Only those with this key."),
            click.option("--text", help="Only those with this text in their value, key or headers."),
            click.option("--slot", type=click.IntRange(0, 65_535), help="Only those of this slot of keys."),
            click.option("--consumer", metavar="NAME", help="Only what this consumer has in hand."),
        )
    ):
        command = option(command)
    return command


@verbs.command(
    context_settings=HELP,
    epilog="""\b
Examples:
  magnetar-admin subscriptions why orders -s billing
  magnetar-admin subscriptions why orders-partition-0 -s billing
  magnetar-admin subscriptions why orders -s billing --open --state blocked --key customer-17
  magnetar-admin --output json subscriptions why orders -s billing --open --limit 500

\b
What holds up most comes first, each with its record and the reason. Then what to do,
as a command. A page of --open ends after a bound of work: --after goes on behind it.""",
)
@topic_argument
@subscription_option
@click.option(
    "--open", "open_", is_flag=True, help="List the open messages, one by one, with the reason of each."
)
@_filters
@click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many rows."
)
@click.option("--after", metavar="PLACE", help="With --open: go on where a page said.")
@common
@pass_options
def why(
    options: Options,
    /,
    topic: str,
    subscription: str,
    open_: bool,
    limit: int,
    after: str | None,
    **filters: Any,
) -> None:
    """Tell what holds the messages of a Shared or Key_Shared subscription up."""
    path = f"{subscription_path(topic, subscription)}/magnetar"
    chosen = _chosen(filters)
    if not open_:
        if chosen or after:
            raise Misused("State, key, text, slot, consumer and --after choose messages: add --open.")
        answer = options.client().get(f"{path}/causes", limit=str(limit))
        if options.output == "text":
            _tell_causes(answer, topic, subscription)
        else:
            options.show(answer)
        return
    query = {name: str(value) for name, value in chosen.items()}
    page = options.client().get(f"{path}/open", limit=str(limit), after=after or "", **query)
    if options.output == "json":
        options.show(page)
        return
    if page["messages"]:
        click.echo(columns(HEADS, [_cells(each) for each in page["messages"]]))
    looked = f"{page['looked']:,} of {counted(page['of'], 'open message')} looked at"
    going_on = f"; go on with --after {page['next']}" if "next" in page else ""
    click.echo(f"{looked}{going_on}.", err=True)


@verbs.command(
    context_settings=HELP,
    epilog="""\b
Examples:
  magnetar-admin subscriptions act take-back orders -s billing --messageId 17:3:0:5
  magnetar-admin subscriptions act deliver-now orders -s billing --state backoff
  magnetar-admin subscriptions act settle orders -s billing --key customer-17 --dry-run
  magnetar-admin subscriptions act dead-letter orders -s billing --text '"version":3' --yes

\b
deliver-now   ends delays and backoffs
settle        acknowledges: nobody gets the messages any more
dead-letter   sends them to the dead letter topic, as a rejection does
take-back     takes them out of a consumer's hand, for whoever is next

\b
The gateway is asked first what it would do. The act is refused when more than one in
a hundred of these messages have changed since: then look again.""",
)
@click.argument("act", type=click.Choice(ACTS))
@topic_argument
@subscription_option
@click.option(
    "-m", "--messageId", "ids", multiple=True, metavar="ID", help="Which message; may be given again."
)
@_filters
@click.option("--all", "all_", is_flag=True, help="All messages that the act is for.")
@click.option("--dry-run", is_flag=True, help="Tell what would be done, and do nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common
@pass_options
def act(
    options: Options,
    /,
    act: str,
    topic: str,
    subscription: str,
    ids: tuple[str, ...],
    all_: bool,
    dry_run: bool,
    yes: bool,
    **filters: Any,
) -> None:
    """Deliver messages now, settle them, make them dead letters, or take them back from a consumer."""
    chosen = _chosen(filters)
    if sum((bool(ids), bool(chosen), all_)) != 1:
        raise Misused(
            "Say which messages: --messageId, or some of --state, --key, --text, --slot and --consumer, or --all."
        )
    body: dict[str, Any] = {"do": act, **({"messages": list(ids)} if ids else {"filter": chosen})}
    path = f"{subscription_path(topic, subscription)}/magnetar/act"
    client = options.client()
    shown: dict[str, Any] = client.post(path, {**body, "dryRun": True})
    if dry_run:
        if options.output == "text":
            click.echo("\n".join(_plan(shown)))
        else:
            options.show(shown)
        return
    if not yes:
        click.echo("\n".join(_plan(shown)), err=True)
        if not shown["messages"] or not click.confirm("Do it?", err=True):
            return
    did: dict[str, Any] = client.post(path, {**body, "plan": shown["plan"]})
    options.told(f"{act}: done to {counted(did['messages'])} of {subscription} on {topic}.", **did)


def add_to(noun: click.Group) -> None:
    """Give `subscriptions` these verbs."""
    for name, verb in verbs.commands.items():
        noun.add_command(verb, name)


def _chosen(filters: dict[str, Any]) -> dict[str, Any]:
    """A filter as the gateway takes it."""
    chosen = {name: value for name, value in filters.items() if value not in (None, ())}
    if "state" in chosen:
        chosen["state"] = ",".join(chosen["state"])
    return chosen


def _plan(shown: dict[str, Any]) -> list[str]:
    lines = [shown["explanation"]]
    if shown["byState"]:
        lines.append(
            "By state: " + ", ".join(f"{number:,} {state}" for state, number in shown["byState"].items())
        )
    if shown["leftOut"]:
        lines.append(
            "Left out: " + ", ".join(f"{number:,} {state}" for state, number in shown["leftOut"].items())
        )
    if shown["first"]:
        lines.append("The first: " + ", ".join(shown["first"]))
    return lines


def _tell_causes(answer: dict[str, Any], topic: str, subscription: str) -> None:
    """A paragraph each."""
    paragraphs = []
    for cause in answer["causes"]:
        record = cause["record"]
        key = f"key {cause['key']!r}" if "key" in cause else f"slot {cause.get('slot')}"
        said = _ABOUT.get(cause["cause"], "{held} wait").format(
            held=counted(cause["holdsUp"]),
            key=key,
            number=f"{cause['messages']:,}",
            consumer=cause.get("consumer"),
        )
        oldest = cause.get("oldest", {}).get("ageSeconds")
        waits = f", the oldest for {age(1000 * oldest)}" if oldest is not None and cause["holdsUp"] else ""
        lines = [
            f"{said}{waits}.",
            f"  Partition {cause['partition']}, offset {record['offset']}: {cause['explanation']}",
        ]
        if cause["acts"][:1] == ["settle"]:
            # it can go, or waits for its turn: what it lacks is somebody who takes it. It is not to be thrown away
            lines.append(f"  magnetar-admin subscriptions consumers {topic} -s {subscription}")
        elif cause["acts"] and "messageId" in record:
            lines.append(
                f"  magnetar-admin subscriptions act {cause['acts'][0]} {topic} -s {subscription}"
                f" --messageId {record['messageId']}"
            )
        paragraphs.append("\n".join(lines))
    if paragraphs:
        click.echo("\n".join(paragraphs))
    else:
        click.echo(f"Nothing of {subscription} on {topic} waits.")
    if "more" in answer:
        click.echo(f"{counted(answer['more'], 'cause')} more: --limit.", err=True)


def _cells(message: dict[str, Any]) -> list[str]:
    seconds = message.get("ageSeconds")
    return [
        str(message["partition"]),
        str(message["offset"]),
        message.get("messageId", ""),
        message["state"],
        message.get("key", message.get("keyBase64", "")),
        str(message["failedDeliveries"]),
        age(1000 * seconds) if seconds is not None else "",
        message["why"],
    ]
