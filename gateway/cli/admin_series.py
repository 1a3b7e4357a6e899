"""`magnetar-admin series`: how messages came and went, what was open, and how old it was."""

from __future__ import annotations

from typing import Any

import click

from gateway.cli.admin_client import Misused
from gateway.cli.admin_options import HELP, Options, common, pass_options
from gateway.cli.admin_output import columns
from gateway.cli.admin_subscriptions import subscription_path

_ROWS = {
    "in": "published a second",
    "out": "delivered a second",
    "open": "open messages",
    "oldestSeconds": "age of the oldest, s",
}
_BARS = "▁▂▃▄▅▆▇█"
WIDTH = 48


@click.command(
    context_settings=HELP,
    epilog="""\b
Examples:
  magnetar-admin series
  magnetar-admin series orders -s billing
  magnetar-admin --output json series orders -s billing --span 48h

\b
A point of the last hour is ten seconds long, one of the last 48 hours five minutes: of rates it has
the mean, of what is open and its age the most. A row of bars goes from 0 to its most.""",
)
@click.argument("topic", required=False)
@click.option("-s", "--subscription", metavar="NAME", help="Of this subscription of the topic.")
@click.option(
    "--span", type=click.Choice(["1h", "48h"]), default="1h", show_default=True, help="How far back."
)
@common
@pass_options
def series(options: Options, topic: str | None, subscription: str | None, span: str) -> None:
    """Show how messages came and went, how many were open, and how old the oldest was.

    Of a subscription of a share group, or of the gateway as a whole.
    """
    if (topic is None) != (subscription is None):
        raise Misused("Name a topic and a subscription (-s), or neither for the gateway as a whole.")
    path = "magnetar/series"
    if topic is not None and subscription is not None:
        path = f"{subscription_path(topic, subscription)}/magnetar/series"
    answer: dict[str, Any] = options.client().get(path, span=span)
    if options.output == "json":
        options.show(answer)
        return
    rows = [[title, *_cells(answer[name])] for name, title in _ROWS.items() if name in answer]
    click.echo(columns(["", "now", "most", f"{span}"], rows))


def _cells(points: list[float | None]) -> list[str]:
    known = [each for each in points if each is not None]
    most = max(known, default=0.0)
    each = max(1, -(-len(points) // WIDTH))
    # from the newest back, so that the last bar is the newest
    parts = [points[max(0, end - each) : end] for end in range(len(points), 0, -each)][::-1]
    bars = "".join([_bar([value for value in part if value is not None], most) for part in parts])
    now = points[-1] if points else None
    return ["-" if now is None else f"{now:,.6g}", f"{most:,.6g}" if known else "-", bars]


def _bar(values: list[float], most: float) -> str:
    if not values:
        return " "
    return _BARS[min(len(_BARS) - 1, int(max(values) / most * len(_BARS)))] if most > 0 else _BARS[0]
