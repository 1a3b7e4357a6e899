"""The page: signs, whose fault a failure is, and text that cannot break a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compat.harness import catalogue
from compat.harness.report import render
from compat.harness.run import Outcome, Results
from compat.harness.verdict import Verdict, verdict

KCAT = catalogue.clients()["c-kcat"]


def results(*outcomes: Outcome) -> Results:
    found = Results()
    for outcome in outcomes:
        found.add(outcome)
    return found


PASSED = Outcome("c-kcat", "headers", ok=True)
FAILED = Outcome("c-kcat", "headers", ok=False, detail="it | broke\nhere")


UNABLE = Outcome("c-kcat", "headers", ok=False, detail="kcat is missing", ran=False)


def refused(case: str) -> Outcome:
    return Outcome("c-kcat", case, ok=True, refused="not here")


@pytest.mark.parametrize(
    ("ours", "kafka", "expected"),
    [
        ([PASSED], [], Verdict.PASSED),
        ([FAILED], [], Verdict.OURS),
        ([FAILED], [PASSED], Verdict.OURS),
        ([FAILED], [FAILED], Verdict.CLIENTS),
        ([refused("headers")], [PASSED], Verdict.OURS),
        ([], [], Verdict.NOT_RUN),
        ([UNABLE], [PASSED], Verdict.NOT_RUN),
        ([FAILED], [UNABLE], Verdict.OURS),
    ],
)
def test_whose_fault_it_is(ours: list[Outcome], kafka: list[Outcome], expected: Verdict) -> None:
    assert verdict(KCAT, "headers", results(*ours), results(*kafka)) is expected


def test_a_refusal_of_what_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compat.harness.verdict.not_yet", lambda: {"headers": "another day"})
    assert verdict(KCAT, "headers", results(refused("headers")), results()) is Verdict.LATER
    assert verdict(KCAT, "headers", results(FAILED), results()) is Verdict.OURS


def test_a_known_fault_of_the_client() -> None:
    client = replace(KCAT, known={"headers": "forgets them"})
    assert verdict(client, "headers", results(FAILED), results()) is Verdict.CLIENTS
    assert verdict(client, "headers", results(PASSED), results()) is Verdict.PASSED


def test_where_apache_kafka_serves_the_client_not_at_all_its_failures_excuse_nothing() -> None:
    client = replace(KCAT, no_reference="too old")
    assert verdict(client, "headers", results(FAILED), results(FAILED)) is Verdict.OURS


def test_a_case_that_the_client_lacks() -> None:
    assert verdict(KCAT, "commit_metadata", results(), results()) is Verdict.LACKS


def test_a_failure_has_a_note_on_one_line() -> None:
    page = render(results(FAILED), results())
    assert "- **kcat**, headers: it \\| broke here" in page
    assert "?" in page


def test_a_program_that_cannot_run_has_one_note() -> None:
    page = render(results(UNABLE, replace(UNABLE, case="acks")), results())
    assert page.count("kcat is missing") == 1


def test_a_note_is_the_same_after_each_run() -> None:
    outcome = Outcome("c-kcat", "headers", ok=False, detail="127.0.0.1:4711 lost compat.headers.t.0123456789")
    assert "headers: HOST:PORT lost NAME\n" in render(results(outcome), results())


def test_every_program_and_every_case_is_on_the_page() -> None:
    page = render(results(PASSED), results())
    for client in catalogue.clients().values():
        assert f"clients/{client.name})" in page
    for cases in catalogue.sections().values():
        for meaning in cases.values():
            assert f"| {meaning} |" in page
