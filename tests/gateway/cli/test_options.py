"""Flags that give settings: which goes before which, and how it is said that one of them is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.cli.options import USED_BADLY, load


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAGNETAR_CONFIG", raising=False)


def file_with(tmp_path: Path, text: str, name: str = "m.toml") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_a_flag_goes_before_the_environment_and_that_before_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_with(tmp_path, 'data = "file"\nnode.id = 3\nnum.partitions = 3\n')
    monkeypatch.setenv("MAGNETAR_DATA", "environment")
    monkeypatch.setenv("MAGNETAR_NODE_ID", "4")
    settings = load(data="flag", file=file)
    assert (settings.text("data"), settings.origin("data")) == ("flag", "--data")
    assert (settings.integer("node.id"), settings.integer("num.partitions")) == (4, 3)


def test_a_file_that_is_named_goes_before_the_one_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAGNETAR_CONFIG", file_with(tmp_path, "num.partitions = 3\n"))
    assert load().integer("num.partitions") == 3
    other = file_with(tmp_path, "num.partitions = 5\n", "other.toml")
    assert load(file=other).integer("num.partitions") == 5
    monkeypatch.setenv("MAGNETAR_CONFIG", "")
    assert load().origin("num.partitions") == "default"


def test_listeners_of_several_flags_are_one_list() -> None:
    settings = load(listeners=("127.0.0.1:0", "IN://[::1]:0"), admin="127.0.0.1:0")
    assert [str(each) for each in settings.listeners] == ["127.0.0.1:0", "[::1]:0"]
    assert load().origin("listeners") == "default"


def test_an_address_that_others_reach_needs_a_word_of_the_person(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        load(listeners=(":9092",))
    assert ended.value.code == USED_BADLY
    assert "--insecure" in capsys.readouterr().err
    assert load(listeners=(":9092",), insecure=True).origin("insecure") == "--insecure"


def test_all_that_is_wrong_is_said_at_once_a_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAGNETAR_NODE", "1")
    with pytest.raises(SystemExit) as ended:
        load(sets=("num.partitons=4", "node.id=x"), log_level="loud", log_format="xml", durability="disk")
    assert ended.value.code == USED_BADLY
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert all(line.startswith("magnetar: ") for line in lines)
    for word in ("MAGNETAR_NODE", "num.partitons", "node.id", "--log-level", "--log-format", "--durability"):
        assert sum(f"magnetar: {word}" in line or f" {word}" in line for line in lines) >= 1
    assert len(lines) == 6


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        load(file=str(tmp_path / "nowhere.toml"))
    assert "nowhere.toml" in capsys.readouterr().err
