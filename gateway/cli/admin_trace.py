"""`magnetar-admin topics trace`: one message through RETRY and dead letter topics."""

from __future__ import annotations

from typing import Any

import click

from gateway.cli.admin_client import topic_path
from gateway.cli.admin_options import Options, common, pass_options
from gateway.cli.admin_output import columns
from gateway.cli.admin_topics import topic_argument


@click.command(
    epilog="""\b
Examples:
  magnetar-admin topics trace orders 17:3:0:5
  magnetar-admin topics trace orders-billing-DLQ 21:0:-1:0

\b
`topics records` and `topics explain` tell the ids of messages. The id of a letter leads to the message
that it was at first."""
)
@topic_argument
@click.argument("message_id", metavar="ID")
@common
@pass_options
def trace(options: Options, topic: str, message_id: str) -> None:
    """Tell what happened to a message, where and when.

    When it was published, when it was put on a RETRY topic, when and why it became a dead letter, and how it stands
    with each subscription now. Who acknowledged a message and when is not kept: `topics watch` tells that while it
    happens.
    """
    answer: dict[str, Any] = options.client().get(topic_path(topic) + "/magnetar/trace", id=message_id)
    if options.output == "json":
        options.show(answer)
        return
    heads = ["time", "what", "topic", "partition", "offset", "more"]
    click.echo(columns(heads, [_cells(each) for each in answer["events"]]))
    if answer["subscriptions"]:
        click.echo()
        states = [
            [each["subscription"], each["state"], each.get("consumer", ""), each.get("due", "")]
            for each in answer["subscriptions"]
        ]
        click.echo(columns(["subscription", "state now", "consumer", "due"], states))
    if answer.get("atLeast"):
        of = f"{answer['looked']:,} of {answer['of']:,} letters were looked at"
        click.echo(f"There may be more: {of}.", err=True)
    for hidden in answer.get("notAllowed", []):
        click.echo(f"You may not read {hidden}.", err=True)


def _cells(event: dict[str, Any]) -> list[str]:
    more = []
    if "subscription" in event:
        more.append(f"of {event['subscription']}")
    if "reason" in event:
        more.append(str(event["reason"]))
    if "deliveries" in event:
        more.append(f"after {event['deliveries']} deliveries")
    if "times" in event:
        more.append(f"time {event['times']}")
    if "delayMs" in event:
        more.append(f"after {event['delayMs']} ms")
    if "due" in event:
        more.append(f"due {event['due']}")
    at = event.get("time", str(event["timestamp"]))
    named = [str(event[name]) for name in ("what", "topic", "partition", "offset")]
    return [at, *named, _line(", ".join(more))]


def _line(text: str) -> str:
    """What headers say is anybody's."""
    return "".join([each if each.isprintable() else f"\\u{ord(each):04x}" for each in text])
