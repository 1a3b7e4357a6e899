"""`magnetar-admin topics`, the verbs of subscriptions: list, make, move, look into, explain."""

from __future__ import annotations

from typing import Any

import click

from gateway.cli import admin_lag
from gateway.cli.admin_client import AdminError, Misused, kafka_name, pairs, segment, topic_path
from gateway.cli.admin_messages import Message
from gateway.cli.admin_options import Options, common, counted, pass_options
from gateway.cli.admin_output import hexdump
from gateway.cli.admin_previews import (
    dry_run_option,
    ids,
    subscription_id_option,
    told_clear,
    told_unsubscribe,
    topic_id_option,
)
from gateway.cli.admin_topics import topic_argument
from gateway.cli.terminal import as_json

verbs = click.Group("subscriptions")
"""What `topics` has besides."""

TYPES = ("shared", "key_shared", "exclusive", "failover")

subscription_option = click.option(
    "-s", "--subscription", required=True, metavar="NAME", help="The subscription: a group id."
)


property_option = click.option(
    "-p", "--property", "properties", multiple=True, metavar="KEY=VALUE",
    help="Kept with the subscription; may be given again.",
)  # fmt: skip


def subscription_path(topic: str, subscription: str) -> str:
    """Of the admin API. Raises AdminError."""
    if not subscription:
        raise Misused("The name of the subscription is empty: write the group's id behind -s.")
    return f"{topic_path(topic)}/subscription/{segment(subscription)}"


@verbs.command(
    "subscriptions",
    epilog="""\b
Examples:
  magnetar-admin topics subscriptions orders
  magnetar-admin topics subscriptions orders --details
  magnetar-admin topics subscriptions orders --lag""",
)
@topic_argument
@click.option(
    "--details", is_flag=True, help="Also tell types, configs that are not the group's, properties."
)
@click.option(
    "--lag", is_flag=True, help="Each one's backlog, the age of its oldest message and its consumers."
)
@common
@pass_options
def list_subscriptions(options: Options, topic: str, details: bool, lag: bool) -> None:
    """List the subscriptions of a topic: share groups, and consumer groups that have committed an offset."""
    if lag:
        admin_lag.show_topic(options, topic)
        return
    path = topic_path(topic) + "/subscriptions"
    if not details:
        options.show(options.client().get(path), "subscription")
        return
    found: list[dict[str, Any]] = options.client().get(path, details=True)
    if options.output != "text":
        options.show(found)
        return
    for one in found:
        click.echo(f"{one['subscription']}  {one['type']}")
        for name, value in sorted({**one["overrides"], **one["properties"]}.items()):
            click.echo(f"  {name}={value}")


@verbs.command(
    epilog="""\b
Examples:
  magnetar-admin topics create-subscription orders -s billing -m earliest
  magnetar-admin topics create-subscription orders -s billing --type key_shared
  magnetar-admin topics create-subscription orders -s billing -p pulsar.nack.delay.ms=1000 -p team=payments
  magnetar-admin topics create-subscription orders -s billing --enable-retry
  magnetar-admin topics create-subscription orders -s billing --type key_shared --lanes 16
  magnetar-admin topics create-subscription --pattern 'orders-.*' -s billing --lanes 16
  magnetar-admin topics create-subscription --pattern 'persistent://shop/eu/orders-.*' -s billing --lanes 16"""
)
@click.argument("topic", metavar="[TOPIC]", required=False)
@subscription_option
@click.option(
    "-m", "--messageId", "message_id", default="latest", show_default=True, metavar="ID",
    help="Where it begins: earliest, latest or ledger:entry.",
)  # fmt: skip
@click.option(
    "--type", "kind", type=click.Choice(TYPES, case_sensitive=False),
    help="shared and key_shared are for share groups, and with --lanes for consumer groups of a queue topic; "
    "exclusive and failover are for consumer groups, which have that type from then on. Without it: what the group's "
    "configs say, shared if they say nothing.",
)  # fmt: skip
@click.option("-r", "--replicated", is_flag=True, help="Taken and ignored: there is one cluster.")
@property_option
@click.option(
    "--enable-retry", is_flag=True, help="Make its RETRY topic, <topic>-<subscription>-RETRY, at once."
)
@click.option(
    "--lanes", type=click.IntRange(1, 1_000), metavar="N",
    help="Serve it to consumer groups: make its queue topic, <topic>-<subscription>-QUEUE, with so many lanes. Each "
    "consumer has one at least, as with partitions. Such a subscription is not for share groups.",
)  # fmt: skip
@click.option(
    "--pattern", metavar="REGEX",
    help="In place of a topic, with --lanes: topics whose whole name matches, also those to come. They are of "
    "public/default, or of the namespace before it: persistent://tenant/namespace/REGEX. The queue topic is called "
    "<subscription>-QUEUE and lies there, too.",
)  # fmt: skip
@common
@pass_options
def create_subscription(
    options: Options,
    topic: str | None,
    subscription: str,
    message_id: str,
    kind: str | None,
    replicated: bool,
    properties: tuple[str, ...],
    enable_retry: bool,
    lanes: int | None,
    pattern: str | None,
) -> None:
    """Make a subscription before its consumers come, so that nothing from then on is missed.

    A Shared or Key_Shared subscription that is made here behaves as with Pulsar's clients: a nacked message waits a
    minute, and there is no ack timeout. Properties that are named like configs of share groups (pulsar.*) say otherwise
    for this subscription alone; others are kept and shown.
    """
    if (topic is None) == (pattern is None):
        raise Misused("Name a topic, or all that match with --pattern REGEX.")
    query: dict[str, str | bool] = {} if kind is None else {"type": kind}
    if pattern is not None:
        if enable_retry:
            raise Misused(
                "--enable-retry is for one topic: over a pattern RETRY topics are made when there is need."
            )
        if kind in ("exclusive", "failover"):
            raise Misused("A subscription that lanes serve is shared or key_shared.")
        if lanes is None:
            raise Misused("A subscription over a pattern is served by lanes: say how many with --lanes N.")
        _create_over(options, pattern, subscription, message_id, {**query, "lanes": str(lanes)}, properties)
        return
    assert topic is not None
    body: dict[str, Any] = {**message_id_json(message_id)}
    if properties:
        body["properties"] = pairs(properties)
    if enable_retry:
        query["enableRetry"] = True
    if lanes is not None:
        query["lanes"] = str(lanes)
    did = options.client().put(subscription_path(topic, subscription), body, **query) or {}
    queue = f"{kafka_name(topic)}-{subscription}-QUEUE" if lanes is not None else None
    read = f" Read {queue} in the consumer group {subscription}." if queue else ""
    if did.get("kept"):
        options.told(
            f"Lanes serve the subscription {subscription} of {topic} now. It was there: it keeps its place, and "
            f"{message_id} says nothing.{read}",
            action="kept", topic=topic, subscription=subscription, queue=queue,
        )  # fmt: skip
        return
    options.told(
        f"Created the {kind + ' ' if kind else ''}subscription {subscription} of {topic}, from {message_id}.{read}",
        action="created", topic=topic, subscription=subscription, type=kind, messageId=message_id,
        **({"queue": queue} if queue else {}),
    )  # fmt: skip


def _create_over(
    options: Options,
    pattern: str,
    subscription: str,
    position: str,
    query: dict[str, str | bool],
    properties: tuple[str, ...],
) -> None:
    """The queue topic over a pattern. Raises AdminError."""
    if not subscription:
        raise Misused("The name of the subscription is empty: write the group's id behind -s.")
    if position not in ("earliest", "latest"):
        raise Misused("Over a pattern it begins at the earliest or the latest message of each topic.")
    body: dict[str, Any] = {"pattern": pattern, "position": position}
    if properties:
        body["properties"] = pairs(properties)
    did = options.client().put(f"magnetar/queues/{segment(subscription)}", body, **query) or {}
    over = f" ({counted(did['topics'], 'topic')} so far)" if "topics" in did else ""
    # an older gateway does not say it
    made = {"queue": f"{subscription}-QUEUE", **did}
    options.told(
        f"Created the subscription {subscription} over {pattern}{over}: read {made['queue']} in the consumer group "
        f"{subscription}.",
        action="created", pattern=pattern, subscription=subscription, position=position, **made,
    )  # fmt: skip


@verbs.command(epilog="\b\nExample:\n  magnetar-admin topics get-subscription-properties orders -s billing")
@topic_argument
@subscription_option
@common
@pass_options
def get_subscription_properties(options: Options, topic: str, subscription: str) -> None:
    """Show what is kept with a subscription."""
    options.show_map(options.client().get(subscription_path(topic, subscription) + "/properties"))


@verbs.command(
    epilog="""\b
Examples:
  magnetar-admin topics update-subscription-properties orders -s billing -p pulsar.nack.delay.ms=1000 -p team=payments
  magnetar-admin topics update-subscription-properties orders -s billing --clear"""
)
@topic_argument
@subscription_option
@property_option
@click.option("-c", "--clear", is_flag=True, help="Take all properties away.")
@common
@pass_options
def update_subscription_properties(
    options: Options, topic: str, subscription: str, properties: tuple[str, ...], clear: bool
) -> None:
    """Give a subscription other properties in place of all it has.

    Those that are named like configs of share groups (pulsar.*) are in force at once, for this subscription alone.
    """
    if bool(properties) == clear:
        raise Misused("Say which properties it shall have with -p KEY=VALUE, or take all away with --clear.")
    found = pairs(properties)
    options.client().put(subscription_path(topic, subscription) + "/properties", found)
    options.told(
        f"The properties of {subscription} on {topic} are now: {', '.join(found) or 'none'}.",
        action="updated", topic=topic, subscription=subscription, properties=found,
    )  # fmt: skip


@verbs.command(
    epilog="""\b
Examples:
  magnetar-admin topics unsubscribe orders -s billing --dry-run
  magnetar-admin topics unsubscribe orders -s billing"""
)
@topic_argument
@subscription_option
@click.option("-f", "--force", is_flag=True, help="Delete it although consumers are connected.")
@dry_run_option
@topic_id_option
@subscription_id_option
@common
@pass_options
def unsubscribe(
    options: Options,
    topic: str,
    subscription: str,
    force: bool,
    dry_run: bool,
    topic_id: str | None,
    subscription_id: str | None,
) -> None:
    """Delete a subscription with everything it remembers, and the queue topic that serves it if there is one."""
    if dry_run:
        path = subscription_path(topic, subscription)
        seen = options.client().delete(path, force=force, dryRun=True, **ids(topic_id, subscription_id))
        told_unsubscribe(options, topic, subscription, seen)
        return
    options.client().delete(
        subscription_path(topic, subscription), force=force, **ids(topic_id, subscription_id)
    )
    options.told(
        f"Deleted the subscription {subscription} of {topic}.",
        action="deleted", topic=topic, subscription=subscription,
    )  # fmt: skip


@verbs.command(epilog="\b\nExample:\n  magnetar-admin topics skip orders-partition-0 -s billing -n 100")
@topic_argument
@subscription_option
@click.option(
    "-n", "--count", type=click.IntRange(min=1), required=True, help="How many messages to acknowledge."
)
@common
@pass_options
def skip(options: Options, topic: str, subscription: str, count: int) -> None:
    """Acknowledge the next messages of a backlog, which nobody then reads."""
    did = options.client().post(f"{subscription_path(topic, subscription)}/skip/{count}")
    told_moved(options, topic, subscription, "skipped", did)


@verbs.command(
    epilog="""\b
Examples:
  magnetar-admin topics clear-backlog orders -s billing --dry-run
  magnetar-admin topics clear-backlog orders -s billing"""
)
@topic_argument
@subscription_option
@dry_run_option
@topic_id_option
@subscription_id_option
@common
@pass_options
def clear_backlog(
    options: Options,
    topic: str,
    subscription: str,
    dry_run: bool,
    topic_id: str | None,
    subscription_id: str | None,
) -> None:
    """Acknowledge everything there is at this moment."""
    path = f"{subscription_path(topic, subscription)}/skip_all"
    if dry_run:
        told_clear(options, options.client().post(path, dryRun=True, **ids(topic_id, subscription_id)))
        return
    did = options.client().post(path, **ids(topic_id, subscription_id))
    told_moved(options, topic, subscription, "cleared", did)


@verbs.command(
    epilog="\b\nExample:\n  magnetar-admin topics peek-messages orders-partition-0 -s billing -n 3"
)
@topic_argument
@subscription_option
@click.option(
    "-n", "--count", type=click.IntRange(1, 10_000), default=1, show_default=True, help="How many."
)  # fmt: skip
@common
@pass_options
def peek_messages(options: Options, topic: str, subscription: str, count: int) -> None:
    """Show the first messages of a backlog. They stay where they are."""
    client = options.client()
    path = subscription_path(topic, subscription)
    found: list[Message] = []
    for number in range(1, count + 1):
        try:
            found.append(client.message(f"{path}/position/{number}"))
        except AdminError as error:
            if error.status != 404 or not found:
                raise
            break
    _show(options, found)


@verbs.command(
    epilog="\b\nExample:\n  magnetar-admin topics examine-messages orders-partition-0 -i earliest -m 1"
)
@topic_argument
@click.option(
    "-i", "--initialPosition", "position", type=click.Choice(["earliest", "latest"]), default="latest",
    show_default=True, help="Where to count from.",
)  # fmt: skip
@click.option(
    "-m", "--messagePosition", "number", type=click.IntRange(min=1), default=1, show_default=True,
    help="Which message from there, from 1.",
)  # fmt: skip
@common
@pass_options
def examine_messages(options: Options, topic: str, position: str, number: int) -> None:
    """Show the n-th message of a topic, from its first or its last."""
    path = topic_path(topic) + "/examinemessage"
    query = {"initialPosition": position, "messagePosition": str(number)}
    _show(options, [options.client().message(path, **query)])


@verbs.command(epilog="\b\nExample:\n  magnetar-admin topics get-message-by-id orders-partition-0 -l 17 -e 0")
@topic_argument
@click.option("-l", "--ledgerId", "ledger", type=click.IntRange(min=0), required=True, help="The ledger.")
@click.option("-e", "--entryId", "entry", type=click.IntRange(min=0), required=True, help="The entry.")
@common
@pass_options
def get_message_by_id(options: Options, topic: str, ledger: int, entry: int) -> None:
    """Show an entry: a batch as its producer sent it, with all its messages."""
    _show(options, options.client().messages(f"{topic_path(topic)}/ledger/{ledger}/entry/{entry}"))


@verbs.command(epilog="\b\nExample:\n  magnetar-admin topics analyze-backlog orders-partition-0 -s billing")
@topic_argument
@subscription_option
@click.option("-p", "--position", metavar="ID", hidden=True)
@common
@pass_options
def analyze_backlog(options: Options, topic: str, subscription: str, position: str | None) -> None:
    """Tell what a backlog consists of, by state."""
    options.show(options.client().post(subscription_path(topic, subscription) + "/analyzeBacklog"))


@verbs.command(
    epilog="""\b
Examples:
  magnetar-admin topics explain orders-partition-0 -s billing --offset 4711
  magnetar-admin topics explain orders-partition-0 -s billing --messageId 17:3:0:5"""
)
@topic_argument
@subscription_option
@click.option("-o", "--offset", type=click.IntRange(min=0), help="The message's offset.")
@click.option("-m", "--messageId", "message_id", metavar="ID", help="Or its id.")
@common
@pass_options
def explain(
    options: Options, topic: str, subscription: str, offset: int | None, message_id: str | None
) -> None:
    """Tell why a message does not arrive.

    Its state, who holds it and until when, how often it failed, when it is due, what it waits for, and where its
    dead letter is. Ends with 1 for a message that is not there.
    """
    if (offset is None) == (message_id is None):
        raise Misused("Say which message: either --offset or --messageId.")
    query = {"offset": str(offset)} if offset is not None else {"messageId": str(message_id)}
    answer = options.client().get(subscription_path(topic, subscription) + "/explain", **query)
    if options.output == "text":
        click.echo(answer["explanation"])
        click.echo()
        options.show_map({key: value for key, value in answer.items() if key != "explanation"})
    else:
        options.show(answer)


def add_to(topics: click.Group) -> None:
    """Give `topics` these verbs."""
    for name, verb in verbs.commands.items():
        topics.add_command(verb, name)


# -- what is shared


_MOVED = {
    "skipped": (
        "Skipped messages of {topic} for {subscription}",
        ": {count} acknowledged that were open",
    ),
    "cleared": ("Cleared the backlog of {subscription} on {topic}", ": acknowledged {count}"),
    "reset": ("Reset {subscription} on {topic}", ": {count} to deliver"),
}
"""What is said, and what more when the gateway tells how many."""


def told_moved(options: Options, topic: str, subscription: str, action: str, did: dict[str, Any]) -> None:
    """Say how a subscription was moved."""
    said, more = _MOVED[action]
    said = said.format(topic=topic, subscription=subscription)
    if "messages" in did:
        said += more.format(count=counted(did["messages"]))
    said += "."
    options.told(said, action=action, topic=topic, subscription=subscription, **did)


def _show(options: Options, found: list[Message]) -> None:
    if options.output != "text":
        options.show([message.plain() for message in found])
        return
    for number, message in enumerate(found):
        if number:
            click.echo("-" * 73)
        click.echo(f"Message ID: {message.id}")
        for name, value in message.known.items():
            click.echo(f"{name}: {value}")
        click.echo("Properties:")
        click.echo(as_json(message.properties, 2))
        click.echo(hexdump(message.payload) if message.payload is not None else "(null value)")


def message_id_json(text: str) -> dict[str, int]:
    """The JSON of a message id, of earliest or of latest. Raises AdminError."""
    if text == "earliest":
        return {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}
    if text == "latest":
        return {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1, "partitionIndex": -1}
    parts = text.split(":")
    # a plain topic's ids have -1 for the partition
    numbers = [part for place, part in enumerate(parts) if place < 2 or part != "-1"]
    if not 2 <= len(parts) <= 4 or not all(part.isascii() and part.isdigit() for part in numbers):
        raise Misused(f"{text!r} is no message id: write earliest, latest or ledger:entry, for example 17:0.")
    names = ("ledgerId", "entryId", "partitionIndex", "batchIndex")
    return dict(zip(names, map(int, parts), strict=False))
