"""Numbers as shapes: what SVG needs to draw them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

HEIGHT = 17
"""Of a strip, in its own units; a column is one wide."""
LEAST = 2.0
"""So high a state is drawn at least where it is at all: one that is stuck must be seen among thousands."""
ORDER = ("delayed", "unread", "available", "acquired", "backoff", "blocked", "dying")
"""From the bottom to the top."""


def strip_paths(states: Mapping[str, Sequence[int]], columns: int) -> dict[str, str]:
    """Counts by column, as the `d` of one path a state, those that there are."""
    there = [(state, states[state]) for state in ORDER if state in states]
    stacks = list(zip(*(counts[:columns] for _, counts in there), strict=True))
    most = max(map(sum, stacks), default=0)
    # columns of the same counts, of which there are many, are worked out once
    known: dict[tuple[int, ...], list[tuple[str, float, float]]] = {}
    # by state (first column, columns, bottom, height), equal neighbours as one
    runs: dict[str, list[tuple[int, int, float, float]]] = {state: [] for state, _ in there}
    for at, stack in enumerate(stacks):
        boxes = known.get(stack)
        if boxes is None:
            boxes = known[stack] = _boxes([state for state, _ in there], stack, most)
        for state, bottom, high in boxes:
            kept = runs[state]
            if kept and kept[-1][0] + kept[-1][1] == at and kept[-1][2:] == (bottom, high):
                kept[-1] = (kept[-1][0], kept[-1][1] + 1, bottom, high)
            else:
                kept.append((at, 1, bottom, high))
    return {
        state: "".join(
            f"M{first} {bottom:g}h{width}v-{high:g}h-{width}z" for first, width, bottom, high in each
        )
        for state, each in runs.items()
        if each
    }


def _boxes(states: Sequence[str], stack: Sequence[int], most: int) -> list[tuple[str, float, float]]:
    """(state, bottom, height) of those in one column, from the bottom to the top."""
    heights = [
        (state, max(HEIGHT * count / most, LEAST))
        for state, count in zip(states, stack, strict=True)
        if count
    ]
    whole = sum(height for _, height in heights)
    fits = min(HEIGHT / whole, 1.0) if whole else 1.0
    bottom = float(HEIGHT)
    found: list[tuple[str, float, float]] = []
    for state, height in heights:
        high = round(height * fits, 1)
        found.append((state, bottom, high))
        bottom = round(bottom - high, 1)
    return found


def together(
    values: Sequence[float | None], many: int, lead: int = 0, *, largest: bool
) -> list[float | None]:
    """`many` values as one each, their largest or their mean. The first one lacks `lead` of them."""
    found: list[float | None] = []
    for at in range(-lead, len(values), many):
        there = [each for each in values[max(at, 0) : at + many] if each is not None]
        if not there:
            found.append(None)
        else:
            found.append(max(there) if largest else sum(there) / len(there))
    return found


def curve(values: Sequence[float | None], width: int, height: int, top: float | None = None) -> list[str]:
    """Values over time as the `points` of polylines from 0 at the bottom to the most, or `top`, at the top; one for
    each piece without a hole.
    """
    most = (top if top is not None else max((each for each in values if each is not None), default=0)) or 1
    step = width / max(len(values) - 1, 1)
    found: list[str] = []
    piece: list[str] = []
    for number, each in enumerate([*values, None]):
        if each is not None:
            piece.append(f"{number * step:.4g},{height - height * each / most:.4g}")
        elif piece:
            # a point alone is a dash, else nothing is seen of it
            found.append(" ".join(piece if len(piece) > 1 else piece * 2))
            piece = []
    return found


def bars(counts: Sequence[tuple[int, int]], height: int) -> list[tuple[float, float]]:
    """(lower, upper) of each as heights of its two bars, which stand one on the other."""
    most = max((lower + upper for lower, upper in counts), default=0) or 1
    return [(round(height * lower / most, 2), round(height * upper / most, 2)) for lower, upper in counts]
