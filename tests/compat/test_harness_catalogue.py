"""The case list and the programs' own descriptions agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat import tools
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
        ways = {catalogue.SECURED + way for way in catalogue.ways()}
        assert set(reasons) <= known | set(catalogue.sections()) | ways, client.name
        assert set(client.known) <= set(client.cases), client.name


def test_a_program_has_each_case_or_says_why_not() -> None:
    tables = {
        client.name: catalogue._toml(client.folder / "client.toml") for client in catalogue.clients().values()
    }
    own = {table["section"] for table in tables.values() if "section" in table}
    assert "Kafka's console tools" in own
    for client in catalogue.clients().values():
        section = tables[client.name].get("section")
        expected = {
            case
            for title, cases in catalogue.sections().items()
            if (title == section if section else title not in own)
            for case in cases
        }
        assert set(client.cases) | set(client.lacks) == expected, client.name
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


def test_a_suite_chooses_its_clients() -> None:
    of_the_tests = {client.name for client in catalogue.chosen([], ["test"])}
    assert "c-kcat" in of_the_tests
    assert all(catalogue.clients()[name].suite == "test" for name in of_the_tests)
    assert {client.name for client in catalogue.chosen([])} == set(catalogue.clients())


def test_a_client_of_make_compat_may_have_a_few_cases_in_make_test() -> None:
    tested = catalogue.tested()
    for client in catalogue.clients().values():
        expected = client.cases if client.suite == "test" else client.quick
        assert [case for one, case in tested if one is client] == expected, client.name
        assert set(client.quick) <= set(client.cases), client.name
    assert sum(len(client.quick) for client in catalogue.clients().values()) <= 4


def test_placeholders_stand_for_tools_and_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "ensure_jars", lambda name: Path("/jars") / name)
    monkeypatch.setattr(tools, "ensure_go", lambda: Path("/bin/go"))
    folder = Path("/clients/go-some-client")
    client = catalogue.Client(
        name=folder.name,
        title="some client",
        language="Go",
        folder=folder,
        command=["{build}/client", "-cp", "{jars:one-1.2}/*:{shared}", "{go}x", "{}", "{folder}"],
        cases=[],
        build=[["{go}", "build"]],
    )
    assert client.command_line() == [
        f"{catalogue.BUILDS}/go-some-client/client",
        "-cp",
        "/jars/one-1.2/*:/clients/go-common",
        "/bin/gox",
        "{}",
        "/clients/go-some-client",
    ]
    assert client.build_lines() == [["/bin/go", "build"]]


def test_an_unknown_placeholder_is_named() -> None:
    client = catalogue.Client("c-x", "x", "C", Path("c-x"), ["{perl}"], cases=[])
    with pytest.raises(ValueError, match=r"\{perl\} means nothing in c-x/client.toml"):
        client.command_line()
