"""The case list and the programs' own descriptions agree."""

from __future__ import annotations

import pytest

from compat.harness import catalogue


def test_every_program_has_cases_and_a_command() -> None:
    assert len(catalogue.clients()) >= 6
    for client in catalogue.clients().values():
        assert client.cases, client.name
        assert client.command, client.name


def test_what_a_program_lacks_is_a_case_or_a_section() -> None:
    known = {case for cases in catalogue.sections().values() for case in cases}
    for client in catalogue.clients().values():
        reasons = catalogue._toml(client.folder / "client.toml").get("lacks", {})
        assert set(reasons) <= known | set(catalogue.sections()), client.name
        assert set(client.known) <= set(client.cases), client.name


def test_a_program_has_each_case_or_says_why_not() -> None:
    ordinary = {
        case
        for title, cases in catalogue.sections().items()
        if title != catalogue.TOOLS_SECTION
        for case in cases
    }
    for client in catalogue.clients().values():
        if client.name != "java-console-tools":
            assert set(client.cases) | set(client.lacks) == ordinary, client.name
            assert not set(client.cases) & set(client.lacks), client.name


def test_case_names_are_unique() -> None:
    names = [case for cases in catalogue.sections().values() for case in cases]
    assert len(names) == len(set(names))


def test_what_is_not_supported_yet_is_a_case() -> None:
    assert set(catalogue.not_yet()) <= {c for cases in catalogue.sections().values() for c in cases}


def test_chosen_names_an_unknown_program() -> None:
    with pytest.raises(KeyError, match="no-such-client"):
        catalogue.chosen(["no-such-client"])
    assert catalogue.chosen([]) == list(catalogue.clients().values())
