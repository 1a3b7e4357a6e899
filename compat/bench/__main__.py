"""Run the same loads against Apache Kafka and Magnetar by turns; print medians and ratios.

A full run (every load, not quick) also writes docs/PERFORMANCE.md; another one writes where --output says.
It takes about half a minute a turn: loads x rounds x 2.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

from compat.bench import generator, machine, report, runner
from compat.bench.loads import LOADS
from compat.bench.servers import PROJECT
from compat.peers.kafka.jars import JarsError, ensure_jars


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat.bench", description=__doc__)
    names = [load.name for load in LOADS]
    parser.add_argument(
        "--only", action="append", choices=names, metavar="NAME", help="this load (repeatable)"
    )
    parser.add_argument("--list", action="store_true", help="list the loads and end")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each server (3)")
    parser.add_argument(
        "--quick", action="store_true", help="short turns: shows that all works, proves nothing"
    )
    parser.add_argument("--server", choices=runner.SERVERS, help="one server only, no ratios")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="K=V",
        help="a setting for Magnetar in every load (repeatable)",
    )
    parser.add_argument("--output", type=Path, help="write the page here")
    options = parser.parse_args()
    if options.list:
        for load in LOADS:
            print(f"{load.name:20} {load.title}")
        return 0
    if any("=" not in pair for pair in options.set):
        parser.error("--set expects key=value")
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    loads = [load for load in LOADS if not options.only or load.name in options.only]
    extra = dict(pair.split("=", 1) for pair in options.set)
    loads = [dataclasses.replace(load, magnetar={**load.magnetar, **extra}) for load in loads]
    servers = (options.server,) if options.server else runner.SERVERS
    try:
        generator.build()
        ensure_jars()
    except (generator.GeneratorError, JarsError) as error:
        print(error, file=sys.stderr)
        return 1
    # Said before the run: the tree may have moved on by its end.
    facts = machine.describe()
    try:
        outcomes = runner.run(loads, options.rounds, options.quick, servers, runner.to_stderr)
    except KeyboardInterrupt:
        print("\nstopped; nothing was written", file=sys.stderr)
        return 130
    print(report.plain(outcomes))
    full = len(loads) == len(LOADS) and len(servers) == 2 and not options.quick
    output: Path | None = options.output or (PROJECT / "docs" / "PERFORMANCE.md" if full else None)
    if output is not None:
        command = " ".join(["python -m compat.bench", *sys.argv[1:]])
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(report.markdown(outcomes, facts, command, options.rounds, options.quick))
        print(f"\nwritten to {output}")
    return 1 if any(outcome.errors for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
