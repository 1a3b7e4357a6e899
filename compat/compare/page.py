"""docs/ANSWERS.md: what was compared, and what stays different, from a run's result and from `expected.toml`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from compat.compare.difference import reasons
from compat.compare.report import Result, spans
from compat.compare.rights.world import RIGHTS
from compat.peers.kafka.jars import kafka_version

ANSWERS = Path(__file__).parents[2] / "docs" / "ANSWERS.md"
RIGHTS_HEADING = "## Rights"

_NOT_COMPARED = """\
- Leader epochs gone by (both servers are new, and Kafka's first epoch is 0); replicas, elections and what else needs a
  second node.
- The texts of errors and of config documentation: only whether there is one.
- The order of answers, which in Kafka is that of hash maps: items are put in the order of their names.
- Time: what waits is compared by what wakes it, not by how long it took.
- What a failing disk does: a parked fetch whose commit failed answers NOT_LEADER_OR_FOLLOWER, which is retriable.
- TLS, and how clients log in; what users of different rights are answered is told below.
- Of transactions Fetch: markers have the time of the server.
- In `__transaction_state` the tags of records: the producer id before, and which protocol the client speaks."""


def write(path: Path, text: str) -> None:
    """Write the page. The section on rights comes of a run of its own, and stays."""
    _, found, section = path.read_text().partition(RIGHTS_HEADING) if path.exists() else ("", "", "")
    path.write_text(with_rights(text, found + section) if found else text)


def with_rights(text: str, section: str) -> str:
    """The page with this section on rights, its last one."""
    return text.partition(RIGHTS_HEADING)[0].rstrip("\n") + "\n\n" + section


def rights_section(result: Result) -> str:
    """What users of different rights were answered."""
    own = [reason.why for reason in reasons("rights")]
    others = [reason.why for _, reason in result.explained]
    lines = [
        RIGHTS_HEADING,
        "",
        f"Made by `make compare ARGS=--authorizer`: {len(RIGHTS)} users of different rights ask both for topics,",
        "groups and transactions that they have rights to, that they have none to, and that are not there. Kafka goes",
        "by its StandardAuthorizer.",
        "",
        f"**{_figures(result)}.**",
        "",
        *_reasons_table(result, own + others),
        "",
    ]
    return "\n".join(lines)


def _figures(result: Result) -> str:
    count = len({api for api, _ in result.compared})
    return (
        f"{result.answers:,} answers compared over {count} APIs in {len(result.compared)} versions: "
        f"{result.equal:,} equal byte for byte, {result.answers_explained:,} different for a reason below, "
        f"{result.answers_unexplained} unexplained"
    )


def _reasons_table(result: Result, whys: Iterable[str]) -> list[str]:
    """Of each reason where it was needed, and in how many fields."""
    by_reason = Counter(reason.why for _, reason in result.explained)
    where: dict[str, set[str]] = {}
    for found, reason in result.explained:
        where.setdefault(reason.why, set()).add(found.label.rpartition(" (")[2].partition(" v")[0])
    lines = ["| of | fields | why |", "|---|---|---|"]
    for why in dict.fromkeys(whys):
        apis = sorted(name for name in where.get(why, ()) if name in result.served)
        of = ", ".join(apis) if 0 < len(apis) < 4 else "several APIs" if apis else "bytes and versions"
        lines.append(f"| {of} | {by_reason[why]:,} | {why} |")
    return lines


def page(result: Result) -> str:
    """The page without its section on rights, the same for the same result."""
    lines = [
        f"# Magnetar's answers beside Apache Kafka {kafka_version()}'s",
        "",
        "Made by `make compare`: the same requests to both, each started empty, the answers compared byte for byte.",
        "Only what a server chooses for itself is given a name first: topic, producer, member and session ids, the",
        "cluster's id, ports, the present time, leader epochs, throttle times.",
        "",
        f"**{_figures(result)}.**",
        "",
        "## What was compared",
        "",
        "| API | Kafka serves | Magnetar serves | compared | answers |",
        "|---|---|---|---|---|",
    ]
    for api, (kafka, magnetar) in sorted(result.served.items()):
        versions = sorted(version for name, version in result.compared if name == api)
        answers = sum(count for (name, _), count in result.compared.items() if name == api)
        if kafka and magnetar:
            lines.append(
                f"| {api} | {_range(kafka)} | {_range(magnetar)} | {spans(versions)} | {answers:,} |"
            )
    one_sided = {
        "Kafka alone serves": [api for api, (_, magnetar) in sorted(result.served.items()) if not magnetar],
        "Magnetar alone lists": [api for api, (kafka, _) in sorted(result.served.items()) if not kafka],
    }
    for title, names in one_sided.items():
        if names:
            lines += ["", f"{title}: {', '.join(names)}."]
    lines += [
        "",
        "## What stays different, and why",
        "",
        *_reasons_table(result, (reason.why for reason in reasons())),
        "",
        "## Not compared",
        "",
        _NOT_COMPARED,
        "",
    ]
    return "\n".join(lines)


def _range(versions: range) -> str:
    return f"{versions[0]}-{versions[-1]}" if len(versions) > 1 else str(versions[0])
