"""`magnetar-admin audit`: who changed what, who was refused, who came in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from gateway.cli.admin_options import HELP, Options, common, pass_options
from gateway.cli.admin_output import columns

HEADS = ["time", "kind", "who", "host", "what", "target", "outcome"]


@click.command(
    context_settings=HELP,
    epilog="""\b
Examples:
  magnetar-admin audit
  magnetar-admin audit --kind refused --limit 20
  magnetar-admin --output json audit""",
)
@click.option(
    "-n", "--limit", type=click.IntRange(1, 3000), default=100, show_default=True, help="How many at most."
)
@click.option(
    "--kind", type=click.Choice(["change", "refused", "login"]),
    help="Only changes, only what was refused, or only logins.",
)  # fmt: skip
@common
@pass_options
def audit(options: Options, limit: int, kind: str | None) -> None:
    """The last changes, refusals and logins, the newest last. Those before are in the gateway's log.

    A user's first login from each address is among them, and no later one. It takes a super-user.
    """
    query = {"limit": str(limit), **({"kind": kind} if kind else {})}
    entries: list[dict[str, Any]] = options.client().get("magnetar/audit", **query)
    if options.output == "json":
        options.show(entries)
    elif entries:
        click.echo(columns(HEADS, [_cells(each) for each in reversed(entries)]))
        left_out = sum(each.get("leftOut", 0) for each in entries)
        if left_out:
            click.echo(f"{left_out:,} more came too fast to be kept (audit.max.per.second).", err=True)


def _cells(entry: dict[str, Any]) -> list[str]:
    at = datetime.fromtimestamp(entry["time"] / 1000, UTC).isoformat(timespec="milliseconds")
    named = [str(entry.get(name, "")) for name in HEADS[1:]]
    return [at.replace("+00:00", "Z"), *named]
