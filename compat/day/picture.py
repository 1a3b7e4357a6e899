"""The picture of the day: who had which lane, who worked on which key, and what happened meanwhile. SVG, by hand.

Pure: a story in, text out. Colours follow the reader's light or dark mode; a member is told by its number, too.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from compat.day.events import Event, Killed, Took, tenures
from compat.day.ledger import Record, rate
from compat.day.members import Part

WIDTH, LEFT, RIGHT = 1000, 84, 56
LANE, KEY = 17, 15
"""Heights of a row."""
KEYS = 12
"""How many keys are shown."""
STEP = 0.5
"""Seconds that a bar stands for."""
LETTER = 6.1
"""About how wide a letter of the small text is."""

LIGHT = {"paper": "#fcfcfb", "ink": "#1b1b1a", "soft": "#6b6a66", "line": "#d9d8d4", "bad": "#c4281c"}
DARK = {"paper": "#171716", "ink": "#efeeea", "soft": "#a3a29c", "line": "#3b3a37", "bad": "#ff6b5e"}
LIGHT_MEMBERS = ("#2a78d6", "#d06a12", "#128a63", "#6d4fc4", "#a87a06", "#2f9b8c", "#c0417e", "#7a5a3c")
DARK_MEMBERS = ("#5ea2f0", "#ee9447", "#3fbd92", "#a48cf0", "#dfb23c", "#6ed3c5", "#ea78ac", "#c29b76")
"""Of members 1 to 8, and again from the first."""
SHAPES = """
text { font: 11px system-ui, -apple-system, "Segoe UI", sans-serif; }
.title { font-size: 15px; font-weight: 600; } .bold, .name { font-weight: 600; }
.name { paint-order: stroke; stroke-width: 3px; stroke-linejoin: round; }
.end { text-anchor: end; } .mid { text-anchor: middle; }
.total { fill-opacity: .45; } .away { fill-opacity: .22; } .band { fill-opacity: .22; }
.line, .mark, .cross, .held, .again, .tick { fill: none; }
.mark { stroke-dasharray: 4 3; } .held { stroke-dasharray: 1 4; }
.cross { stroke-width: 2; } .again, .tick { stroke-width: 1.4; }
"""


def _style(members: int) -> str:
    """CSS without variables: not every program that shows SVG knows them."""
    dark = "".join(f"  {line}\n" for line in _colours(DARK, DARK_MEMBERS, members).splitlines())
    light = _colours(LIGHT, LIGHT_MEMBERS, members)
    return f"{SHAPES}{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


def _colours(named: Mapping[str, str], of_members: Sequence[str], members: int) -> str:
    lines = [
        f"text {{ fill: {named['ink']}; }} .name {{ stroke: {named['paper']}; }} .paper {{ fill: {named['paper']}; }}",
        f".soft, .total, .away {{ fill: {named['soft']}; }} .line {{ stroke: {named['line']}; }}",
        f".mark, .again {{ stroke: {named['ink']}; }} .bad {{ fill: {named['bad']}; }}",
        f".cross, .held {{ stroke: {named['bad']}; }}",
    ]
    for number in range(1, members + 1):
        colour = of_members[(number - 1) % len(of_members)]
        lines.append(f".f{number} {{ fill: {colour}; }} .s{number} {{ stroke: {colour}; }}")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Story:
    """What there is to show. Times as in events.py."""

    cast: Sequence[Part]
    lanes: int
    events: Sequence[Event]
    began: float
    """The first order."""
    closed: float
    """The last one."""
    end: float
    outages: Sequence[tuple[float, float]]
    """When the gateway was killed, and when it answered again."""
    letters: Sequence[Record]


def draw(story: Story) -> str:
    """The SVG, as text."""
    return _Picture(story).draw()


class _Picture:
    def __init__(self, story: Story) -> None:
        self.story = story
        self.first = max(0.0, story.began - 0.5)
        self.scale = (WIDTH - LEFT - RIGHT) / max(story.end - self.first, 1.0)
        self.taken = sorted(
            (event for event in story.events if isinstance(event, Took)), key=lambda one: one.at
        )
        self.parts: list[str] = []

    def draw(self) -> str:
        labels = _rows(self._labels())
        top = 50 + 15 * (1 + max((row for row, _, _ in labels), default=0))
        lanes = top + 62 + 30
        keys = lanes + self.story.lanes * LANE + 32
        shown = self._shown()
        bottom = keys + len(shown) * KEY + 4
        self._head()
        for begin, end in self.story.outages:
            self._add(
                f'<rect class="away" x="{self._x(begin)}" y="{top - 6}" width="{_n((end - begin) * self.scale)}" '
                f'height="{bottom - top + 6}"/>'
            )
        self._axis(top, bottom)
        self._rate(top, 62)
        self._lanes(lanes)
        self._keys(keys, shown)
        for row, x, _ in labels:
            self._add(f'<path class="mark" d="M{_n(x)} {50 + 15 * row}V{bottom}"/>')
        for row, x, text in labels:
            self._text(x + 3, 48 + 15 * row, text, "name bad" if text in _BAD else "name")
        self._legend(bottom + 44)
        size = f'viewBox="0 0 {WIDTH} {bottom + 82}"'
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title">',
                f"<style>{_style(max(part.number for part in self.story.cast))}</style>",
                f'<rect class="paper" width="{WIDTH}" height="{bottom + 82}"/>',
                *self.parts,
                "</svg>\n",
            )
        )

    def _head(self) -> None:
        self._add(
            f'<text id="title" class="title" x="{LEFT}" y="20">A day in the life of a queue topic</text>'
        )
        languages = Counter(part.language for part in self.story.cast)
        self._text(
            WIDTH - RIGHT,
            20,
            f"{self.story.lanes} lanes, {len(self.story.cast)} members: "
            + ", ".join(f"{count} {language}" for language, count in languages.items()),
            "soft end",
        )

    def _labels(self) -> list[tuple[float, str]]:
        """(x, what happened there)."""
        found = [
            (event.at, f"{event.member} {_KILLED}")
            for event in self.story.events
            if isinstance(event, Killed)
        ]
        for at, killed in list(found):
            member = int(killed.split()[0])
            back = [
                one.begin
                for one in tenures(self.story.events, self.story.end)
                if one.member == member and one.begin > at
            ]
            found += [(begin, f"{member} is back") for begin in back[:1]]
        found += [(begin, _GATEWAY) for begin, _ in self.story.outages]
        for letter in self.story.letters:
            times = [one for one in self.taken if (one.key, one.number) == letter]
            if times:
                found += [(times[0].at, _POISON), (times[-1].ended, _DEAD)]
        found.append((self.story.closed, "last order"))
        return [(self._at(at), text) for at, text in sorted(found)]

    def _axis(self, top: float, bottom: float) -> None:
        for second in range(0, math.ceil(self.story.end - self.story.began), 5):
            x = self._x(self.story.began + second)
            self._add(f'<path class="line" d="M{x} {top}V{bottom}"/>')
            self._text(x, bottom + 14, f"{second} s", "soft mid")

    def _rate(self, top: float, height: float) -> None:
        """How much was done."""
        values = rate(self.taken, STEP)
        most = max(values, default=0.0) or 1.0
        self._text(LEFT - 8, top + 10, "done", "bold end")
        self._text(LEFT - 8, top + 24, "a second", "bold end")
        grid = _grid(most)
        y = top + height - grid / most * height
        self._add(
            f'<path class="line" d="M{LEFT} {_n(y)}H{WIDTH - RIGHT}M{LEFT} {top + height}H{WIDTH - RIGHT}"/>'
        )
        self._text(WIDTH - RIGHT + 8, y + 4, f"{grid:,.0f}", "soft")
        points = f"M{self._x(max(self.first, 0))} {top + height}"
        for n, value in enumerate(values):
            if (n + 1) * STEP > self.first:
                left, right = (
                    self._x(max(self.first, min(at, self.story.end))) for at in (n * STEP, (n + 1) * STEP)
                )
                points += f"L{left} {_n(top + height - value / most * height)}H{right}"
        self._add(f'<path class="total" d="{points}V{top + height}Z"/>')

    def _lanes(self, top: float) -> None:
        """Who had them, and how much was done on each."""
        self._text(LEFT - 8, top - 8, "lane", "bold end")
        self._text(
            LEFT, top - 8, "who has it (band), and what is done there in each half second (bars)", "soft"
        )
        for lane in range(self.story.lanes):
            self._text(LEFT - 8, top + lane * LANE + 12, str(lane), "soft end")
        killed = {(event.member, event.at) for event in self.story.events if isinstance(event, Killed)}
        held = [one for one in tenures(self.story.events, self.story.end) if one.end > self.first]
        for one in held:
            x, y = self._at(max(one.begin, self.first)), top + one.lane * LANE
            width = (one.end - max(one.begin, self.first)) * self.scale
            self._add(
                f'<rect class="band f{one.member}" x="{_n(x)}" y="{y}" width="{_n(width)}" '
                f'height="{LANE - 2}"/>'
            )
        self._bars(top)
        for one in held:
            x, y = self._at(max(one.begin, self.first)), top + one.lane * LANE
            if (one.end - one.begin) * self.scale > 16:
                self._text(x + 3, y + 12, str(one.member), "name")
            if (one.member, one.end) in killed:
                self._cross(self._at(one.end), y + LANE / 2 - 1)

    def _bars(self, top: float) -> None:
        counts: Counter[tuple[int, int, int]] = Counter(
            (one.member, one.lane, int(one.ended / STEP)) for one in self.taken if not one.nacked
        )
        # what is far above the usual would make all else look small
        most = 2 * sum(counts.values()) / max(len(counts), 1)
        paths: dict[int, list[str]] = defaultdict(list)
        for (member, lane, step), count in sorted(counts.items()):
            if self.first <= step * STEP < self.story.end:
                height = _n(min(1.0, count / most) * (LANE - 3))
                width = _n((min(STEP, self.story.end - step * STEP)) * self.scale - 1)
                paths[member].append(
                    f"M{self._x(step * STEP)} {top + (lane + 1) * LANE - 2}v-{height}h{width}v{height}z"
                )
        for member, path in paths.items():
            self._add(f'<path class="f{member}" d="{"".join(path)}"/>')

    def _shown(self) -> list[tuple[int, str]]:
        """(lane, key), by lane: the keys of dead letters, and one on each of some other lanes, if there is one of which
        something came again."""
        on = {one.key: one.lane for one in self.taken}
        again = {one.key for one in self.taken if one.failed}
        wanted = {on[key]: key for key, _ in self.story.letters if key in on}
        step = max(1.0, self.story.lanes / KEYS)
        for lane in [int(n * step) for n in range(min(KEYS, self.story.lanes))]:
            keys = sorted((key not in again, key) for key in on if on[key] == lane)
            if keys and len(wanted) < KEYS:
                wanted.setdefault(lane, keys[0][1])
        return sorted(wanted.items())

    def _keys(self, top: float, shown: Sequence[tuple[int, str]]) -> None:
        """Each delivery of some keys."""
        self._text(LEFT - 8, top - 8, "key", "bold end")
        self._text(
            LEFT, top - 8, "each delivery, in its member's colour; below the line what came again", "soft"
        )
        dead = dict(self.story.letters)
        for row, (lane, key) in enumerate(shown):
            y = top + row * KEY
            self._text(LEFT - 8, y + 11, key, "bad bold end" if key in dead else "soft end")
            self._text(WIDTH - RIGHT + 8, y + 11, f"lane {lane}", "soft")
            taken = [one for one in self.taken if one.key == key and one.at >= self.first]
            paths: dict[str, list[str]] = defaultdict(list)
            for one in taken:
                if one.nacked:
                    continue
                again = one.failed > 0
                kind = "again" if again else f"tick s{one.member}"
                paths[kind].append(f"M{self._x(one.at)} {y + 9 if again else y + 2}v{4 if again else 9}")
            for kind, path in paths.items():
                self._add(f'<path class="{kind}" d="{"".join(path)}"/>')
            nacks = [one for one in taken if one.nacked]
            for one, after in pairwise(nacks):
                self._add(f'<path class="held" d="M{self._x(one.at)} {y + 6.5}H{self._x(after.at)}"/>')
            for one in nacks[: -1 if key in dead else None]:
                self._cross(self._at(one.at), y + 6.5)
            if key in dead and nacks:
                x = self._at(nacks[-1].at)
                self._add(f'<path class="bad" d="M{_n(x)} {y}l6.5 6.5l-6.5 6.5l-6.5 -6.5z"/>')

    def _legend(self, y: float) -> None:
        room = (WIDTH - LEFT - RIGHT) / max(len(self.story.cast), 1)
        for n, part in enumerate(self.story.cast):
            x = LEFT + n * room
            self._add(f'<rect class="f{part.number}" x="{_n(x)}" y="{y - 9}" width="11" height="11" rx="2"/>')
            self._text(x + 16, y, f"{part.number} {part.language}{' (slow)' if part.slow else ''}")
        room = (WIDTH - LEFT - RIGHT) / 4
        self._cross(LEFT + 5, y + 18)
        self._text(LEFT + 16, y + 22, "killed; of a key: a nack")
        x = LEFT + room
        self._add(f'<path class="bad" d="M{_n(x + 5)} {y + 12}l6 6l-6 6l-6 -6z"/>')
        self._text(x + 16, y + 22, "dead letter")
        x += room
        self._add(f'<path class="held" d="M{_n(x)} {y + 18}h16"/>')
        self._text(x + 22, y + 22, "the rest of the key waits")
        x += room
        self._add(f'<rect class="away" x="{_n(x)}" y="{y + 11}" width="14" height="14"/>')
        self._text(x + 20, y + 22, "no gateway")

    def _cross(self, x: float, y: float) -> None:
        self._add(f'<path class="cross" d="M{_n(x - 4)} {_n(y - 4)}l8 8m0 -8l-8 8"/>')

    def _text(self, x: float | str, y: float, text: str, kind: str = "") -> None:
        at = x if isinstance(x, str) else _n(x)
        self._add(
            f'<text{f" class={chr(34)}{kind}{chr(34)}" if kind else ""} x="{at}" y="{_n(y)}">{escape(text)}</text>'
        )

    def _add(self, element: str) -> None:
        self.parts.append(element)

    def _at(self, time: float) -> float:
        return LEFT + (time - self.first) * self.scale

    def _x(self, time: float) -> str:
        return _n(self._at(time))


_KILLED, _GATEWAY, _POISON, _DEAD = "is killed", "the gateway is killed", "poison", "dead letter"
_BAD = {_POISON, _DEAD}


def _rows(labels: Iterable[tuple[float, str]]) -> list[tuple[int, float, str]]:
    """(row, x, text) of labels that stand beside each other where there is room, and else below."""
    ends: list[float] = []
    found = []
    for x, text in labels:
        row = next((n for n, end in enumerate(ends) if end <= x), len(ends))
        ends[row : row + 1] = [x + len(text) * LETTER + 10]
        found.append((row, x, text))
    return found


def _grid(most: float) -> float:
    """The highest of 1, 2, 5, 10, ... that is not above."""
    power = 10.0 ** math.floor(math.log10(most))
    return max(step * power for step in (1, 2, 5) if step * power <= most)


def _n(number: float) -> str:
    """A tenth of a pixel is enough."""
    return f"{number:.1f}".removesuffix(".0")
