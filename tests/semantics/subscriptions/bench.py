"""What the cursor costs: `python -m tests.semantics.subscriptions.bench` prints a table (microseconds)."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterable
from time import thread_time

from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.states import Batch

ACCEPT, RELEASE = b"\x01", b"\x02"
TIMES = 400


class Even:
    """Slots split evenly."""

    def __init__(self, consumers: int) -> None:
        self._consumers = consumers

    def ranges(self) -> Iterable[tuple[int, int, str]]:
        width = 65_536 // self._consumers
        return [(at * width, (at + 1) * width, f"c{at}") for at in range(self._consumers)]


def best(times: int, step: Callable[[], float]) -> float:
    """The median of what `step` says it took, in us."""
    return sorted(step() for _ in range(times))[times // 2] * 1e6


def shared(config: SubscriptionConfig | None = None) -> Cursor:
    cursor = Cursor.fresh(config or SubscriptionConfig(delivery_limit=0, receiver_queue=10**9), 0)
    cursor.attach("c0", 0)
    return cursor


def whole() -> float:
    cursor = shared()

    def step() -> float:
        first = cursor.read
        began = thread_time()
        cursor.feed([Batch(first, first + 500)], 0, 0)
        cursor.poll("c0", 500, 0, 0)
        cursor.acknowledge("c0", [(first, first + 499, ACCEPT)], 0, 0)
        return thread_time() - began

    return best(TIMES, step)


def scattered() -> float:
    cursor = shared()

    def step() -> float:
        first = cursor.read
        cursor.feed([Batch(first, first + 500)], 0, 0)
        cursor.poll("c0", 500, 0, 0)
        runs = [(at, at + 3, ACCEPT) for at in range(first, first + 500, 5)]
        rest = [(at + 4, at + 4, ACCEPT) for at in range(first, first + 500, 5)]
        began = thread_time()
        cursor.acknowledge("c0", runs, 0, 0)
        took = thread_time() - began
        cursor.acknowledge("c0", rest, 0, 0)
        return took

    return best(TIMES, step)


def typed() -> float:
    """One batch of 500 with a type for each."""
    cursor = shared()

    def step() -> float:
        first = cursor.read
        cursor.feed([Batch(first, first + 500)], 0, 0)
        cursor.poll("c0", 500, 0, 0)
        began = thread_time()
        cursor.acknowledge("c0", [(first, first + 499, ACCEPT * 500)], 0, 0)
        return thread_time() - began

    return best(TIMES, step)


def redelivered() -> float:
    cursor = shared()

    def step() -> float:
        first = cursor.read
        cursor.feed([Batch(first, first + 500)], 0, 0)
        cursor.poll("c0", 500, 0, 0)
        fifth = [(at, at, RELEASE) for at in range(first, first + 500, 5)]
        again = [(at, at, ACCEPT) for at in range(first, first + 500, 5)]
        cursor.acknowledge("c0", [(at + 1, at + 4, ACCEPT) for at in range(first, first + 500, 5)], 0, 0)
        began = thread_time()
        cursor.acknowledge("c0", fifth, 0, 0)
        cursor.poll("c0", 500, 0, 0)
        took = thread_time() - began
        cursor.acknowledge("c0", again, 0, 0)
        return took

    return best(TIMES, step)


def rows_plain() -> float:
    cursor = shared()

    def step() -> float:
        first = cursor.read
        cursor.feed([Batch(first, first + 500)], 0, 0)
        cursor.poll("c0", 500, 0, 0)
        cursor.acknowledge("c0", [(first, first + 499, ACCEPT)], 0, 0)
        began = thread_time()
        assert len(cursor.writes()) == 1
        return thread_time() - began

    return best(TIMES, step)


def rows_scattered() -> float:
    cursor = shared()

    def step() -> float:
        first = cursor.read
        cursor.feed([Batch(first, first + 1024)], 0, 0)
        cursor.poll("c0", 1024, 0, 0)
        cursor.acknowledge("c0", [(at, at + 3, ACCEPT) for at in range(first + 1, first + 1020, 5)], 0, 0)
        began = thread_time()
        cursor.writes()
        took = thread_time() - began
        cursor.acknowledge("c0", [(at, at, ACCEPT) for at in range(first, first + 1020, 5)], 0, 0)
        cursor.acknowledge("c0", [(first + 1020, first + 1023, ACCEPT)], 0, 0)
        return took

    return best(TIMES, step)


def keyed(
    consumers: int = 4, keys: int = 10_000, strict: bool = True, runs: bool = False
) -> dict[str, float]:
    """us a record, by what is done."""
    config = SubscriptionConfig(type="key_shared", strict=strict)
    cursor = Cursor.fresh(config, 0)
    names = [f"c{at}" for at in range(consumers)]
    for name in names:
        cursor.attach(name, 0)
    cursor.reassign(Even(consumers), 0)
    dice = random.Random(1)
    slots = [dice.randrange(65_536) for _ in range(keys)]
    batches = 400
    stored = [array("H", [dice.choice(slots) for _ in range(500)]) for _ in range(batches)]
    took = {"feed": 0.0, "poll": 0.0, "acknowledge": 0.0}
    fed = done = 0
    now = 0
    while done < batches * 500:
        for name in names:
            now += 1
            while fed < batches and cursor.wants_more(name):
                began = thread_time()
                cursor.feed([Batch(fed * 500, fed * 500 + 500, stored[fed])], now, now)
                took["feed"] += thread_time() - began
                fed += 1
            began = thread_time()
            taken = cursor.poll(name, 500, now, now)
            took["poll"] += thread_time() - began
            acks = (
                [(first, last, ACCEPT) for first, last, _ in taken]
                if runs
                else [(at, at, ACCEPT) for first, last, _ in taken for at in range(first, last + 1)]
            )
            began = thread_time()
            assert cursor.acknowledge(name, acks, now, now) is None
            took["acknowledge"] += thread_time() - began
            done += sum(last - first + 1 for first, last, _ in taken)
        cursor.writes()
    return {what: seconds * 1e6 / done for what, seconds in took.items()}


def main() -> None:
    print(f"{'Shared: feed, poll, acknowledge 500 as one range':60} {whole():8.1f}")
    print(f"{'Shared: acknowledge 100 runs of 4 among 500':60} {scattered():8.1f}")
    print(f"{'Shared: acknowledge 500 with a type each':60} {typed():8.1f}")
    print(f"{'Shared: release every fifth of 500, deliver again':60} {redelivered():8.1f}")
    print(f"{'rows after acknowledging in order':60} {rows_plain():8.1f}")
    print(f"{'rows after acknowledging 204 runs':60} {rows_scattered():8.1f}")
    for strict in (True, False):
        for runs in (False, True):
            each = keyed(strict=strict, runs=runs)
            what = f"Key_Shared{', strict' if strict else ''}, acks by {'run' if runs else 'record'}: us a record"
            parts = " ".join(f"{name} {value:.2f}" for name, value in each.items())
            print(f"{what:60} {sum(each.values()):8.2f}  ({parts})")


if __name__ == "__main__":
    main()
