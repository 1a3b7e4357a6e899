"""`--dry-run` of verbs that move or delete a subscription: what the gateway says that would happen. `--topic-id` and
`--subscription-id` of these, the first of those that delete a topic, too: what was looked at is named by its id, and no
other of its name is meant.
"""

from __future__ import annotations

from typing import Any

import click

from gateway.cli.admin_client import AdminError, Misused
from gateway.cli.admin_options import Options, counted
from gateway.cli.admin_output import columns

dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what would happen.")


def _said(_: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """Of a variable of a shell that is not set nothing is left: that is no wish to do it to any. Raises AdminError."""
    if text is not None and not text.strip():
        raise Misused(
            f"The id behind {parameter.opts[0]} is empty: write it, or leave {parameter.opts[0]} out."
        )
    return text


topic_id_option = click.option(
    "--topic-id", metavar="ID", callback=_said,
    help="The topic must have this id, which `topics stats` and --dry-run tell: it is refused where the topic was "
    "deleted, and another has its name.",
)  # fmt: skip
subscription_id_option = click.option(
    "--subscription-id", metavar="ID", callback=_said,
    help="The subscription must have this id, which --dry-run tells (0: a consumer group's, which has none): it is "
    "refused where the subscription was deleted, and another has its name.",
)  # fmt: skip


def ids(topic_id: str | None, subscription_id: str | None = None) -> dict[str, str]:
    """What a call says of them."""
    said = {"topicId": topic_id, "subscriptionId": subscription_id}
    return {name: each for name, each in said.items() if each is not None}


def told_ids(seen: Any) -> None:
    """By which options the act itself is about what was looked at, for people."""
    flags = {"topicId": "--topic-id", "subscriptionId": "--subscription-id"}
    words = [f"{flag} {seen[name]}" for name, flag in flags.items() if name in seen]
    if words:
        click.echo(f"To do it to this and to no other of its name, add: {' '.join(words)}", err=True)


def told_clear(options: Options, seen: Any) -> None:
    """What a clear of a backlog would settle. Raises AdminError where it was cleared."""
    _check(seen, "explanation", "the backlog was cleared")
    if options.output != "text":
        options.show(seen)
        return
    click.echo(seen["explanation"])
    if len(seen["byPartition"]) > 1:
        rows = [
            [index, f"{its['messages']:,}", f"{its['end']:,}"] for index, its in seen["byPartition"].items()
        ]
        click.echo()
        click.echo(columns(["partition", "to settle", "up to"], rows))
    told_ids(seen)


def told_unsubscribe(options: Options, topic: str, subscription: str, seen: Any) -> None:
    """What would go with a subscription. Raises AdminError where it is gone."""
    _check(seen, "messages", "the subscription was deleted")
    if options.output != "text":
        options.show(seen)
        return
    number = seen["messages"]
    click.echo(
        f"{subscription} of {topic} would be deleted: nobody would get the {counted(number)} that it has open."
        if number
        else f"{subscription} of {topic} would be deleted: it has no messages open."
    )
    told_ids(seen)


def _check(seen: Any, name: str, done: str) -> None:
    """An older gateway does not know that it should only look."""
    if not isinstance(seen, dict) or name not in seen:
        raise AdminError(f"This gateway knows no dry run: {done}.")
