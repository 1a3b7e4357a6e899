"""The comparison itself: it finds what differs, and knows of every reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat.compare import __main__ as program
from compat.compare.difference import EXPECTED, Difference, Reason, differences, reason_for, reasons


def found(kafka: object, magnetar: object) -> list[tuple[str, object, object]]:
    return [(each.path, each.kafka, each.magnetar) for each in differences("x", kafka, magnetar)]


def test_equal_answers_do_not_differ() -> None:
    answer = {"a": 1, "b": [{"c": None}, {"c": b"x"}]}
    assert found(answer, {"b": [{"c": None}, {"c": b"x"}], "a": 1}) == []


@pytest.mark.parametrize(
    ("kafka", "magnetar", "expected"),
    [
        ({"a": 1}, {"a": 2}, [("a", 1, 2)]),
        ({"a": 1}, {}, [("a", 1, "<absent>")]),
        ({}, {"a": 1}, [("a", "<absent>", 1)]),
        ({"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {"b": 3}]}, [("a.1.b", 2, 3)]),
        ({"a": [1]}, {"a": [1, 2]}, [("a", [1], [1, 2])]),
        ({"a": 0}, {"a": False}, [("a", 0, False)]),
        ({"a": None}, {"a": []}, [("a", None, [])]),
        ({"error_message": None}, {"error_message": "<text>"}, []),
        ({"error_message": "<text>"}, {"error_message": None}, [("error_message", "<text>", None)]),
    ],
)
def test_what_differs(kafka: object, magnetar: object, expected: list[tuple[str, object, object]]) -> None:
    assert found(kafka, magnetar) == expected


def test_a_reason_needs_its_label_and_its_path() -> None:
    known = [Reason("a *", "topics.*.offset", "why")]
    assert reason_for(Difference("a fetch", "topics.0.offset", 1, 2), known) is known[0]
    assert reason_for(Difference("b fetch", "topics.0.offset", 1, 2), known) is None
    assert reason_for(Difference("a fetch", "topics.0.error", 1, 2), known) is None


def test_an_unexpected_difference_is_told_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    class Answered:
        def __init__(self, code: int) -> None:
            self.answers = [("a question", {"error_code": code})]

    assert program.report([Answered(0), Answered(0)], show_all=False) == 0  # type: ignore[list-item]
    assert program.report([Answered(0), Answered(3)], show_all=False) == 1  # type: ignore[list-item]
    assert "error_code: kafka 0, magnetar 3" in capsys.readouterr().out


def test_every_reason_stands_in_the_readme() -> None:
    text = Path(EXPECTED).with_name("README.md").read_text()
    assert [reason.why for reason in reasons() if reason.why not in text] == []
