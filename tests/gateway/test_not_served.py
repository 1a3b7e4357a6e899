"""The reasons why verbs of pulsar-admin are not served: whole sentences, and none of what is served."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from gateway import not_served
from gateway.cli.admin import main
from gateway.not_served import FIRST_API, NOUNS, OWN_NOUNS, POLICIES, Reason, find, sentence


def reasons() -> Iterator[tuple[str, Reason]]:
    yield from NOUNS.items()
    yield from OWN_NOUNS.items()
    yield from not_served.VERBS.items()
    yield from POLICIES.items()
    yield "/admin", FIRST_API


def verbs_of(noun: str) -> set[str]:
    group = main.commands[noun]
    assert isinstance(group, click.Group)
    return set(group.commands)


@pytest.mark.parametrize(("what", "reason"), list(reasons()))
def test_a_reason_reads_as_a_sentence(what: str, reason: Reason) -> None:
    assert reason.does[0].islower()
    assert not reason.does.endswith(".")
    for each in (reason.why, reason.instead):
        assert each == "" or (each.endswith(".") and (each[0].isupper() or each[0] == "`"))
    assert reason.why


def test_the_pieces_make_a_refusal() -> None:
    assert sentence("clusters", "delete") == (
        "`clusters delete` is not served: it would forget another cluster. There is one cluster, standalone, and "
        "nothing is copied to or from another."
    )
    assert sentence("functions") == sentence("functions", "") != sentence("functions", "list")
    assert sentence("topics", "set-offload-policies") != sentence("namespaces", "set-offload-policies")
    for noun, verb in (
        ("topics", "stats"),
        ("tenants", "get-offload-policies"),
        ("topics", "offload-policies"),
    ):
        assert find(noun, verb) is None


def test_nothing_that_is_served_has_a_reason() -> None:
    assert not NOUNS.keys() & main.commands.keys()
    for command in not_served.VERBS:
        # a third word is a flag, or how a name begins: that alone is refused
        noun, verb, *of = command.split(" ")
        assert of or noun not in main.commands or verb not in verbs_of(noun), command
    for noun in ("namespaces", "topics", "topicPolicies"):
        served = {verb.partition("-")[2] for verb in verbs_of(noun) if verb.startswith("set-")}
        assert not POLICIES.keys() & served
