"""Settings as text: a table, an explanation, a file that gives them again, an example file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli import show
from gateway.config import SETTINGS, Settings


def rows(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_table_says_what_each_setting_is_and_where_that_comes_from() -> None:
    settings = Settings.load(["num.partitions=4", "log.cleanup.policy="])
    text = show.table(settings, SETTINGS)
    assert len(rows(text)) == len(SETTINGS) + 1
    assert rows(text)[0] == "SETTING VALUE FROM"
    for line in (
        "num.partitions 4 --set num.partitions",
        "log.cleanup.policy (empty) --set log.cleanup.policy",
        "broker.rack (open) default",
    ):
        assert line in rows(text)
    # the columns begin where their heads do
    head, *lines = text.splitlines()
    for start in (head.index("VALUE"), head.index("FROM")):
        assert all(line[start - 2 : start] == "  " and line[start] != " " for line in lines)
    assert show.table(settings, []) == "Every setting has its default.\n"


def test_a_setting_is_explained_with_every_way_to_give_it() -> None:
    settings = Settings.load(["durability=fsync"])
    text = show.explained(settings, ["durability", "num.partitions"])
    first, second = text.split("\n\n")
    assert first.startswith("durability = fsync  (--set durability)\n  What an acknowledgement survives")
    assert first.endswith("\n  --durability, --set durability=..., MAGNETAR_DURABILITY")
    assert "\n  whole number, default 1; " in second
    assert "--set num.partitions=..., MAGNETAR_NUM_PARTITIONS" in second


@pytest.mark.parametrize("name", SETTINGS)
def test_an_explanation_says_truly_whether_a_setting_may_be_altered(name: str) -> None:
    text = show.explained(Settings.load([]), [name])
    assert ("may be altered while the gateway runs" in text) == SETTINGS[name].dynamic
    assert ("read at the start" in text) != SETTINGS[name].dynamic


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30))
def test_any_text_is_read_back_from_the_file_that_is_shown(text: str) -> None:
    settings = Settings.load([f"broker.rack={text}"])
    shown = show.toml(settings, ["broker.rack"])
    assert tomllib.loads(shown) == {"broker": {"rack": settings.text("broker.rack")}}


def test_a_file_gives_the_same_settings_again(tmp_path: Path) -> None:
    first = Settings.load(['data=a "b"\\ ö\x7f', "max.connections.per.ip=3", "log.cleanup.policy="])
    file = tmp_path / "m.toml"
    file.write_text(show.toml(first, SETTINGS))
    again = Settings.load(file=file)
    assert {name: again.value(name) for name in SETTINGS} == {name: first.value(name) for name in SETTINGS}


def test_the_example_file_changes_nothing_and_each_of_its_lines_can_be_taken_into_use(tmp_path: Path) -> None:
    text = show.example()
    assert tomllib.loads(text) == {}
    file = tmp_path / "m.toml"
    lines = [line[1:] if line.startswith("#") and line[1] != " " else line for line in text.splitlines(True)]
    file.write_text("".join(lines))
    settings = Settings.load(file=file)
    for name, setting in SETTINGS.items():
        assert settings.origin(name) != "default", name
        if setting.default is not None:
            assert settings.value(name) == setting.default
