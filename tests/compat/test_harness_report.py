"""The page: signs, whose fault a failure is, and text that cannot break a table."""

from __future__ import annotations

import pytest

from compat.harness import catalogue
from compat.harness.report import render, verdict
from compat.harness.run import Outcome, Results

KCAT = catalogue.clients()["c-kcat"]


def results(*outcomes: Outcome) -> Results:
    found = Results()
    for outcome in outcomes:
        found.add(outcome)
    return found


PASSED = Outcome("c-kcat", "headers", ok=True)
FAILED = Outcome("c-kcat", "headers", ok=False, detail="it | broke\nhere")


@pytest.mark.parametrize(
    ("ours", "kafka", "sign"),
    [
        ([PASSED], [], "✓"),
        ([FAILED], [], "✗"),
        ([FAILED], [PASSED], "✗"),
        ([FAILED], [FAILED], "✗ client"),
        ([Outcome("c-kcat", "headers", ok=True, refused="no")], [], "later"),
        ([], [], "?"),
    ],
)
def test_the_sign_of_a_case(ours: list[Outcome], kafka: list[Outcome], sign: str) -> None:
    assert verdict(KCAT, "headers", results(*ours), results(*kafka)) == sign


def test_a_case_that_the_client_lacks() -> None:
    assert verdict(KCAT, "commit_metadata", results(), results()) == "–"


def test_a_failure_has_a_note_on_one_line() -> None:
    page = render(results(FAILED), results())
    assert "- **kcat**, headers: it \\| broke here" in page
    assert "?" in page


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
