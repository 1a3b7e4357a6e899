"""`python -m compat.harness run | report | list`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable

from compat.bench.servers import Kafka, Magnetar, Server, ServerError
from compat.harness import catalogue, report
from compat.harness.run import RESULTS, Outcome, Restart, Results, run

# What keeps the cases quick on both servers, and lets short sessions be asked for.
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat.harness", description=report.__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    runs = verbs.add_parser("run", help="run client programs against a server, by default one that it starts")
    runs.add_argument("--bootstrap", help="HOST:PORT of a server that runs already")
    runs.add_argument("--client", action="append", default=[], help="only this program; may be repeated")
    runs.add_argument("--case", action="append", default=[], help="only this case; may be repeated")
    runs.add_argument(
        "--restart-command",
        help="with --bootstrap: a shell command that restarts the server and returns once it serves again, at "
        "the same address or at the one it prints; without it the restart cases are left out",
    )
    runs.add_argument("--jobs", type=int, default=4, help="programs at a time")
    runs.add_argument(
        "--server",
        choices=("magnetar", "kafka"),
        default="magnetar",
        help="which server to start, and whose results these are: Apache Kafka's are the reference",
    )
    runs.add_argument("--no-save", action="store_true", help="leave the saved results alone")
    runs.add_argument("--report", action="store_true", help=f"write {report.PAGE.name} at the end")
    verbs.add_parser("report", help=f"write {report.PAGE.name} from the saved results")
    verbs.add_parser("list", help="the programs and how many cases each has")
    options = parser.parse_args()
    if options.verb == "run":
        return _run(options)
    if options.verb == "report":
        print(report.write())
    else:
        for client in catalogue.clients().values():
            print(f"{client.name:<28} {len(client.cases):>3} cases, lacks {len(client.lacks)}")
    return 0


def _run(options: argparse.Namespace) -> int:
    try:
        programs = catalogue.chosen(options.client)
    except KeyError as name:
        print(
            f"no client program is called {name}; there are: {', '.join(catalogue.clients())}",
            file=sys.stderr,
        )
        return 2
    wrong = set(options.case) - {case for cases in catalogue.sections().values() for case in cases}
    if wrong:
        print(f"cases.toml has no {', '.join(sorted(wrong))}", file=sys.stderr)
        return 2
    failed: list[Outcome] = []

    def show(outcome: Outcome) -> None:
        sign = "ok    " if outcome.ok else "FAILED"
        if outcome.refused:
            sign = "later "
        text = outcome.refused or outcome.detail
        print(f"{sign} {outcome.client:<26} {outcome.case:<34} {outcome.ms:>6} ms  {text}", flush=True)
        if not outcome.ok:
            failed.append(outcome)

    def work(bootstrap: str, restart: Restart | None) -> Results:
        return run(bootstrap, programs, cases=options.case, restart=restart, jobs=options.jobs, report=show)

    try:
        if options.bootstrap:
            results = work(options.bootstrap, _restarter(options.restart_command))
        else:
            results = _with_server(Kafka(SETTINGS) if options.server == "kafka" else Magnetar(SETTINGS), work)
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    if not options.no_save:
        results.save(RESULTS / f"{options.server}.json")
    if options.report:
        print(report.write())
    print(f"{len(results.outcomes) - len(failed)} of {len(results.outcomes)} cases passed")
    return 1 if failed else 0


def _with_server(server: Server, work: Callable[[str, Restart | None], Results]) -> Results:
    """Run against a server that is started for it, restarts included."""
    with server:
        server.prepare()
        server.start()

        def restart() -> None:
            server.stop()
            server.start()

        return work(server.address, restart)


def _restarter(command: str | None) -> Callable[[], str | None] | None:
    if command is None:
        return None

    def restart() -> str | None:
        done = subprocess.run(command, shell=True, check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout.strip() or None

    return restart


if __name__ == "__main__":
    sys.exit(main())
