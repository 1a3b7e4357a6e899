"""Series as charts of a page: lines of SVG, and a table of the same numbers, from which a browser may draw them better.

The points of the API are put together to a few more than a hundred, as the table has a row for each: of what stands at
a time (open messages, their age) the largest, so that no peak is lost, of rates the mean.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.console import drawn
from gateway.console.shown import age, number
from semantics.command_line import line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.console.visit import Visit

SERIES = ("GET", "subscription", "magnetar/series")
WIDTH, HEIGHT = 360, 90
"""Of a chart, in its own units."""
SPANS = {"1h": "last hour", "48h": "last two days"}
TOGETHER = {"1h": 3, "48h": 6}
"""Points of the API in one here: 30 s, half an hour."""
MOST_CURVES = 4
"""Subscriptions of a topic whose lines are drawn: so many can be told apart."""


class Curve(NamedTuple):
    """A line. `column` is where its numbers stand in the table."""

    name: str
    column: int
    values: list[float | None]
    # `points` of polylines
    pieces: list[str]
    # the last number, in words
    last: str


class Chart(NamedTuple):
    """Lines with one scale."""

    id: str
    title: str
    # age or number
    unit: str
    curves: list[Curve]
    # what it shows, for who cannot see it
    says: str


class Row(NamedTuple):
    """Of the table; "" where nothing was measured."""

    at: int
    cells: list[str]


class Charts(NamedTuple):
    """Those of a page; without any, `why_not`."""

    found: list[Chart]
    rows: list[Row]
    # the width of a row's time in words
    step: str
    span: str
    why_not: str
    command: str


class _Points(NamedTuple):
    """Of one series, put together."""

    first: int
    step_ms: int
    values: dict[str, list[float | None]]


async def of_subscription(visit: Visit, path: tuple[str, ...], word: str, name: str) -> Charts:
    """Age of the oldest open message, how many are open, how many come and go. `word` is the topic as one types it."""
    span, _ = span_of(visit)
    command = line("series", word, "-s", name, "--span", span)
    points, why_not = await _points(visit, path, name, span, "in,out,open,oldest")
    if points is None:
        return Charts([], [], "", span, why_not, command)
    values = points.values
    return _charts(
        points.first,
        points.step_ms,
        [
            ("oldest", "Oldest open message", "age", [("Oldest open message, s", values["oldestSeconds"])]),
            ("open", "Open messages", "number", [("Open messages", values["open"])]),
            (
                "rates",
                "Messages a second",
                "number",
                [("In / s", values.get("in", [])), ("Out / s", values.get("out", []))],
            ),
        ],
        span,
        command,
    )


async def of_topic(visit: Visit, path: tuple[str, ...], word: str, names: Sequence[str]) -> Charts:
    """What is open of each of some subscriptions, and how many messages come; `names` has those that count first,
    of share groups; one at least."""
    span, _ = span_of(visit)
    found: list[tuple[str, _Points]] = []
    why_not = ""
    for name in names[:MOST_CURVES]:
        points, refused = await _points(visit, path, name, span, "in,open")
        if points is not None:
            found.append((name, points))
        else:
            why_not = refused
    command = line("series", word, "-s", names[0], "--span", span)
    if not found:
        return Charts([], [], "", span, why_not, command)
    step = found[0][1].step_ms
    first = min(points.first for _, points in found)
    count = max((points.first - first) // step + len(points.values["open"]) for _, points in found)
    # each subscription counts what comes to the same topic: the one that is followed longest
    longest = max((points for _, points in found), key=lambda one: len(one.values["in"]))
    return _charts(
        first,
        step,
        [
            (
                "open",
                "Open messages, by subscription",
                "number",
                [(name, _from(points, "open", first, count)) for name, points in found],
            ),
            ("in", "Messages in, a second", "number", [("In / s", _from(longest, "in", first, count))]),
        ],
        span,
        command,
    )


def span_of(visit: Visit) -> tuple[str, str]:
    """(the one of the query, what is wrong with that), for the page to tell."""
    return visit.one_of("span", SPANS, "1h")


async def _points(
    visit: Visit, path: tuple[str, ...], name: str, span: str, of: str
) -> tuple[_Points | None, str]:
    at = (*path, "subscription", name)
    if not await visit.may(SERIES, *at, "magnetar", "series"):
        return None, "To see them takes the right to consume."
    answer, why_not = await visit.try_get(*at, "magnetar", "series", span=span, of=of)
    if answer is None:
        return None, why_not
    return _together(answer, TOGETHER[span]), ""


def _together(answer: dict[str, Any], many: int) -> _Points:
    """`many` points as one each. They begin at multiples of their width, so that the same ones stay together."""
    short = answer["stepSeconds"] * 1000
    begin = round(datetime.fromisoformat(answer["first"]).timestamp() * 1000 / short)
    lead = begin % many
    return _Points(
        (begin - lead) * short,
        short * many,
        {
            name: drawn.together(values, many, lead, largest=name not in ("in", "out"))
            for name, values in answer.items()
            if isinstance(values, list)
        },
    )


def _from(points: _Points, name: str, first: int, count: int) -> list[float | None]:
    """A series as one of `count` points that begins at `first`."""
    before: list[float | None] = [None] * ((points.first - first) // points.step_ms)
    whole = before + points.values[name]
    return whole + [None] * (count - len(whole))


def _charts(
    first: int,
    step: int,
    asked: list[tuple[str, str, str, list[tuple[str, list[float | None]]]]],
    span: str,
    command: str,
) -> Charts:
    """Of (id, title, unit, lines), those that something was measured of."""
    found: list[Chart] = []
    columns: list[list[float | None]] = []
    for id_, title, unit, lines in asked:
        there = [each for _, values in lines for each in values if each is not None]
        if not there:
            continue
        most = max(there)
        text = (lambda value: age(value * 1000)) if unit == "age" else number
        curves, says = [], []
        for name, values in lines:
            columns.append(values)
            known = [each for each in values if each is not None]
            last = text(known[-1]) if known else ""
            pieces = drawn.curve(values, WIDTH, HEIGHT, most)
            curves.append(Curve(name, len(columns), values, pieces, last))
            if known:
                of = f"{name} " if len(lines) > 1 else ""
                says.append(f"{of}{last} now, {text(min(known))} at least, {text(max(known))} at most")
        found.append(Chart(id_, title, unit, curves, f"{title}, {SPANS[span]}: {'; '.join(says)}"))
    rows = [
        Row(first + at * step, [_plain(values[at]) if at < len(values) else "" for values in columns])
        for at in range(max((len(values) for values in columns), default=0))
    ]
    why_not = "" if found else "Nothing was measured yet."
    return Charts(found, rows, age(step), span, why_not, command)


def _plain(value: float | None) -> str:
    """As a program reads it, too."""
    return "" if value is None else f"{value:.1f}".removesuffix(".0")
