"""`--dry-run` of verbs that move or delete a subscription: what the gateway says that would happen."""

from __future__ import annotations

from typing import Any

import click

from gateway.cli.admin_client import AdminError
from gateway.cli.admin_options import Options, counted
from gateway.cli.admin_output import columns

dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what would happen.")


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


def _check(seen: Any, name: str, done: str) -> None:
    """An older gateway does not know that it should only look."""
    if not isinstance(seen, dict) or name not in seen:
        raise AdminError(f"This gateway knows no dry run: {done}.")
