"""Steps are names beside functions: nothing in a gateway, and everything to who weaves them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from store import steps
from store.rocksdb.database import Database
from store.rocksdb.files import Files
from store.rocksdb.group_commit import Executor
from store.steps import Steps, step


def test_a_step_costs_nothing() -> None:
    """The function with a name is the function."""

    def function() -> None: ...

    assert step("a.before", "a.after", within="place")(function) is function
    for named in (Executor.execute, Files.write, Database.write, Database.sync):
        assert named.__code__.co_name == named.__name__
        assert not hasattr(named, "__wrapped__")


def test_who_weaves_gets_every_function_with_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    woven: list[Steps] = []

    def weave(function: Callable[..., Any], names: Steps) -> Callable[..., Any]:
        woven.append(names)
        return lambda: f"woven {function()}"

    monkeypatch.setattr(steps, "weave", weave)

    @step("first", "second", within="here")
    @step(half="third", inside="there")
    def function() -> str:
        return "function"

    assert function() == "woven woven function"
    assert woven == [Steps(half="third", inside="there"), Steps("first", "second", within="here")]
