"""`magnetar-admin audit`: who changed what, who was refused, who came in."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Any

import click

from gateway.cli.admin_options import HELP, Options, common, pass_options
from gateway.cli.admin_output import columns
from gateway.cli.admin_records import moment_ms, span_ms

HEADS = ["time", "kind", "who", "host", "what", "target", "outcome"]


@click.command(
    context_settings=HELP,
    epilog="""\b
Examples:
  magnetar-admin audit
  magnetar-admin audit --kind refused --limit 20
  magnetar-admin audit --since 2026-01-31 --kind change
  magnetar-admin audit --since 24h --who ada
  magnetar-admin --output json audit""",
)
@click.option(
    "-n", "--limit", type=click.IntRange(1, 3000), default=100, show_default=True, help="How many at most."
)
@click.option(
    "--kind", type=click.Choice(["change", "refused", "login"]),
    help="Only changes, only what was refused, or only logins.",
)  # fmt: skip
@click.option("--since", metavar="WHEN", help="From then on: a time span back (24h), or a time (2026-01-31).")
@click.option("--who", metavar="USER", help="Only what this user did.")
@common
@pass_options
def audit(options: Options, limit: int, kind: str | None, since: str | None, who: str | None) -> None:
    """The last changes, refusals and logins, the newest last.

    They are kept in memory since the gateway's start, the last 1,000 of each kind; those before are in its log. With
    audit.topic=true changes made by HTTP are in the topic magnetar-audit as well, for a year: --since and --who look
    there. A user's first login
    from each address is among them, and no later one. It takes a super-user.
    """
    query = {"limit": str(limit), **({"kind": kind} if kind else {}), **({"who": who} if who else {})}
    if since is not None:
        query["since"] = str(_moment(since))
    entries: list[dict[str, Any]] = options.client().get("magnetar/audit", **query)
    if options.output == "json":
        options.show(entries)
    elif entries:
        click.echo(columns(HEADS, [_cells(each) for each in reversed(entries)]))
        left_out = sum(each.get("leftOut", 0) for each in entries)
        if left_out:
            click.echo(f"{left_out:,} more came too fast to be kept (audit.max.per.second).", err=True)


def _moment(text: str) -> int:
    """ms since 1970, of a time or of a span back from now. Raises AdminError."""
    if re.fullmatch(r"[0-9.]+(ms|[smhdw])", text):
        return int(time.time() * 1000) - span_ms(text)
    return moment_ms(text)


def _cells(entry: dict[str, Any]) -> list[str]:
    at = datetime.fromtimestamp(entry["time"] / 1000, UTC).isoformat(timespec="milliseconds")
    # of a change that is kept it goes without saying
    named = [str(entry.get(name, "done" if name == "outcome" else "")) for name in HEADS[1:]]
    if "act" in entry:
        named[HEADS.index("what") - 1] = str(entry["act"])
    if "counts" in entry:
        told = ", ".join([f"{name} {number}" for name, number in entry["counts"].items()])
        named[-1] = f"{named[-1]} ({told})"
    if "why" in entry:
        named[-1] += f": {entry['why']}"
    return [at.replace("+00:00", "Z"), *named]
