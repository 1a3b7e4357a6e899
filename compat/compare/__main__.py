"""`python -m compat.compare`: ask Apache Kafka and Magnetar the same, and compare the answers byte for byte.

Both are started empty on free ports of 127.0.0.1, every script is run against the one and then the other, and what
differs without a reason in `expected.toml` is printed field by field. The exit code is 1 when something does.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tqdm import tqdm

from compat.admin import answers, answers_page
from compat.compare import rights
from compat.compare.page import ANSWERS, page, rights_section, with_rights, write
from compat.compare.report import Result, compare, summary
from compat.compare.rights.world import OPS, SECRET
from compat.compare.scripts import SCRIPTS
from compat.compare.server import Server
from compat.peers.kafka.peer import KafkaPeer
from compat.peers.magnetar import MagnetarPeer
from compat.peers.secured import Secured
from compat.stopping import stoppable

KAFKA = {
    # all are asked for rights, and who asks has all
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    # partitions are shared out at once, as here
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
MAGNETAR = {
    "authorization": "true",
    "super.users": "User:ANONYMOUS",
    "node.id": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat.compare", description=__doc__)
    parser.add_argument("--all", action="store_true", help="print the expected differences too")
    parser.add_argument("--only", nargs="+", choices=sorted(SCRIPTS), help="run these scripts only")
    parser.add_argument(
        "--users", nargs="+", choices=sorted(rights.SCRIPTS), help="with --authorizer: these users only"
    )
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a Kafka that runs already, with nothing in it")
    parser.add_argument(
        "--magnetar", metavar="HOST:PORT", help="a Magnetar that runs already, with nothing in it"
    )
    parser.add_argument(
        "--report", metavar="FILE", help="write the coverage and the differences that stay there"
    )
    parser.add_argument(
        "--admin",
        action="store_true",
        help="compare the answers of the admin API with Apache Pulsar's instead, and write docs/ADMIN-ANSWERS.md",
    )
    parser.add_argument(
        "--authorizer",
        action="store_true",
        help="compare what users of different rights are answered, with Kafka's StandardAuthorizer beside it, and "
        "write docs/ANSWERS.md's section on rights, unless it was of some users only",
    )
    arguments = parser.parse_args()
    if arguments.admin:
        return _admin()
    if arguments.authorizer:
        return _authorizer(arguments.users, show_all=arguments.all)
    with contextlib.ExitStack() as stack:
        kafka = arguments.kafka or stack.enter_context(KafkaPeer(settings=KAFKA, start_timeout=180)).bootstrap
        magnetar = arguments.magnetar or stack.enter_context(MagnetarPeer(settings=MAGNETAR)).bootstrap
        result = run(kafka, magnetar, arguments.only)
    if arguments.report:
        write(Path(arguments.report), page(result))
    print(summary(result, show_all=arguments.all))
    return 1 if result.unexplained else 0


def _admin() -> int:
    result = answers.run()
    answers_page.write_answers(result)
    print(answers_page.summary(result))
    return 1 if result.unexplained else 0


def _authorizer(only: list[str] | None, *, show_all: bool) -> int:
    """Users log in by PLAIN, in plain text: what is compared comes behind that."""
    logins = {user: user + SECRET for user in (OPS, *rights.SCRIPTS)}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        secured = Secured(
            folder,
            protocol="SASL_PLAINTEXT",
            users=logins,
            super_users=(f"User:{OPS}",),
            authorizer=True,
        )
        kafka = stack.enter_context(KafkaPeer(settings=_others(KAFKA), start_timeout=180, secured=secured))
        magnetar = stack.enter_context(MagnetarPeer(settings=_others(MAGNETAR), secured=secured))
        servers = [
            Server("kafka", kafka.bootstrap, logins),
            Server("magnetar", magnetar.bootstrap, logins),
        ]
        result = asked(servers, rights.SCRIPTS, only, of_users=True)
    if only is None:
        ANSWERS.write_text(with_rights(ANSWERS.read_text(), rights_section(result)))
    print(summary(result, show_all=show_all))
    return 1 if result.unexplained else 0


def _others(settings: dict[str, str]) -> dict[str, str]:
    """Without what the comparison of one user says of rights."""
    said = ("super.users", "authorization", "authorizer.class.name")
    return {name: value for name, value in settings.items() if name not in said}


def run(kafka: str, magnetar: str, only: list[str] | None = None) -> Result:
    """All scripts against both, and what came of it."""
    return asked([Server("kafka", kafka), Server("magnetar", magnetar)], SCRIPTS, only)


def asked(
    servers: list[Server],
    scripts: dict[str, Callable[[Server], None]],
    only: list[str] | None,
    *,
    of_users: bool = False,
) -> Result:
    """These scripts against both, Kafka first. `of_users`: they ask for users of different rights."""
    for name in sorted({*servers[0].served, *servers[1].served}):
        one, other = (server.served.get(name, range(0)) for server in servers)
        both = range(max(one.start, other.start), min(one.stop, other.stop))
        for server in servers:
            if both:
                server.common[name] = both
            else:
                server.alone[name] = one or other
    chosen = [name for name in scripts if only is None or name in only]
    with tqdm(total=len(chosen) * 2, unit="script", disable=None) as progress:
        for name in chosen:
            for server in servers:
                progress.set_postfix_str(f"{name} of {server.name}")
                scripts[name](server)
                progress.update()
    for server in servers:
        server.close()
    return compare(*servers, of_users=of_users)


if __name__ == "__main__":
    with stoppable():
        sys.exit(main())
