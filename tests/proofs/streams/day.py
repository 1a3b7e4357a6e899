"""A day's records, and what must come out of them: by the records alone, whatever happened to who worked on them.

Times are virtual: the whole day is produced within minutes. It ends now, since retention counts by these times.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

HOUR_MS = 3_600_000
QUARTER_MS = HOUR_MS // 4
SHOPS, REGIONS = 40, 7
PAID_AFTER_MS = 5 * 60_000
"""A payment comes so long after its sale."""
WORDS = (
    "bread",
    "milk",
    "apples",
    "tea",
    "coffee",
    "salt",
    "rice",
    "beans",
    "soap",
    "candles",
    "cheese",
    "plums",
)
OUTPUTS = ("streams-wordcount-output", "regions", "paid", "quarters")
CLOSING = "closing"
"""Keys of the records that only move the time on, and stand in no result."""

Seen = Mapping[str, list[str]]
"""Key -> its values in the order in which they came."""


class Line(NamedTuple):
    """A record that goes in. `time` in ms since 1970."""

    topic: str
    key: str
    value: str
    time: int


def region_of(shop: int) -> str:
    return f"region-{shop % REGIONS}"


def table(begin: int) -> list[Line]:
    """The shops, before the day."""
    return [Line("shops", f"shop-{n}", region_of(n), begin - HOUR_MS) for n in range(SHOPS)]


def lines(seed: int, count: int, begin: int) -> list[Line]:
    """`count` sales from `begin` (ms) on, over a day, with their payments and what was bought; in order of time."""
    dice = random.Random(seed)
    found = []
    for number in range(count):
        time = begin + 24 * HOUR_MS * number // count
        shop = f"shop-{dice.randrange(SHOPS)}"
        found.append(Line("sales", shop, f"{number} {dice.randint(1, 99_999)}", time))
        found.append(Line("payments", shop, str(number), time + PAID_AFTER_MS))
        found.append(Line("streams-plaintext-input", "", " ".join(dice.choices(WORDS, k=2)), time))
    return sorted(found, key=lambda line: line.time)


def closing(end: int, partitions: int) -> list[tuple[Line, int]]:
    """What closes the last windows: a record for each partition, and the partition."""
    return [(Line("sales", f"{CLOSING}-{n}", f"{CLOSING} 0", end), n) for n in range(partitions)]


def expected(given: Iterable[Line]) -> dict[str, dict[str, list[str]]]:
    """Output topic -> key -> its values, in their order where there are several."""
    quarters: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    words: Counter[str] = Counter()
    paid: dict[str, list[str]] = {}
    for line in given:
        if line.topic == "sales":
            number, cents = line.value.split()
            quarters[f"{line.key}@{line.time // QUARTER_MS * QUARTER_MS}"] += int(cents)
            region = region_of(int(line.key.removeprefix("shop-")))
            counts[region] += 1
            sums[region] += int(cents)
            paid.setdefault(line.key, []).append(f"{number} {number}")
        elif line.topic == "streams-plaintext-input":
            words.update(line.value.split())
    return {
        "quarters": {window: [str(total)] for window, total in quarters.items()},
        "regions": {region: [f"{count} {sums[region]}"] for region, count in counts.items()},
        "paid": {shop: sorted(numbers) for shop, numbers in paid.items()},
        "streams-wordcount-output": {
            word: [str(n + 1) for n in range(total)] for word, total in words.items()
        },
    }


def wrong(topic: str, seen: Seen, should: Mapping[str, list[str]]) -> str | None:
    """What is wrong with an output, in a sentence; None when it is exact."""
    seen = {key: values for key, values in seen.items() if not key.startswith(CLOSING)}
    if missing := sorted(should.keys() - seen.keys()):
        return f"{topic} has nothing of {missing[0]}, and of {len(missing) - 1} others"
    if more := sorted(seen.keys() - should.keys()):
        return f"{topic} has {more[0]}, which should not be, and {len(more) - 1} others"
    for key, values in seen.items():
        if topic == "regions":
            counts = [int(value.split()[0]) for value in values]
            if (at := _out_of_row(counts)) is not None:
                return f"{topic}: of {key} comes {values[at]} after {values[at - 1] if at else 'nothing'}"
            values = values[-1:]
        elif topic == "paid":
            values = sorted(values)
        if values != should[key]:
            return f"{topic}: of {key} came {_short(values)}, and not {_short(should[key])}"
    return None


def _out_of_row(counts: list[int]) -> int | None:
    """Where a count is not one more than that before it."""
    return next((at for at, count in enumerate(counts) if count != at + 1), None)


def _short(values: list[str]) -> str:
    shown = ", ".join(values[-3:])
    return f"{len(values)}: … {shown}" if len(values) > 3 else shown or "nothing"
