"""`magnetar-admin topics reset-cursor`: a subscription begins again at a time or a message."""

from __future__ import annotations

import time
from typing import Any

import click

from gateway.cli.admin_client import AdminError, Misused
from gateway.cli.admin_options import Options, common, pass_options
from gateway.cli.admin_output import columns
from gateway.cli.admin_previews import dry_run_option, ids, subscription_id_option, told_ids, topic_id_option
from gateway.cli.admin_subscriptions import (
    message_id_json,
    subscription_option,
    subscription_path,
    told_moved,
)
from gateway.cli.admin_topics import topic_argument
from semantics.moments import MomentError, moment_ms


@click.command(
    epilog="""\b
Examples:
  magnetar-admin topics reset-cursor orders -s billing -t 2h --dry-run
  magnetar-admin topics reset-cursor orders -s billing -t 2026-01-31T12:00:00Z
  magnetar-admin topics reset-cursor orders-partition-0 -s billing -m 17:0
  magnetar-admin topics reset-cursor orders -s billing -m earliest"""
)
@topic_argument
@subscription_option
@click.option(
    "-t", "--time", "when", metavar="TIME",
    help="How far back: 30 (seconds), 10m, 2h, 3d, 1w. Or a time: 2026-01-31T12:00:00Z, 'yesterday'; of here unless "
    "it says its zone.",
)  # fmt: skip
@click.option("-m", "--messageId", "message_id", metavar="ID", help="earliest, latest or ledger:entry.")
@click.option("-e", "--exclude-reset-position", is_flag=True, help="Begin behind the message, not with it.")
@dry_run_option
@topic_id_option
@subscription_id_option
@common
@pass_options
def reset_cursor(
    options: Options,
    topic: str,
    subscription: str,
    when: str | None,
    message_id: str | None,
    exclude_reset_position: bool,
    dry_run: bool,
    topic_id: str | None,
    subscription_id: str | None,
) -> None:
    """Have a subscription begin again at a time or a message: what follows is delivered (again), and what is open
    before it is settled.
    """
    if (when is None) == (message_id is None):
        raise Misused("Say where to: either --time (for example 2h) or --messageId.")
    path, body = subscription_path(topic, subscription) + "/resetcursor", None
    if when is not None:
        path += f"/{_past_ms(when)}"
    else:
        assert message_id is not None
        body = {**message_id_json(message_id), "isExcluded": exclude_reset_position}
    if not dry_run:
        told_moved(
            options,
            topic,
            subscription,
            "reset",
            options.client().post(path, body, **ids(topic_id, subscription_id)),
        )
        return
    seen: dict[str, Any] = options.client().post(path, body, dryRun=True, **ids(topic_id, subscription_id))
    if "explanation" not in seen:
        # an older gateway does not know that it should only look
        told_moved(options, topic, subscription, "reset", seen)
        raise AdminError("This gateway knows no dry run: the subscription was reset.")
    if options.output != "text":
        options.show(seen)
        return
    click.echo(seen["explanation"])
    if len(seen["byPartition"]) > 1:
        names = ("messages", "settledAgain", "openBefore", "inHand")
        rows = [[index, *[f"{its[name]:,}" for name in names]] for index, its in seen["byPartition"].items()]
        click.echo()
        click.echo(columns(["partition", "to deliver", "settled, again", "open before", "in hand"], rows))
    told_ids(seen)


def _past_ms(text: str) -> int:
    """A time, or how long ago that was, as ms since 1970. Refuses one that is to come. Raises AdminError."""
    now = _now_ms()
    try:
        found = moment_ms(text, now)
    except MomentError as error:
        raise Misused(str(error)) from None
    if found > now:
        raise Misused(
            "That time is to come: what has come until then would never be delivered. To settle all that is open: "
            "magnetar-admin topics clear-backlog."
        )
    return found


def _now_ms() -> int:
    return int(time.time() * 1000)
