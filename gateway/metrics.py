"""Counters, gauges and histograms, and the text that Prometheus scrapes (exposition format 0.0.4).

Our own writer, because the data path touches these objects on every request and a scrape may hold 100,000
lines: prometheus-client blocks the loop for 329 ms with 20,000 series where f-strings take 29.

    metrics = Metrics()
    requests = metrics.counter("magnetar_requests_total", "Requests answered.", ("api",))
    fetches = requests.labels("Fetch")      # once, at start-up: looking up costs more than counting
    fetches.value += 1                      # on the data path
    latency = metrics.histogram("magnetar_x_seconds", "How long x took.").labels()
    latency.observe(0.0021)

A family always hands out children through `labels(...)`, also when it has no labels (`labels()`). Everything
here runs on one thread; increments from others may be lost.

What is not counted but asked for when somebody scrapes comes through `Metrics.collect(fn)`: `fn` may set
gauges and return None, or be a generator of ready lines (see `head` and `sample`) for families with a series
per topic, which nobody wants to keep in memory between two scrapes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""What an HTTP answer with `Metrics.render` is typed as."""

LATENCY_SECONDS = (
    0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
"""Bucket bounds for times: from a request served out of memory to one that has timed out for most clients."""

COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Bucket bounds for numbers of things, such as batches in a group commit."""

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*\Z")
_INFINITY = float("inf")


def number(value: float) -> str:
    """A sample's value as the format writes it."""
    if isinstance(value, int):
        return str(value)
    if value != value:
        return "NaN"
    if value in (_INFINITY, -_INFINITY):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def escape(value: str) -> str:
    """A label's value, ready to stand between double quotes. Costs little when there is nothing to escape."""
    if "\\" in value:
        value = value.replace("\\", "\\\\")
    if '"' in value:
        value = value.replace('"', '\\"')
    if "\n" in value:
        value = value.replace("\n", "\\n")
    return value


def head(name: str, kind: str, text: str) -> str:
    """The two lines above a family's samples. `kind` is counter, gauge or histogram."""
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {name} {text}\n# TYPE {name} {kind}"


def sample(name: str, labels: dict[str, str], value: float) -> str:
    """One line. For collectors with few series; those with many write their own f-string with `escape`."""
    inner = ",".join(f'{key}="{escape(text)}"' for key, text in labels.items())
    return f"{name}{{{inner}}} {number(value)}" if inner else f"{name} {number(value)}"


class Counter:
    """A number that only grows. `value` is public: `c.value += 1` is the cheapest increment there is."""

    __slots__ = ("_head", "value")

    def __init__(self, name: str, labels: str) -> None:
        self._head = f"{name}{{{labels}}} " if labels else f"{name} "
        self.value: float = 0

    def inc(self, amount: float = 1) -> None:
        self.value += amount

    def lines(self) -> Iterator[str]:
        yield self._head + number(self.value)


class Gauge(Counter):
    """A number that goes up and down."""

    __slots__ = ()

    def dec(self, amount: float = 1) -> None:
        self.value -= amount

    def set(self, value: float) -> None:
        self.value = value


class Histogram:
    """How often values fell into each bucket, and their sum. Buckets are cumulated when scraped."""

    __slots__ = ("_bounds", "_heads", "_tail", "counts", "sum")

    def __init__(self, name: str, labels: str, bounds: tuple[float, ...]) -> None:
        comma = "," if labels else ""
        self._bounds = bounds
        self._heads = [
            f'{name}_bucket{{{labels}{comma}le="{number(bound)}"}} ' for bound in (*bounds, _INFINITY)
        ]
        suffix = f"{{{labels}}} " if labels else " "
        self._tail = (f"{name}_sum{suffix}", f"{name}_count{suffix}")
        self.counts = [0] * (len(bounds) + 1)
        # the sum of everything observed, in the family's unit
        self.sum: float = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value (that many times). On the data path: 0.1 µs."""
        self.counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times

    @property
    def count(self) -> int:
        """How many values were observed."""
        return sum(self.counts)

    def lines(self) -> Iterator[str]:
        total = 0
        for start, count in zip(self._heads, self.counts, strict=True):
            total += count
            yield start + str(total)
        yield self._tail[0] + number(self.sum)
        yield self._tail[1] + str(total)


Child = TypeVar("Child", Counter, Gauge, Histogram)


class Family(Generic[Child]):
    """One metric with its children, one for each combination of label values."""

    __slots__ = ("_children", "_head", "_make", "label_names", "name")
    _make: Callable[[str, str], Child]

    def __init__(
        self, name: str, kind: str, text: str, labels: tuple[str, ...], make: Callable[[str, str], Child]
    ) -> None:
        self.name = name
        self.label_names = labels
        self._head = head(name, kind, text)
        self._make = make
        self._children: dict[tuple[str, ...], Child] = {}
        if not labels:
            # a metric without labels is 0 from the start, not absent
            self.labels()

    def labels(self, *values: str) -> Child:
        """The child for these label values, made when first asked for. ValueError for a wrong number."""
        child = self._children.get(values)
        if child is None:
            if len(values) != len(self.label_names):
                raise ValueError(f"{self.name} has labels {self.label_names}, not {len(values)} of them")
            inner = ",".join(
                f'{key}="{escape(text)}"' for key, text in zip(self.label_names, values, strict=True)
            )
            child = self._children[values] = self._make(self.name, inner)
        return child

    def remove(self, *values: str) -> None:
        """Forget a child, so that what is gone (a topic, a listener) is gone from the scrapes too."""
        self._children.pop(values, None)

    def lines(self) -> Iterator[str]:
        if not self._children:
            return
        yield self._head
        for child in tuple(self._children.values()):
            yield from child.lines()


class Metrics:
    """All metrics of one process, in the order in which they were defined."""

    def __init__(self) -> None:
        self._families: dict[str, Family[Counter] | Family[Gauge] | Family[Histogram]] = {}
        self._collectors: list[Callable[[], Iterable[str] | None]] = []

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Family[Counter]:
        """Define a counter. By convention its name ends in `_total`. ValueError for a bad or taken name."""
        family = Family(name, "counter", help, self._check(name, labels), Counter)
        self._families[name] = family
        return family

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> Family[Gauge]:
        """Define a gauge. ValueError for a bad or taken name."""
        family = Family(name, "gauge", help, self._check(name, labels), Gauge)
        self._families[name] = family
        return family

    def histogram(
        self, name: str, help: str, buckets: Sequence[float] = LATENCY_SECONDS, labels: Sequence[str] = ()
    ) -> Family[Histogram]:
        """Define a histogram with these upper bounds: inclusive, ascending; the last, +Inf, is implied."""
        bounds = tuple(buckets)
        if not bounds or list(bounds) != sorted(set(bounds)) or bounds[-1] == _INFINITY:
            raise ValueError(f"bucket bounds of {name} must ascend and end below infinity: {bounds}")
        checked = self._check(name, labels)
        if "le" in checked:
            raise ValueError(f"{name}: 'le' is the buckets' own label")
        family = Family(name, "histogram", help, checked, lambda own, inner: Histogram(own, inner, bounds))
        self._families[name] = family
        return family

    def names(self) -> list[str]:
        """Of all families, in the order in which they were defined."""
        return list(self._families)

    def collect(self, collector: Callable[[], Iterable[str] | None]) -> None:
        """Call `collector` at each scrape: it sets gauges and returns None, or yields ready lines."""
        self._collectors.append(collector)

    def lines(self) -> Iterator[str]:
        """Everything, line by line (a family's two head lines come as one item, without the last newline).

        The caller may pause between lines to let the loop breathe; a sample is read when its line is made.
        """
        ready = [lines for collector in self._collectors if (lines := collector()) is not None]
        for family in tuple(self._families.values()):
            yield from family.lines()
        for lines in ready:
            yield from lines

    def render(self) -> bytes:
        """Everything at once, in text format 0.0.4."""
        return ("\n".join(self.lines()) + "\n").encode()

    def _check(self, name: str, labels: Sequence[str]) -> tuple[str, ...]:
        if not _NAME.match(name):
            raise ValueError(f"not a metric name: {name!r}")
        if name in self._families:
            raise ValueError(f"the metric {name} is defined twice")
        for label in labels:
            if not _LABEL.match(label):
                raise ValueError(f"not a label name: {label!r} of {name}")
        return tuple(labels)
