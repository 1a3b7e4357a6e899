"""Sessions and the tokens of forms."""

from __future__ import annotations

import pytest

from gateway.console import sessions
from gateway.console.sessions import Sessions, Tokens
from tests.gateway.admin.secured import Secured
from tests.gateway.console.browser import Browser, browse_secured
from tests.gateway.console.test_console import log_in


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_stands_for_what_was_shown_until_it_is_closed() -> None:
    open_ = Sessions(Clock())
    ada, bob = open_.open("Basic ada", "ada"), open_.open("Basic bob", "bob")
    assert ada != bob
    assert len(ada) >= 43, "32 random bytes"
    assert (open_.authorization(ada), open_.authorization(bob)) == ("Basic ada", "Basic bob")
    open_.close(ada)
    assert open_.authorization(ada) is None
    assert open_.authorization("") is None
    assert open_.authorization(bob) == "Basic bob"


def test_it_ends_when_it_is_idle_and_when_it_is_old() -> None:
    clock = Clock()
    open_ = Sessions(clock)
    idle, used = open_.open("idle", "ada"), open_.open("used", "ada")
    while clock.now < sessions.LONGEST_SECONDS:
        assert open_.authorization(used) == "used"
        clock.now += sessions.IDLE_SECONDS / 2
    assert open_.authorization(used) is None
    assert open_.authorization(idle) is None
    assert len(open_) == 0


def test_what_a_page_asks_by_itself_keeps_no_session_open() -> None:
    clock = Clock()
    open_ = Sessions(clock)
    left, used = open_.open("left", "ada"), open_.open("used", "ada")
    for _ in range(3):
        assert open_.authorization(left, used=False) == "left"
        assert open_.authorization(used) == "used"
        clock.now += sessions.IDLE_SECONDS / 3
    assert open_.authorization(left, used=False) is None
    assert open_.authorization(used) == "used"


def test_the_one_that_was_used_least_lately_makes_room() -> None:
    open_ = Sessions(Clock())
    first, second = open_.open("first", "first"), open_.open("second", "second")
    for number in range(sessions.MOST - 2):
        open_.open(str(number), str(number))
    assert open_.authorization(first) == "first"
    open_.open("one more", "one more")
    assert len(open_) == sessions.MOST
    assert open_.authorization(second) is None
    assert open_.authorization(first) == "first"


def test_who_logs_in_too_often_loses_its_own_sessions_and_nobody_elses() -> None:
    open_ = Sessions(Clock())
    others = [open_.open(f"other {number}", f"other {number}") for number in range(700)]
    first, second = open_.open("first", "ada"), open_.open("second", "ada")
    for number in range(sessions.MOST_OF_ONE - 2):
        open_.open(str(number), "ada")
    assert open_.authorization(first) == "first"
    for number in range(sessions.MOST):
        open_.open(str(number), "ada")
        assert open_.authorization(first) == "first", "it is in use"
    assert open_.authorization(second) is None
    assert len(open_) == 700 + sessions.MOST_OF_ONE
    assert all(open_.authorization(each) is not None for each in others)


def test_where_there_are_too_many_in_all_it_is_the_owner_with_most_that_loses() -> None:
    open_ = Sessions(Clock())
    few = open_.open("few", "few")
    firsts = [open_.open("first", f"many {number}") for number in range(5)]
    for number in range(sessions.MOST_OF_ONE - 1):
        for many in range(5):
            open_.open(str(number), f"many {many}")
    assert len(open_) == sessions.MOST
    assert open_.authorization(few) == "few"
    assert [open_.authorization(each) for each in firsts] == [None, *["first"] * 4]


def test_who_logs_in_from_many_browsers_leaves_others_logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_OF_ONE", 2)
    monkeypatch.setattr(sessions, "MOST", 4)

    async def test(browser: Browser, at: Secured) -> None:
        assert await log_in(browser, "eve") == 303
        adas = [Browser(at.admin) for _ in range(4)]
        for each in adas:
            assert await log_in(each, "ada") == 303
        assert [(await each.get("/ui/topics")).status for each in adas] == [303, 303, 200, 200]
        assert "you are User:eve" in (await browser.get("/ui/topics")).words

    browse_secured(test)


def test_a_token_is_of_one_browser_and_one_session() -> None:
    tokens = Tokens()
    browser = tokens.browser()
    token = tokens.of(browser, "session")
    assert tokens.good(token, browser, "session")
    for wrong in (
        ("", browser, "session"),
        (token, "", "session"),
        (token, browser, ""),
        (token, tokens.browser(), "session"),
        # where one ends and the other begins is of no matter to who makes both
        (token, browser + "s", "ession"),
        (token[:-1], browser, "session"),
        ("ä\udcff", browser, "session"),
    ):
        assert not tokens.good(*wrong), wrong
    assert not tokens.good(tokens.of("", ""), "", ""), "a browser without a name has no token"
    assert not Tokens().good(token, browser, "session"), "the key of another start"
