"""Run the same loads against Apache Kafka and Magnetar by turns; print medians and ratios.

About half a minute a turn (loads x rounds x 2), and half an hour for the memory after 15 minutes of load: two hours
for all. Each load that is through is kept in .cache/bench/results.json, so that a run that was stopped goes on with
--resume, and single loads can be measured again with --only. Then docs/PERFORMANCE.md is written: rows that were not
measured here stay as they are.
"""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
from functools import partial
from pathlib import Path

from compat.bench import beside, console, generator, machine, pulsar, report, results, runner, share_clients
from compat.bench.administration import ADMIN
from compat.bench.compacting import COMPACTING
from compat.bench.console import CONSOLE
from compat.bench.expiring import EXPIRING
from compat.bench.growth import GROWTH
from compat.bench.loads import LOADS
from compat.bench.queue import QUEUE
from compat.bench.secure import SECURE
from compat.bench.servers import make_server
from compat.bench.share import SHARE, needs_clients
from compat.bench.transactions import TRANSACTIONS
from compat.peers import pulsar as pulsar_peer
from compat.peers.kafka.jars import ensure_jars
from compat.peers.maven import JarsError
from compat.spark.jars import SparkMissingError, ensure_spark_jars
from compat.tools import PROJECT

PAGE = PROJECT / "docs" / "PERFORMANCE.md"
SECTIONS = (
    report.Section(LOADS),
    report.Section(TRANSACTIONS, report.TRANSACTIONS),
    report.Section(COMPACTING, report.COMPACTION),
    report.Section(SECURE, report.SECURITY),
    report.Section([load for load in SHARE if load not in QUEUE], report.SHARE_GROUPS, pulsar=True),
    report.Section(QUEUE, report.QUEUE_TOPICS, pulsar=True),
    report.Section(ADMIN, report.ADMINISTRATION, pulsar=True),
    report.Section(CONSOLE, report.CONSOLE),
    report.Section(GROWTH, report.GROWTH),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat.bench", description=__doc__)
    every = (*LOADS, *TRANSACTIONS, *COMPACTING, *SECURE, *SHARE, *ADMIN, *CONSOLE, *GROWTH)
    names = [load.name for load in every]
    parser.add_argument(
        "--only", action="append", choices=names, metavar="NAME", help="this load (repeatable)"
    )
    parser.add_argument("--list", action="store_true", help="list the loads and end")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each server (3)")
    parser.add_argument(
        "--quick", action="store_true", help="short turns: shows that all works, proves nothing"
    )
    parser.add_argument("--server", choices=runner.WITH_PULSAR, help="one server only, no ratios")
    parser.add_argument(
        "--before",
        type=Path,
        metavar="CHECKOUT",
        help="no Kafka: Magnetar as it is in another checkout of the project (with its own .venv), by turns with this "
        "one; the ratio says what a change costs",
    )
    parser.add_argument(
        "--pulsar",
        action="store_true",
        help="Pulsar 4.2.4 too, by turns, in the loads of the share groups that it has (fetches 242 MB of jars once; "
        "needs a JDK). Without it the page shows anchors of another day",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="K=V",
        help="a setting for Magnetar in every load (repeatable)",
    )
    parser.add_argument(
        "--growth", action="store_true", help="only how cost grows with partitions, topics, connections"
    )
    parser.add_argument("--share", action="store_true", help="only the share groups")
    parser.add_argument("--transactions", action="store_true", help="only transactions")
    parser.add_argument("--secure", action="store_true", help="only TLS, logins and rights")
    parser.add_argument("--admin", action="store_true", help="only the admin API")
    parser.add_argument("--console", action="store_true", help="only the console at size")
    for name, default in console.size._asdict().items():
        parser.add_argument(
            f"--{name}",
            type=int,
            metavar="N",
            help=f"--console: so many {name} ({default:,}); no row is kept then",
        )
    parser.add_argument("--resume", action="store_true", help="only loads that have no figures yet")
    parser.add_argument(
        "--page", action="store_true", help="measure nothing, write the page from what is kept"
    )
    parser.add_argument("--output", type=Path, default=PAGE, help="the page (docs/PERFORMANCE.md)")
    options = parser.parse_args()
    if options.list:
        for load in every:
            print(f"{load.name:20} {load.title}")
        return 0
    if options.page:
        return write_page(options.output, say=True)
    if any("=" not in pair for pair in options.set):
        parser.error("--set expects key=value")
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    sizes = {name: found for name in console.size._asdict() if (found := getattr(options, name)) is not None}
    try:
        console.size = console.size.of(sizes)
    except ValueError as error:
        parser.error(str(error))
    parts = (
        *(SHARE if options.share else ()),
        *(TRANSACTIONS if options.transactions else ()),
        *(SECURE if options.secure else ()),
        *(ADMIN if options.admin else ()),
        *(CONSOLE if options.console else ()),
        *(GROWTH if options.growth else ()),
    )
    chosen = options.only or [load.name for load in parts or every]
    commit = machine.commit()
    if options.resume:
        have = {row.outcome.load.name for row in results.load(every) if not row.outcome.errors}
        chosen = [name for name in chosen if name not in have]
    extra = dict(pair.split("=", 1) for pair in options.set)
    loads = [
        dataclasses.replace(load, magnetar={**load.magnetar, **extra})
        for load in every
        if load.name in chosen
    ]
    usual = runner.WITH_PULSAR if options.pulsar else runner.SERVERS
    if options.before is not None:
        if not (options.before / "gateway").is_dir():
            parser.error(f"--before: {options.before} is no checkout of the project")
        usual = runner.WITH_BEFORE
    servers = (options.server,) if options.server else usual
    try:
        generator.build()
        expiring = any(load.name in chosen for load in EXPIRING)
        transactions = any(load.name in chosen for load in TRANSACTIONS)
        if needs_clients(chosen) or expiring or transactions:
            share_clients.build()
        if any("Kafka" in load.servers for load in loads):
            ensure_jars()
        if expiring:
            beside.build(beside.KAFKA)
        if "Pulsar" in servers and any(load.pulsar for load in loads):
            pulsar_peer.ensure_jars()
            pulsar.build()
            if expiring:
                beside.build(beside.PULSAR)
        if any(load.name.startswith("spark") for load in loads):
            ensure_spark_jars()
    except (generator.GeneratorError, JarsError, SparkMissingError) as error:
        print(error, file=sys.stderr)
        return 1
    counts = not (options.server or options.quick or extra or options.before or sizes)

    def finished(outcome: runner.Outcome) -> None:
        if counts:
            results.save(results.Row(outcome, machine.now(), commit))

    try:
        outcomes = runner.run(
            loads,
            options.rounds,
            options.quick,
            servers,
            runner.to_stderr,
            make=partial(make_server, before=options.before and options.before.resolve()),
            finished=finished,
        )
    except KeyboardInterrupt:
        print("\nstopped; what is through is kept, --resume goes on", file=sys.stderr)
        return 130
    print(report.plain(outcomes))
    if counts:
        write_page(options.output, say=False)
    return 1 if any(outcome.errors for outcome in outcomes) else 0


def write_page(output: Path, *, say: bool) -> int:
    """Write the page: rows that are kept from runs here, and for the others what the page has. With `say`, name those
    that have neither."""
    every = (*LOADS, *TRANSACTIONS, *COMPACTING, *SECURE, *SHARE, *ADMIN, *CONSOLE, *GROWTH)
    rows = results.load(every)
    before = output.read_text() if output.exists() else ""
    have = {row.outcome.load.name for row in rows}
    titles = report.kept_lines(before)
    missing = [load.name for load in every if load.name not in have and load.title not in titles]
    if missing and say:
        print(f"no figures yet of: {', '.join(missing)}", file=sys.stderr)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(report.markdown(SECTIONS, rows, machine.describe(), before))
    print(f"\nwritten to {output}")
    return 1 if missing and say else 0


if __name__ == "__main__":
    # ended by `timeout` or a shutdown it leaves no server behind either, as with Ctrl-C
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
