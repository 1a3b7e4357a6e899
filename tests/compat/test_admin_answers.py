"""Which fields of two answers differ, and which of them have a reason."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from compat.admin.answers import QUESTIONS, Answer, Compared, Difference, Reason, compare, reasons
from compat.admin.answers_page import PAGE, answers, commands, summary, write_answers, write_commands
from compat.admin.cases import Case
from compat.admin.judge import Finding, Verdict
from compat.admin.run import Results
from compat.admin.servers import kafka_name


def _compared(pulsar: object, magnetar: object, *known: Reason, status: int = 200) -> Compared:
    return compare({"GET x": Answer(200, pulsar)}, {"GET x": Answer(status, magnetar)}, known)


def test_fields_are_compared_that_both_have() -> None:
    result = _compared(
        {"a": 1, "b": {"c": [3, 2]}, "d": 4, "rows": [{"e": 5}]},
        {"a": 2, "b": {"c": [2, 3]}, "rows": [{"e": 6}]},
    )
    assert result.unexplained == [
        Difference("GET x", "a", "1", "2"),
        Difference("GET x", "rows.0.e", "5", "6"),
    ]
    assert (result.fields, result.equal) == (4, 2)  # the status is one, and the order of names none
    assert result.only_pulsar == {"d"}


def test_the_status_is_a_field() -> None:
    result = _compared({"a": 1}, {"reason": "no"}, status=404)
    assert result.unexplained == [Difference("GET x", "<status>", "200", "404")]


def test_the_words_of_a_refusal_are_not_compared() -> None:
    result = compare({"GET x": Answer(404, {"reason": "a"})}, {"GET x": Answer(404, {"reason": "b"})}, [])
    assert (result.fields, result.equal) == (1, 1)


def test_the_first_reason_that_fits_counts() -> None:
    first, second = Reason("One.", path="*.size"), Reason("Two.", path="*")
    result = _compared({"a": {"size": 1}, "b": 1}, {"a": {"size": 2}, "b": 2}, first, second)
    assert [(found.path, reason.why) for found, reason in result.explained] == [
        ("a.size", "One."),
        ("b", "Two."),
    ]
    assert result.unused == []


def test_a_reason_by_type_is_none_for_another_type() -> None:
    reason = Reason("Sizes.", path="size", by_type=True)
    assert _compared({"size": 1}, {"size": 2.5}, reason).by_type == 1
    for other in ("2", None, True):
        assert _compared({"size": 1}, {"size": other}, reason).unexplained, other


def test_a_reason_that_nothing_needs_is_told() -> None:
    result = _compared({"a": 1}, {"a": 1}, Reason("Never.", path="z"))
    assert [reason.why for reason in result.unused] == ["Never."]
    assert "Never." in summary(result)


def test_reasons_are_sentences() -> None:
    for reason in reasons():
        assert re.fullmatch(r"[A-Z].*\.", reason.why)


def test_the_page_has_every_reason() -> None:
    page = PAGE.read_text()
    for reason in reasons():
        assert f"| {reason.why} |" in page, "make compare ARGS=--admin writes it anew"


def test_the_page_tells_of_what_has_no_reason(tmp_path: Path) -> None:
    result = _compared({"a": 1}, {"a": "x|y"})
    assert '| `GET x` | `a` | `1` | `"x\\|y"` |' in answers(result)
    page = tmp_path / "page.md"
    page.write_text("<!-- commands -->\nkept\n<!-- end of commands -->\n")
    write_answers(result, page)
    text = page.read_text()
    assert text.index("# pulsar-admin") < text.index("kept") < text.index("## The answers")
    write_answers(result, page)
    assert page.read_text() == text


def test_the_page_counts_the_verbs_of_a_run(tmp_path: Path) -> None:
    ours, pulsar = Results(), Results()
    cases = [
        Case("topics", "one", (), ()),
        Case("topics", "two", (), (), pulsar="it is asleep", client="it is deaf"),
    ]
    found = {
        "stats": Finding(Verdict.SERVED),
        "create": Finding(Verdict.SERVED),
        "skip": Finding(Verdict.WRONG, "a|b"),
    }
    ours.add(cases[0], found)
    ours.add(cases[1], {"create": Finding(Verdict.REFUSED, "Not yet.")})
    pulsar.add(cases[0], {"stats": Finding(Verdict.SERVED), "create": Finding(Verdict.WRONG)})
    text = commands(ours, pulsar, cases)
    assert "| topics | 3 | 1 | 1 | 0 | 1 | 1 |" in text
    assert "| **all** | 3 | 1 | 1 | 0 | 1 | 1 |" in text
    assert "- `topics skip`: `a\\|b`" in text
    assert "- topics, two: it is asleep" in text
    assert "- topics, two: it is deaf" in text
    page = tmp_path / "page.md"
    write_answers(_compared({"a": 1}, {"a": 1}), page)
    write_commands(ours, pulsar, cases, page)
    assert page.read_text().index("## The commands") < page.read_text().index("## The answers")


def test_the_questions_are_calls() -> None:
    lists = tomllib.loads(QUESTIONS.read_text())
    for line in [*lists["history"], *lists["questions"]]:
        assert re.fullmatch(r"produce \S+ \d+ \d+|(GET|PUT|POST|DELETE) [a-z]\S*( .+)?", line), line
        body = line.split(" ", 2)[2:] if not line.startswith("produce") else []
        for text in body:
            json.loads(text)
    assert len(set(lists["questions"])) == len(lists["questions"])


def test_the_name_of_a_topic_for_kafka_clients() -> None:
    assert kafka_name("persistent://shop/eu/orders") == ("shop.eu.orders", -1)
    assert kafka_name("persistent://shop/eu/orders-partition-3") == ("shop.eu.orders", 3)
