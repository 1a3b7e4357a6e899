"""The command, without the day itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from compat.day import __main__ as command
from compat.day.ledger import Findings
from compat.day.run import Day, DayError, Outcome, told
from tests.compat.day.scenes import took


def play(monkeypatch: pytest.MonkeyPatch, end: Outcome | BaseException) -> None:
    def run(day: Day) -> Outcome:
        if isinstance(end, BaseException):
            raise end
        return end

    monkeypatch.setattr(Day, "run", run)


@pytest.mark.parametrize(("wrong", "code"), [([], 0), (["member 1 got ada 2 before 1"], 1)])
def test_it_tells_the_day_writes_the_picture_and_fails_when_the_order_did(
    wrong: list[str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    play(monkeypatch, Outcome(Findings(out_of_order=wrong), "<svg/>", ["7 orders"]))
    picture = tmp_path / "new" / "day.svg"

    assert command.main(["--picture", str(picture)]) == code

    said = capsys.readouterr().out
    assert "7 orders" in said
    assert all(line in said for line in wrong)
    assert picture.read_text() == "<svg/>"


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        (DayError("nothing came."), 1, "The day ended early: nothing came."),
        (KeyboardInterrupt(), 130, "Stopped; everything is cleaned up."),
    ],
)
def test_a_day_that_ends_early_is_a_sentence(
    end: BaseException,
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    play(monkeypatch, end)

    assert command.main(["--picture", str(tmp_path / "day.svg")]) == code

    assert capsys.readouterr().err.strip() == words
    assert not (tmp_path / "day.svg").exists()


def test_the_findings_are_told_in_lines() -> None:
    deaths = [took(3, 7, member=1, nacked=True), took(4.5, 7, member=2, failed=1, nacked=True)]
    findings = Findings(deliveries=Counter({1: 4_000, 2: 3, 4: 1}), deaths={("ada", 7): deaths})  # type: ignore[dict-item]

    assert told(findings, 5, began=2.0) == [
        "order violations: 0 (looked for in each key, over all members)",
        "acknowledged, and delivered again: 0",
        "lost: 0; not settled: 5",
        "delivered once: 4,000, twice: 3, 4 times: 1",
        "dead letter: number 7 of ada, delivered twice, to member 1 at 1.0 s, to member 2 at 2.5 s",
    ]
    assert "missing: [('ada', 7)]" in told(Findings(wrong_letters=[("ada", 7)]), 0, 0)[-1]
