"""Start the client programs, gather their JSON lines, restart the server in the middle.

A program prints one JSON object a line: first {"client", "version"}, then for each case
{"case", "ok", "detail", "ms"} (and "refused" with the client's words where the server declined clearly). When
only cases are left that need a restart of the server it prints {"waiting": "restart"} and reads a line from
its standard input: `restarted HOST:PORT`. All programs meet there, so one restart serves them all.
"""

from __future__ import annotations

import fcntl
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from compat.harness.build import build
from compat.harness.catalogue import RESTART, Client
from compat.tools import PROJECT, MissingToolError

RESULTS = PROJECT / ".cache" / "compat"
BOUNDS = {"GOMAXPROCS": "2", "GOMEMLIMIT": "384MiB", "NODE_OPTIONS": "--max-old-space-size=384"}
"""What keeps one program from taking the machine; those in Java have -Xmx in their command."""
MARGIN = 45.0
"""Seconds that a program may say nothing for, beyond what one case has: it may still have to start."""
AGAIN = "run again: its program had stood still as a whole"
"""What the outcome says of a case whose first program fell silent."""


def results_file(server: str, way: str = "", folder: Path = RESULTS) -> Path:
    """Where results of this server are kept, over TLS with this way to log in, if any."""
    return folder / f"{server}{'-' if way else ''}{way}.json"


@dataclass
class Outcome:
    """What became of one case of one client."""

    client: str
    case: str
    ok: bool
    detail: str = ""
    ms: int = 0
    refused: str = ""
    ran: bool = True
    """False where the program could not be started at all: then `detail` says what it needs."""


@dataclass
class Results:
    """What a run found: versions by client, outcomes by (client, case)."""

    versions: dict[str, str] = field(default_factory=dict)
    outcomes: dict[tuple[str, str], Outcome] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        self.outcomes[outcome.client, outcome.case] = outcome

    def update(self, other: Results) -> None:
        """Take what `other` found, over what is here."""
        self.versions.update(other.versions)
        self.outcomes.update(other.outcomes)

    def save(self, path: Path) -> None:
        """Write as JSON, over what an earlier run left of other clients and cases."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            merged = Results.load(path)
            merged.update(self)
            rows = [asdict(outcome) for _, outcome in sorted(merged.outcomes.items())]
            path.write_text(json.dumps({"versions": merged.versions, "outcomes": rows}, indent=1))

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read what `save` wrote; empty when there is no such file."""
        if not path.exists():
            return cls()
        table = json.loads(path.read_text())
        results = cls(versions=table["versions"])
        for row in table["outcomes"]:
            results.add(Outcome(**row))
        return results


Restart = Callable[[], str | None]
"""Restarts the server and gives its address, None for the same as before."""


class _Program:
    """One client program at work, with a thread that reads its lines."""

    def __init__(
        self,
        client: Client,
        bootstrap: str,
        cases: Sequence[str],
        events: queue.Queue[Any],
        again: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.client = client
        self.again = again
        self.missing = list(cases)
        self.version = ""
        self.seen: list[Outcome] = []
        self._events = events
        self.patience = client.limit + MARGIN
        self._heard = time.monotonic()
        arguments = [*client.command_line(), "--bootstrap", bootstrap, "--limit", f"{client.limit:.0f}"]
        if len(cases) < len(client.cases):
            arguments += [part for name in cases for part in ("--case", name)]
        self.process = subprocess.Popen(
            arguments,
            cwd=client.folder,
            env={**os.environ, **BOUNDS, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._complaints: list[str] = []
        self._draining = threading.Thread(target=self._drain, args=(self.process.stderr,), daemon=True)
        self._draining.start()
        threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True).start()

    def resume(self, bootstrap: str) -> None:
        assert self.process.stdin is not None
        self._heard = time.monotonic()
        try:
            self.process.stdin.write(f"restarted {bootstrap}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended meanwhile; its cases count as not reported

    def last_words(self) -> str:
        return "".join(self._complaints[-15:]).strip()[-800:]

    @property
    def silent_at(self) -> float:
        """When it will have said nothing for too long, by the monotonic clock: it stands still as a whole."""
        return self._heard + self.patience

    def end(self) -> str:
        """End it. Where it stands, if it can say so: runtimes write their threads' stacks when told SIGQUIT."""
        self.process.send_signal(signal.SIGQUIT)
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._draining.join(timeout=5)
        return "".join(self._complaints).strip()[-4000:]

    def _drain(self, stream: IO[str]) -> None:
        for line in stream:
            self._complaints.append(line)
            del self._complaints[:-50]

    def _read(self, stream: IO[str]) -> None:
        for text in stream:
            self._heard = time.monotonic()
            try:
                line = json.loads(text)
            except ValueError:
                self._complaints.append(text)
                continue
            if "version" in line:
                self.version = line["version"]
            elif "waiting" in line:
                self._events.put((self, "waiting"))
            elif "case" in line:
                self._events.put((self, Outcome(client=self.client.name, **line)))
        self.process.wait()
        # its last words may come later than its end; a child of its own may keep the pipe open
        self._draining.join(timeout=5)
        self._events.put((self, "ended"))


def run(
    bootstrap: str,
    clients: Sequence[Client],
    *,
    cases: Sequence[str] = (),
    restart: Restart | None = None,
    jobs: int = 4,
    limit: float = 300.0,
    environment: Mapping[str, str] | None = None,
    report: Callable[[Outcome], None] = lambda outcome: None,
    say: Callable[[str], None] = lambda line: None,
) -> Results:
    """Build the programs, then run them against `bootstrap`, `jobs` at a time, all of them within `limit` seconds.

    `cases` limits them to these names. Without `restart` the cases that need it are left out. Every case
    asked for is in the results: a program that ends early or cannot start fails those it has not reported.
    `environment` is added to that of the programs.
    One that stands still as a whole is ended, and runs the cases that it has not reported once more.
    """
    results = Results()

    def take(outcome: Outcome) -> None:
        results.add(outcome)
        report(outcome)

    def fail(client: Client, names: Sequence[str], why: str, *, ran: bool = True) -> None:
        for name in names:
            take(Outcome(client.name, name, ok=False, detail=why, ran=ran))

    todo: list[tuple[Client, list[str]]] = []
    for client in clients:
        names = [name for name in client.cases if not cases or name in cases]
        if restart is None:
            names = [name for name in names if not name.startswith(RESTART)]
        if names:
            try:
                build(client, say)
            except MissingToolError as error:
                fail(client, names, str(error), ran=False)
            else:
                todo.append((client, names))
    events: queue.Queue[Any] = queue.Queue()
    active: list[_Program] = []
    waiting: list[_Program] = []
    end = time.monotonic() + limit

    try:
        while todo or active or waiting:
            while todo and len(active) < jobs:
                client, names = todo.pop(0)
                try:
                    active.append(_Program(client, bootstrap, names, events, environment=environment))
                except MissingToolError as error:
                    fail(client, names, str(error), ran=False)
            if not active:
                if waiting and not todo:
                    assert restart is not None
                    bootstrap = restart() or bootstrap
                    for program in waiting:
                        program.resume(bootstrap)
                    active, waiting = waiting, []
                continue
            for program in [each for each in active if time.monotonic() > each.silent_at]:
                active.remove(program)
                why = f"it said nothing for {program.patience:.0f} s: {program.end()}"
                left = program.missing.copy()
                program.missing.clear()
                if program.again:
                    fail(program.client, left, why)
                    continue
                # A program ends each of its cases in time whatever the server does, so what silences it as a
                # whole is its client (librdkafka can wait for ever for its own thread when a consumer closes,
                # and with it whoever needs Python's lock). Its other cases are no less asked for; but once.
                say(f"{program.client.name} {why}; {len(left)} cases run again")
                active.append(
                    _Program(program.client, bootstrap, left, events, again=True, environment=environment)
                )
            if not active:
                continue
            until = min(end, *[program.silent_at for program in active])
            try:
                program, what = events.get(timeout=max(0.1, until - time.monotonic()))
            except queue.Empty:
                if time.monotonic() < end:
                    continue
                for program in active + waiting:
                    fail(program.client, program.missing, f"the programs did not end in {limit:.0f} s")
                break
            if isinstance(what, Outcome):
                if what.case in program.missing:
                    program.missing.remove(what.case)
                    if program.again:
                        what.detail = f"{what.detail} ({AGAIN})".strip()
                    take(what)
            elif what == "waiting":
                if program in active:
                    active.remove(program)
                    waiting.append(program)
            else:
                results.versions[program.client.name] = program.version
                for those in (active, waiting):
                    if program in those:
                        those.remove(program)
                fail(program.client, program.missing, f"not reported: {program.last_words()}")
    finally:
        for program in active + waiting:
            program.process.kill()
    return results
