"""The bounds of memory and of recovery: `python -m tests.semantics.subscriptions.bounds` prints what it sees.

Every figure is the growth of the resident set of a process of its own. `--help` lists the loads.
"""

from __future__ import annotations

import argparse
import gc
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from time import process_time

from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.rows import CursorRow
from semantics.subscriptions.states import Batch

ACCEPT, RELEASE = b"\x01", b"\x02"
WALL = 1_700_000_000_000
MANY = SubscriptionConfig(max_locks=10**9, receiver_queue=10**9, delivery_limit=0, nack_delay_ms=60_000)


def resident() -> float:
    """MB this process holds now."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def acquire(cursor: Cursor, count: int, step: int, nack: bool = False) -> None:
    """Leave every `step`-th record acquired, or nacked, and accept what lies between."""
    kept = at = 0
    while kept < count:
        at += 1
        cursor.feed([Batch(cursor.read, cursor.read + 1_000)], at, WALL + at)
        taken = cursor.poll("a", 1_000, at, WALL + at)
        says = []
        for first, last, _ in taken:
            for offset in range(first, last + 1):
                if offset % step:
                    says.append((offset, offset, ACCEPT))
                elif nack:
                    says.append((offset, offset, RELEASE))
                kept += not offset % step
        assert cursor.acknowledge("a", says, at, WALL + at) is None
        cursor.writes()


def acquired(count: int = 1_000_000, step: int = 2) -> str:
    cursor = Cursor.fresh(MANY, 0)
    cursor.attach("a", 0)
    before = resident()
    acquire(cursor, count, step)
    grown = resident() - before
    assert cursor.acquired == count
    return f"{count:,} acquired, one of {step}: {grown:.1f} MB"


def backed_off(count: int = 1_000_000, step: int = 2) -> str:
    cursor = Cursor.fresh(MANY, 0)
    cursor.attach("a", 0)
    before = resident()
    acquire(cursor, count, step, nack=True)
    grown = resident() - before
    assert cursor.waiting == count
    return f"{count:,} backed off, one of {step}: {grown:.1f} MB"


def delayed(count: int = 10_000_000) -> str:
    cursor = Cursor.fresh(MANY, 0)
    before = resident()
    rows = 0
    for first in range(0, count, 1_000):
        due = [(at, WALL + 3_600_000 + at * 7_919 % 600_000) for at in range(first, first + 1_000)]
        cursor.feed([Batch(first, first + 1_000, None, due)], first, WALL)
        rows += len(cursor.writes())
    grown = resident() - before
    assert cursor.waiting == count
    return f"{count:,} delayed, {rows:,} rows: {grown:.1f} MB"


def ranges(count: int = 1_000_000) -> list[CursorRow]:
    """The rows when every second offset is acknowledged."""
    cursor = Cursor.fresh(replace(MANY, nack_delay_ms=0), 0)
    cursor.attach("a", 0)
    rows: dict[tuple[str, bytes], CursorRow] = {}
    while cursor.read < 2 * count:
        first = cursor.read
        cursor.feed([Batch(first, first + 1_000)], first, WALL)
        cursor.poll("a", 1_000, first, WALL)
        says = [(at, at, ACCEPT) for at in range(first + 1, first + 1_000, 2)]
        assert cursor.acknowledge("a", says, first, WALL) is None
        rows.update({(row.kind, row.key): row for row in cursor.writes()})
    return list(rows.values())


def loaded(count: int = 1_000_000) -> str:
    rows = ranges(count)
    size = sum(len(row.key) + len(row.value or b"") for row in rows)
    before = resident()
    began = process_time()
    cursor = Cursor.load(MANY, rows, 0, 2 * count, WALL)
    took = process_time() - began
    assert cursor.available == count
    grown = resident() - before
    return f"{count:,} ack ranges: {len(rows):,} rows, {size / 1e3:.0f} kB; loaded in {took:.2f} s, {grown:.1f} MB"


LOADS: dict[str, Callable[[], str]] = {
    "acquired": acquired,
    "acquired-sparse": lambda: acquired(step=10),
    "backed-off": backed_off,
    "backed-off-sparse": lambda: backed_off(step=10),
    "delayed": delayed,
    "loaded": loaded,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("load", nargs="?", choices=LOADS, help="default: all, one process each")
    chosen = parser.parse_args().load
    if chosen is not None:
        print(LOADS[chosen](), flush=True)
        return
    for load in LOADS:
        subprocess.run([sys.executable, "-m", "tests.semantics.subscriptions.bounds", load], check=True)


if __name__ == "__main__":
    main()
