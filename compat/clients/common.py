"""What the Python programs in this folder share: the case list, time limits, the JSON lines.

A program registers its cases and calls `main`:

    @case
    def headers(ctx: Context) -> None: ...

A case fails by raising; cases.toml says in a sentence what each proves. It runs in a thread of its own beside
others, on topics and groups of its own, so that cases may run in any order and against a shared server. A
case that calls `ctx.restart()` runs after all the others; the call returns once the server was restarted.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import inspect
import json
import os
import queue
import random
import signal
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = []


class Context:
    """What a case gets: the server's address, unique names, the time that is left."""

    def __init__(self, name: str, bootstrap: str, limit: float, barrier: Barrier | None = None) -> None:
        self.case = name
        self.bootstrap = bootstrap
        self.detail = ""
        self.refused = ""
        self.shared: dict[str, Any] = {}  # clients that live as long as the case
        self._limit = limit
        self._deadline = time.monotonic() + limit
        self._barrier = barrier
        self._cleanup: list[Callable[[], Any]] = []

    def name(self, label: str = "t") -> str:
        """A topic or group name that nobody else has."""
        return f"compat.{self.case}.{label}.{uuid.uuid4().hex[:10]}"

    @property
    def left(self) -> float:
        """Seconds left for this case, never below 0."""
        return max(0.0, self._deadline - time.monotonic())

    def wait(self, what: str, limit: float | None = None) -> Iterator[None]:
        """`for _ in ctx.wait("two members"): if done: break` polls until the time is up, then fails."""
        end = min(self._deadline, time.monotonic() + limit) if limit else self._deadline
        while time.monotonic() < end:
            yield
            time.sleep(0.01)  # what is asked may be a file or a set: leave the processor to the others
        raise AssertionError(f"gave up waiting for {what}")

    def restart(self) -> None:
        """Come back after the server was restarted. For asyncio: `await asyncio.to_thread(ctx.restart)`."""
        if self._barrier is None:
            raise RuntimeError("not a restart case")
        self.bootstrap = self._barrier.arrive() or self.bootstrap
        self._deadline = time.monotonic() + self._limit

    def closing(self, close: Callable[[], Any]) -> None:
        """Call this when the case ends, whatever its outcome; the last one given comes first."""
        self._cleanup.append(close)

    def clean(self) -> None:
        for close in reversed(self._cleanup):
            try:
                close()
            except Exception as error:
                # The case has its verdict; a client that closes badly is worth a line, not a failure.
                print(f"{self.case}: closing: {error}", file=sys.stderr)


class Barrier:
    """Where restart cases meet. `arrive` blocks until `release`."""

    def __init__(self) -> None:
        self.arrivals: queue.Queue[str] = queue.Queue()
        self._released = threading.Event()
        self._bootstrap = ""

    def arrive(self) -> str:
        self.arrivals.put("arrived")
        self._released.wait()
        return self._bootstrap

    def release(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._released.set()


Case = Callable[[Context], Any]
CASES: dict[str, Case] = {}
RESTART: set[str] = set()


def case(function: Case) -> Case:
    """Register a case under the function's name."""
    CASES[function.__name__] = function
    return function


def restart_case(function: Case) -> Case:
    """Register a case that calls `ctx.restart()` once."""
    RESTART.add(function.__name__)
    return case(function)


def codec_cases(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register `produce_<codec>` for each compression codec; the function takes (ctx, codec)."""
    for codec in CODECS:
        CASES[f"produce_{codec}"] = partial(function, codec=codec)
    return function


def check(condition: Any, what: str) -> None:
    """Fail with `what` unless the condition holds."""
    if not condition:
        raise AssertionError(what)


def same(actual: Any, expected: Any, what: str) -> None:
    """Fail unless both are equal; long values are shortened in the message."""
    if actual != expected:
        raise AssertionError(f"{what}: got {_short(actual)}, expected {_short(expected)}")


def sample(count: int, size: int = 100) -> list[Record]:
    """Records with distinct keys; the values are half text (compresses), half noise (does not)."""
    noise = random.Random(7)
    return [
        Record(b"key-%d" % n, (b"value-%d " % n).ljust(size // 2, b".") + noise.randbytes(size // 2))
        for n in range(count)
    ]


TRICKY = [
    Record(b"k", b"v"),
    Record(None, b"no key"),
    Record(b"no value", None),
    Record(None, None),
    Record(b"", b""),
]

HEADERS: list[tuple[str, bytes | None]] = [
    ("trace", b"\x00\xff"),
    ("twice", b"1"),
    ("twice", b"2"),
    ("empty", b""),
    ("null", None),
    ("käse", "ü".encode()),
]


def main(client: str, version: str) -> None:
    """The command line of a program; ends the process."""
    parser = argparse.ArgumentParser(description=f"compatibility cases of {client}")
    parser.add_argument("--bootstrap", help="HOST:PORT of the server")
    parser.add_argument("--case", action="append", default=[], help="only this case; may be repeated")
    parser.add_argument("--skip-restart", action="store_true", help="leave out the cases that need a restart")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and end")
    parser.add_argument("--parallel", type=int, default=4, help="cases at a time")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds for a case")
    options = parser.parse_args()
    if options.list:
        print(json.dumps({"client": client, "version": version, "cases": list(CASES)}))
        return
    if not options.bootstrap:
        parser.error("--bootstrap is needed")
    unknown = [name for name in options.case if name not in CASES]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    names = options.case or list(CASES)
    if options.skip_restart:
        names = [name for name in names if name not in RESTART]
    # the harness asks so where a program stands that says nothing any more, also when a client holds Python's lock
    faulthandler.register(signal.SIGQUIT)
    _emit({"client": client, "version": version})
    failed = _run_plain([n for n in names if n not in RESTART], options)
    failed += _run_restart([n for n in names if n in RESTART], options)
    sys.stdout.flush()
    # Threads of timed-out cases may hang in a client's C code: do not wait for them.
    os._exit(1 if failed else 0)


_printing = threading.Lock()


def _emit(line: dict[str, Any]) -> None:
    with _printing:
        print(json.dumps(line), flush=True)


def _short(value: Any, length: int = 300) -> str:
    text = repr(value)
    return text if len(text) <= length else f"{text[:length]}… ({len(text)} characters)"


def _body(ctx: Context, outcome: dict[str, Any]) -> None:
    started = time.monotonic()
    try:
        result = CASES[ctx.case](ctx)
        if inspect.iscoroutine(result):
            asyncio.run(result)
        outcome.update(ok=True, detail=ctx.detail)
        if ctx.refused:
            outcome["refused"] = ctx.refused
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in where if "common.py" not in frame.filename and "clients" in frame.filename]
        at = f" ({Path(ours[-1].filename).name}:{ours[-1].lineno})" if ours else ""
        outcome.update(ok=False, detail=f"{type(error).__name__}: {error}{at}")
    outcome["ms"] = round((time.monotonic() - started) * 1000)
    ctx.clean()


def _start(ctx: Context, done: queue.Queue[Any]) -> dict[str, Any]:
    outcome: dict[str, Any] = {"case": ctx.case}

    def run() -> None:
        _body(ctx, outcome)
        done.put(ctx.case)

    threading.Thread(target=run, name=ctx.case, daemon=True).start()
    return outcome


def _run_plain(names: list[str], options: argparse.Namespace) -> int:
    """Run cases, some at a time; a case past its limit is reported and left behind."""
    failed = 0
    waiting = list(names)
    running: dict[str, tuple[float, dict[str, Any]]] = {}
    done: queue.Queue[str] = queue.Queue()
    while waiting or running:
        while waiting and len(running) < options.parallel:
            ctx = Context(waiting.pop(0), options.bootstrap, options.limit)
            running[ctx.case] = (time.monotonic() + _patience(options.limit), _start(ctx, done))
        try:
            finished = done.get(timeout=0.2)
            if finished in running:
                outcome = running.pop(finished)[1]
                failed += outcome["ok"] is False
                _emit(outcome)
        except queue.Empty:
            pass
        for name, (end, _) in list(running.items()):
            if time.monotonic() > end:
                del running[name]
                failed += 1
                _emit(_timed_out(name, options.limit))
    return failed


def _run_restart(names: list[str], options: argparse.Namespace) -> int:
    """All at once up to the restart, tell the harness, wait for its line, go on."""
    if not names:
        return 0
    barrier = Barrier()
    done = barrier.arrivals
    outcomes = {n: _start(Context(n, options.bootstrap, options.limit, barrier), done) for n in names}
    arrived = 0
    reported: set[str] = set()

    def collect(until: Callable[[], bool]) -> None:
        nonlocal arrived
        end = time.monotonic() + _patience(options.limit)
        while not until() and time.monotonic() < end:
            try:
                what = done.get(timeout=0.2)
            except queue.Empty:
                continue
            if what == "arrived":
                arrived += 1
            else:
                reported.add(what)
                _emit(outcomes[what])

    collect(lambda: arrived + len(reported) >= len(names))
    _emit({"waiting": "restart"})
    line = sys.stdin.readline().split()
    barrier.release(line[1] if len(line) > 1 else "")
    collect(lambda: len(reported) == len(names))
    for name in names:
        if name not in reported:
            outcomes[name] = _timed_out(name, options.limit)
            _emit(outcomes[name])
    return sum(outcome["ok"] is False for outcome in outcomes.values())


def _patience(limit: float) -> float:
    """Somewhat longer than the case itself has: its own message is better than ours."""
    return limit + min(limit, 10.0)


def _timed_out(name: str, limit: float) -> dict[str, Any]:
    seconds = _patience(limit)
    detail = f"no end after {seconds:.0f} s{_where(name)}"
    return {"case": name, "ok": False, "detail": detail, "ms": round(seconds * 1000)}


def _where(case: str) -> str:
    """Where the threads of this case stand: a call that never comes back is named by its line."""
    frames = sys._current_frames()
    stands = []
    for thread in threading.enumerate():
        if thread.name.split(":")[0] == case and thread.ident in frames:
            lines = traceback.extract_stack(frames[thread.ident])
            ours = [line for line in lines if Path(line.filename).parent.parent == Path(__file__).parent]
            stands.append(" < ".join(f"{Path(line.filename).name}:{line.lineno}" for line in ours[::-1][:4]))
    return f" ({', '.join(stands)})" if stands else ""
