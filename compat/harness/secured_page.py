"""The chapter of docs/COMPATIBILITY.md on TLS and logins: what passed of the script, by client and way to log in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from compat.harness.catalogue import Client, clients, script, sections, ways
from compat.harness.run import Results
from compat.harness.verdict import Verdict, verdict

TITLE = "Over TLS and logins"


@dataclass(frozen=True)
class Both:
    """What a way's runs found, against Magnetar and against Apache Kafka."""

    ours: Results
    kafka: Results


Note = Callable[[Client, str, Verdict, Results, Results], str]
"""What is to be said of a case that did not pass."""


def chapter(found: Mapping[str, Both], note: Note) -> list[str]:
    """Its lines; `found` holds the results by way."""
    lines = ["", f"## {TITLE}", "", *_head(), "", *_table(found), ""]
    for way, both in found.items():
        for client in clients().values():
            for case, sign in _signs(client, way, both).items():
                if sign in (Verdict.OURS, Verdict.CLIENTS):
                    said = note(client, case, sign, both.ours, both.kafka)
                    lines.append(f"- **{client.name}**, {way}, {case}: {said}")
    for client in clients().values():
        for reason in dict.fromkeys(client.ways_lacked.values()):
            lacked = ", ".join(way for way, why in client.ways_lacked.items() if why == reason)
            lines.append(f"- **{client.name}** has no {lacked}: {reason}.")
    return lines


def _head() -> list[str]:
    meanings = {case: meaning for cases in sections().values() for case, meaning in cases.items()}
    return [
        "Each program once more, with a short script of its cases, against a gateway that lets nobody in without TLS "
        "and a login (`make compat-secured`). A cell says how many of these cases passed. Apache Kafka was set up in "
        "the same way.",
        "",
        "| way | what clients are told |",
        "|---|---|",
        *(f"| {way} | {meaning} |" for way, meaning in ways().items()),
        "",
        "The script, of which a program runs what it has: "
        + "; ".join(meanings[case] for case in script())
        + ".",
    ]


def _table(found: Mapping[str, Both]) -> list[str]:
    lines = [
        f"| client | {' | '.join(ways())} | passed on Apache Kafka |",
        "|---|" + ":-:|" * (len(ways()) + 1),
    ]
    for client in clients().values():
        if not set(client.cases) & set(script()):
            continue
        cells = [_cell(client, way, found.get(way)) for way in ways()]
        link = f"[{client.name}](../compat/clients/{client.name})"
        lines.append(f"| {link} | {' | '.join(cells)} | {_reference(client, found)} |")
    return lines


def _signs(client: Client, way: str, both: Both | None) -> dict[str, Verdict]:
    """Of each case of the script that the client has; none where it cannot log in so."""
    if both is None or way in client.ways_lacked:
        return {}
    return {case: verdict(client, case, both.ours, both.kafka) for case in script() if case in client.cases}


def _cell(client: Client, way: str, both: Both | None) -> str:
    if way in client.ways_lacked:
        return Verdict.LACKS.value
    signs = list(_signs(client, way, both).values())
    ran = [sign for sign in signs if sign is not Verdict.NOT_RUN]
    passed = sum(sign is Verdict.PASSED for sign in ran)
    if not ran:
        return Verdict.NOT_RUN.value
    if passed == len(signs):
        return f"{Verdict.PASSED.value} {passed}"
    return f"{passed} of {len(ran)}"


def _reference(client: Client, found: Mapping[str, Both]) -> str:
    """How many of all that was run there."""
    if client.no_reference:
        return client.no_reference
    outcomes = [
        outcome.ok
        for way, both in found.items()
        if way not in client.ways_lacked
        for case in script()
        if (outcome := both.kafka.outcomes.get((client.name, case))) is not None and outcome.ran
    ]
    return f"{sum(outcomes)} of {len(outcomes)}" if outcomes else "not run"
