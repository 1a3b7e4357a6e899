"""`magnetar-admin topics watch`: what happens to the messages of one key."""

from __future__ import annotations

import time
from typing import Any

import click

from gateway.cli.admin_options import Options, common, pass_options
from gateway.cli.admin_output import columns
from gateway.cli.admin_subscriptions import subscription_option, subscription_path
from gateway.cli.admin_topics import topic_argument

_EVERY = 1.0
"""Seconds between two looks."""
_WIDTHS = [24, 12, 24, 9, 8, 20, 0]


@click.command(
    epilog="""\b
Examples:
  magnetar-admin topics watch orders -s billing --key customer-17
  magnetar-admin topics watch orders -s billing --key customer-17 --minutes 60 --once
  magnetar-admin --output json topics watch orders -s billing --key customer-17 --once

\b
The gateway remembers in memory what happens from the first call on, in the subscription and its RETRY
topic. A call with the same key while it is watched tells all that has happened, and watches on."""
)
@topic_argument
@subscription_option
@click.option("--key", required=True, help="The key, or the ordering key.")
@click.option(
    "--minutes", type=click.IntRange(1, 60), default=10, show_default=True, help="How long it is watched."
)
@click.option("--once", is_flag=True, help="Begin, tell what has happened by now, and end.")
@common
@pass_options
def watch(options: Options, topic: str, subscription: str, key: str, minutes: int, once: bool) -> None:
    """Watch what happens to the messages of a key.

    Who was given them, whether they were acknowledged, nacked or rejected, whose lock ran out, when they come
    again, and when they became dead letters. Ends when the time is over, or by Ctrl-C; what was seen stays with
    the gateway.
    """
    path, client = f"{subscription_path(topic, subscription)}/magnetar/watch", options.client()
    answer: dict[str, Any] = client.post(path, {"key": key, "minutes": minutes})
    if options.output == "json" and once:
        options.show(answer)
        return
    if options.output != "json":
        heads = ["time", "what", "topic", "partition", "offset", "consumer", "more"]
        click.echo(columns(None, [heads], _WIDTHS))
    seen = 0
    while True:
        # those before may have been left out meanwhile
        total = answer.get("leftOut", 0) + len(answer["events"])
        for event in answer["events"][len(answer["events"]) - min(total - seen, len(answer["events"])) :]:
            if options.output == "json":
                options.show(event)
            else:
                click.echo(columns(None, [_cells(event)], _WIDTHS))
        seen = total
        if once or not answer["watching"]:
            break
        time.sleep(_EVERY)
        answer = client.get(path, key=key)
    if answer.get("missed"):
        click.echo(f"More happened than could be looked at: {answer['missed']:,} times.", err=True)


def _cells(event: dict[str, Any]) -> list[str]:
    more = []
    if "failed" in event:
        more.append(f"failed {event['failed']} times" if event["failed"] > 1 else "failed once")
    if "due" in event:
        more.append(f"until {event['due']}")
    if "reason" in event:
        more.append(event["reason"])
    named = [
        str(event.get(name, "")) for name in ("time", "what", "topic", "partition", "offset", "consumer")
    ]
    return [*named, ", ".join(more)]
