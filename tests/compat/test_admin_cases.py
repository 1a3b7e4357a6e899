"""The cases of pulsar-admin can be read, and say what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compat.admin import cases
from compat.admin.cases import CasesError, filled, load, nouns


def _file(folder: Path, text: str) -> Path:
    (folder / "topics.toml").write_text(text)
    return folder


@pytest.mark.parametrize("noun", nouns())
def test_the_files_can_be_read(noun: str) -> None:
    assert load(noun)


def test_a_step_is_a_command_and_what_is_seen(tmp_path: Path) -> None:
    [case] = load(
        "topics",
        _file(
            tmp_path,
            """
            given = "namespace topic"
            [[case]]
            steps = [
                'skip {topic} -s "my sub" => ^7$',
                'namespaces:policies {ns} => not m',
                'stats {topic} => error no topic',
                'stats {topic} => nothing',
            ]
            """,
        ),
    )
    assert (case.name, case.verbs, case.given) == ("skip", ("skip", "stats"), ("namespace", "topic"))
    first, second, third, last = case.steps
    assert first.arguments == ("topics", "skip", "{topic}", "-s", "my sub")
    assert (first.seen, first.absent, first.fails) == ("^7$", False, False)
    assert (second.verb, second.arguments[:2], second.absent) == (None, ("namespaces", "policies"), True)
    assert (third.fails, third.seen) == (True, "no topic")
    assert last.seen == cases.NOTHING


def test_a_policy_is_got_set_got_removed_got(tmp_path: Path) -> None:
    [case] = load(
        "topics", _file(tmp_path, "[policies]\nretention = { flags = '-t 1m', shows = '1', get = 'get-it' }")
    )
    assert [step.verb for step in case.steps] == [
        "get-it", "set-retention", "get-it", "remove-retention", "get-it",
    ]  # fmt: skip
    assert [step.seen for step in case.steps] == [cases.NOTHING, "", "1", "", cases.NOTHING]


def test_a_policy_that_cannot_be_removed(tmp_path: Path) -> None:
    [case] = load("topics", _file(tmp_path, "[policies]\nx = { shows = '1', remove = '', none = '0' }"))
    assert [step.arguments for step in case.steps] == [
        ("topics", "get-x", "{topic}"),
        ("topics", "set-x", "{topic}"),
        ("topics", "get-x", "{topic}"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[case]]\nsteps = ['a']\n[[case]]\nsteps = ['a']", "two cases are called a"),
        ("[[case]]\nsteps = ['namespaces:a']", "no command of topics"),
        ("[[case]]\ngiven = 'tea'\nsteps = ['a']", "nothing is called tea"),
        ("[[case]", "topics.toml"),
    ],
)
def test_what_cannot_be_a_case(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(CasesError, match=words):
        load("topics", _file(tmp_path, text))


def test_names_in_braces_are_filled_and_other_braces_stay() -> None:
    assert filled('{topic} {"a": 1} {nobody}', {"topic": "t"}) == 't {"a": 1} {nobody}'


def test_nothing_is_what_the_tool_prints_of_no_policy() -> None:
    for text in ("null\n", "\n", "", "{ }\n", "{}", "[]", "[ ]"):
        assert re.search(cases.NOTHING, text), text
    for text in ("0", "null null", '{"a": 1}', "[a]"):
        assert not re.search(cases.NOTHING, text), text
