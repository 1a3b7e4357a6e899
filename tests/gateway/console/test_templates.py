"""Templates are compiled when they are needed, and never on the loop."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from jinja2 import Environment
from jinja2.meta import find_referenced_templates

from gateway.console import templates
from gateway.console.templates import HERE
from tests.gateway.console.browser import Browser, browse

NAMES = sorted(each.name for each in (HERE / "templates").glob("*.html"))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | None, bool]]:
    """What is compiled from here on, in a process that has compiled nothing: its name, and whether by the loop."""
    found: list[tuple[str | None, bool]] = []
    compile_ = Environment.compile

    def recorded(self: Environment, source: Any, name: str | None = None, *rest: Any, **more: Any) -> Any:
        found.append((name, threading.current_thread() is threading.main_thread()))
        return compile_(self, source, name, *rest, **more)

    monkeypatch.setattr(Environment, "compile", recorded)
    monkeypatch.setattr(templates, "_made", {})
    templates._environment.cache_clear()
    return found


def test_a_console_that_nobody_looks_at_compiles_no_template(
    compiled: list[tuple[str | None, bool]],
) -> None:
    async def nothing(browser: Browser) -> None:
        assert (await browser.get("/ui/static/x/mark.svg")).status == 200

    browse(nothing)
    assert compiled == []


def test_pages_are_compiled_once_and_beside_the_loop(compiled: list[tuple[str | None, bool]]) -> None:
    async def looks(browser: Browser) -> None:
        for path in ("/ui/", "/ui/topics", "/ui/gateway", "/ui/nowhere", "/ui/topics"):
            assert "</html>" in (await browser.get(path)).text, path

    browse(looks)
    assert {name for name, _ in compiled} >= {"base.html", "parts.html", "topics.html"}
    assert [name for name, by_loop in compiled if by_loop] == []
    assert len(compiled) == len(dict(compiled))


@pytest.mark.parametrize("name", NAMES)
def test_whatever_a_template_names_is_compiled_with_it(
    name: str, compiled: list[tuple[str | None, bool]]
) -> None:
    environment = templates._environment()
    templates._make(environment, name)
    before = list(compiled)
    assert name in dict(before)
    assert environment.loader is not None
    named = [name]
    for each in named:
        source = environment.loader.get_source(environment, each)[0]
        for other in find_referenced_templates(environment.parse(source)):
            named += templates.LAYOUTS if other is None else (other,)
        environment.get_template(each)
    assert compiled == before
