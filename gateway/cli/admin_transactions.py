"""`magnetar-admin transactions`: which are open, whose they are, who waits for them."""

from __future__ import annotations

from typing import Any

import click

from gateway.cli.admin_client import HOME
from gateway.cli.admin_lag import age
from gateway.cli.admin_options import HELP, Noun, Options, common, pass_options
from gateway.cli.admin_output import columns

HEADS = ["transactional id", "state", "age", "producer", "partition", "readers wait at", "held back"]


@click.group(cls=Noun, context_settings=HELP)
def transactions() -> None:
    """Transactions of Kafka's clients: which are open, and who waits for their ends."""


@transactions.command(
    "list",
    context_settings=HELP,
    epilog="""\b
Examples:
  magnetar-admin transactions list
  magnetar-admin transactions list --state any --limit 1000
  magnetar-admin transactions list --state any -q billing
  magnetar-admin --output json transactions list

\b
producer         its id and epoch
readers wait at  the offset where readers of committed records wait for the end of it
held back        records from there on

kafka-transactions.sh aborts one that nobody ends: abort --topic … --partition … --start-offset …""",
)
@click.option(
    "--state",
    type=click.Choice(("open", "any")),
    default="open",
    show_default=True,
    help="Open ones, the oldest first; or all transactional ids.",
)
@click.option("-q", "text", default="", help="Only those with this in their transactional id.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most."
)
@click.option("--after", default="", help="Go on behind a page: its `next`, which --output json shows.")
@common
@pass_options
def list_transactions(options: Options, state: str, text: str, limit: int, after: str) -> None:
    """Transactions, a line for each partition of them. Nothing is printed when there are none."""
    asked = {"state": state, "limit": str(limit), "q": text, "after": after}
    asked = {name: each for name, each in asked.items() if each}
    answer: dict[str, Any] = options.client().get("magnetar/transactions", **asked)
    if options.output == "json":
        options.show(answer)
        return
    rows = [cells for each in answer["transactions"] for cells in _lines(each)]
    if rows:
        click.echo(columns(HEADS, rows))
    if "next" in answer:
        click.echo("There are more: --limit or --after shows them.", err=True)


def _lines(one: dict[str, Any]) -> list[list[str]]:
    about = [
        one["transactionalId"],
        one["state"],
        age(one["ageSeconds"] * 1000) if "ageSeconds" in one else "-",
        f"{one['producerId']}:{one['producerEpoch']}",
    ]
    places = [
        [
            f"{each['topic'].removeprefix(HOME)}:{each['partition']}",
            str(each.get("waitsAt", "-")),
            str(each.get("heldBack", "-")),
        ]
        for each in one.get("partitions", ())
    ]
    lines = [[*about, *place] for place in places or [["-", "-", "-"]]]
    left = one.get("partitionsOf", 0) - len(places)
    if left > 0 and places:
        lines.append([*about, f"and {left} more", "-", "-"])
    return lines
