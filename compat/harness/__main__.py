"""`python -m compat.harness run | build | report | list`: what `make compat` runs."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tqdm import tqdm

from compat.harness import catalogue, report, secured
from compat.harness.build import build
from compat.harness.catalogue import Client
from compat.harness.run import RESULTS, Outcome, Restart, Results, results_file, run
from compat.harness.verdict import Verdict, verdict
from compat.peers.kafka import KafkaPeer
from compat.peers.magnetar import MagnetarPeer
from compat.peers.maven import JarsError
from compat.peers.process import Peer, PeerError
from compat.peers.secured import Secured
from compat.stopping import stoppable
from compat.tools import MissingToolError

# What keeps the cases quick on both servers, lets short sessions and locks be asked for, and logs be compacted soon.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "log.cleaner.backoff.ms": "500",
}
WAVE = 6
"""Programs that share one restart of the server. Up to it all of them stay alive, so not all at once."""


class Work(Protocol):
    """Runs programs against a server, and tells them the `environment`."""

    def __call__(
        self, bootstrap: str, restart: Restart | None, environment: Mapping[str, str] | None = None
    ) -> Results: ...


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m compat.harness", description="Unmodified Kafka clients against Magnetar."
    )
    # not `required`: what is wrong is told before what is missing
    verbs = parser.add_subparsers(dest="verb")
    runs = verbs.add_parser(
        "run",
        help="run client programs against a server, by default one that it starts",
        description="Build the client programs, run them against a server (by default a gateway that is started "
        "for it), restart that in the middle, and say of each failure whose it is: what fails runs against Apache "
        "Kafka too. Ends with 1 when something fails that is Magnetar's fault.",
    )
    runs.add_argument("--client", action="append", default=[], help="only this client; may be repeated")
    runs.add_argument("--case", action="append", default=[], help="only this case; may be repeated")
    runs.add_argument("--suite", choices=catalogue.SUITES, action="append", help="only clients of this suite")
    runs.add_argument("--jobs", type=int, default=3, help="programs at a time (default: 3)")
    runs.add_argument(
        "--server",
        choices=("magnetar", "kafka"),
        default="magnetar",
        help="which server to start, and whose results these are: Apache Kafka's are the reference",
    )
    runs.add_argument(
        "--reference",
        choices=("none", "failed", "all"),
        default="failed",
        help="what also runs against Apache Kafka: what failed and was not run there yet (default), all, or nothing",
    )
    runs.add_argument("--bootstrap", help="HOST:PORT of a server that runs already, instead of starting one")
    runs.add_argument(
        "--restart-command",
        help="with --bootstrap: a shell command that restarts the server and returns once it serves again, at "
        "the same address or at the one it prints; without it the restart cases are left out",
    )
    runs.add_argument(
        "--secured",
        choices=(*catalogue.ways(), "all"),
        help="the short script of secured.toml over TLS, with this way to log in, or with each of them",
    )
    runs.add_argument("--no-save", action="store_true", help="leave the saved results alone")
    runs.add_argument("--report", action="store_true", help=f"write docs/{report.PAGE.name} at the end")
    builds = verbs.add_parser("build", help="build the client programs, or say what is missing")
    builds.add_argument("--client", action="append", default=[], help="only this client; may be repeated")
    builds.add_argument(
        "--suite", choices=catalogue.SUITES, action="append", help="only clients of this suite"
    )
    verbs.add_parser("report", help=f"write docs/{report.PAGE.name} from the saved results")
    verbs.add_parser("list", help="the clients and how many cases each has")
    options = parser.parse_args()
    if options.verb is None:
        parser.error("say what to do: " + ", ".join(verbs.choices))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no server and no program is left behind
    if options.verb == "report":
        print(report.write())
        return 0
    if options.verb == "list":
        for client in catalogue.clients().values():
            print(
                f"{client.name:<28} {client.suite:<7} {len(client.cases):>3} cases, lacks {len(client.lacks)}"
            )
        return 0
    try:
        programs = catalogue.chosen(options.client, options.suite or catalogue.SUITES)
    except KeyError as name:
        print(
            f"no client program is called {name}; there are: {', '.join(catalogue.clients())}",
            file=sys.stderr,
        )
        return 2
    if options.verb == "build":
        return _build(programs)
    if options.secured is None:
        return _run(programs, options)
    if options.bootstrap:
        print("--secured starts servers of its own: leave --bootstrap out", file=sys.stderr)
        return 2
    return _secured(programs, options)


def _build(programs: Sequence[Client]) -> int:
    missing = 0
    for client in programs:
        try:
            build(client, print)
            client.command_line()
        except MissingToolError as error:
            print(f"{client.name}: {error}", file=sys.stderr)
            missing += 1
    print(f"{len(programs) - missing} of {len(programs)} client programs are ready")
    return 1 if missing else 0


def _secured(programs: Sequence[Client], options: argparse.Namespace) -> int:
    """The short script, once for each way that is asked for."""
    wanted = list(catalogue.ways()) if options.secured == "all" else [options.secured]
    asked, bad = options.case, 0
    for way in wanted:
        print(f"\n{catalogue.ways()[way]} ({way})\n", flush=True)
        options.case = asked or catalogue.script()
        if able := secured.able(programs, way):
            bad |= _run(able, options, way)
        else:
            print("none of these clients can")
    return bad


def _run(programs: Sequence[Client], options: argparse.Namespace, way: str = "") -> int:
    """`way` is that to log in; "" is a server that asks for nothing."""
    wrong = set(options.case) - {case for cases in catalogue.sections().values() for case in cases}
    if wrong:
        print(f"cases.toml has no {', '.join(sorted(wrong))}", file=sys.stderr)
        return 2
    results, reference = Results(), Results()
    try:
        if options.bootstrap:
            work = _worker(programs, options)
            results = work(options.bootstrap, _restarter(options.restart_command))
        else:
            results = _started(options.server, _worker(programs, options), way)
        if not options.no_save:
            results.save(results_file(options.server, way, RESULTS))
        if options.server == "kafka":
            return _summary(programs, results, results)
        reference = Results.load(results_file("kafka", way, RESULTS))
        doubtful = _to_refer(programs, results, reference, options.reference, options.case)
        if doubtful:
            cases = sorted({case for names in doubtful.values() for case in names})
            print(
                f"\nNow against Apache Kafka, to know whose the failures are: {', '.join(cases)}\n",
                flush=True,
            )
            options.case = [] if options.reference == "all" and not way else cases
            found = _started("kafka", _worker([catalogue.clients()[name] for name in doubtful], options), way)
            if not options.no_save:
                found.save(results_file("kafka", way, RESULTS))
            reference.update(found)
    except (PeerError, JarsError) as error:
        print(error, file=sys.stderr)
        return 1
    if options.report:
        print(f"\nwritten: {report.write()}")
    return _summary(programs, results, reference)


def _to_refer(
    programs: Sequence[Client], results: Results, reference: Results, which: str, asked: Sequence[str]
) -> dict[str, list[str]]:
    """Client -> cases whose outcome on Apache Kafka is wanted."""
    found: dict[str, list[str]] = {}
    for client in programs:
        if client.no_reference or which == "none":
            continue
        for case in client.cases:
            known = (client.name, case) in reference.outcomes
            ours = verdict(client, case, results, reference) is Verdict.OURS
            if (which == "all" and case in (asked or client.cases)) or (ours and not known):
                found.setdefault(client.name, []).append(case)
    return found


def _worker(programs: Sequence[Client], options: argparse.Namespace) -> Work:
    """What runs the programs against a server, some at a time, with a line for each case."""

    def work(
        bootstrap: str, restart: Restart | None, environment: Mapping[str, str] | None = None
    ) -> Results:
        asked = [
            case for client in programs for case in client.cases if case in (options.case or client.cases)
        ]
        results = Results()
        said: set[str] = set()
        with tqdm(total=len(asked), unit="case", disable=None) as bar:

            def show(outcome: Outcome) -> None:
                bar.update()
                if not outcome.ran and outcome.client in said:
                    return  # one word for the program, not one for each of its cases
                sign = "later " if outcome.refused else "ok    " if outcome.ok else "FAILED"
                case = outcome.case if outcome.ran else "cannot run"
                text = outcome.refused or outcome.detail
                tqdm.write(
                    f"{sign} {outcome.client:<26} {case:<34} {outcome.ms:>6} ms  {text}", file=sys.stdout
                )
                if not outcome.ran:
                    said.add(outcome.client)

            for first in range(0, len(programs), WAVE):
                wave = programs[first : first + WAVE]
                found = run(
                    bootstrap,
                    wave,
                    cases=options.case,
                    restart=restart,
                    jobs=options.jobs,
                    limit=600.0,
                    environment=environment,
                    report=show,
                    say=lambda line: tqdm.write(line, file=sys.stdout),
                )
                results.update(found)
        return results

    return work


def _summary(programs: Sequence[Client], results: Results, reference: Results) -> int:
    """Figures for each client; 1 when something is Magnetar's fault, failed on the reference or cannot run."""
    print()
    bad = 0
    for client in programs:
        counts = Counter(verdict(client, case, results, reference) for case in client.cases)
        words = [
            f"{counts[kind]:>3} {word}"
            for kind, word in (
                (Verdict.PASSED, "passed"),
                (Verdict.LATER, "not supported yet"),
                (Verdict.CLIENTS, "the client's fault"),
                (Verdict.OURS, "OURS"),
            )
            if counts[kind]
        ]
        stuck = sum(key[0] == client.name and not one.ran for key, one in results.outcomes.items())
        if stuck:
            words.append(f"{stuck:>3} could not run")
        print(
            f"{client.name:<28} {results.versions.get(client.name, ''):<12} {', '.join(words) or 'nothing ran'}"
        )
        bad += counts[Verdict.OURS] + stuck
        if results is reference:
            bad += counts[Verdict.CLIENTS]
    good = sum(outcome.ok for outcome in results.outcomes.values())
    print(f"{good} of {len(results.outcomes)} cases passed or were refused clearly")
    return 1 if bad else 0


def _started(name: str, work: Work, way: str) -> Results:
    """Run against a fresh server that is started for it, restarts included. `way` is that to log in."""
    if not way:
        return _served(name, work, None, {})
    with tempfile.TemporaryDirectory(prefix="secured-") as folder:
        asks = secured.server(way, Path(folder))
        asks.prepare()
        with secured.environment(way, asks) as environment:
            return _served(name, work, asks, environment)


def _served(name: str, work: Work, asks: Secured | None, environment: Mapping[str, str]) -> Results:
    server: Peer
    if name == "kafka":
        server = KafkaPeer(heap="1g", settings=SETTINGS, secured=asks)
    else:
        server = MagnetarPeer(settings=SETTINGS, secured=asks)
    with server:

        def restart() -> None:
            server.stop()
            server.start()

        return work(server.bootstrap, restart, environment)


def _restarter(command: str | None) -> Callable[[], str | None] | None:
    if command is None:
        return None

    def restart() -> str | None:
        done = subprocess.run(command, shell=True, check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout.strip() or None

    return restart


if __name__ == "__main__":
    with stoppable():
        sys.exit(main())
