"""Sessions and the tokens of forms."""

from __future__ import annotations

from gateway.console import sessions
from gateway.console.sessions import Sessions, Tokens


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_stands_for_what_was_shown_until_it_is_closed() -> None:
    open_ = Sessions(Clock())
    ada, bob = open_.open("Basic ada"), open_.open("Basic bob")
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
    idle, used = open_.open("idle"), open_.open("used")
    while clock.now < sessions.LONGEST_SECONDS:
        assert open_.authorization(used) == "used"
        clock.now += sessions.IDLE_SECONDS / 2
    assert open_.authorization(used) is None
    assert open_.authorization(idle) is None
    assert len(open_) == 0


def test_what_a_page_asks_by_itself_keeps_no_session_open() -> None:
    clock = Clock()
    open_ = Sessions(clock)
    left, used = open_.open("left"), open_.open("used")
    for _ in range(3):
        assert open_.authorization(left, used=False) == "left"
        assert open_.authorization(used) == "used"
        clock.now += sessions.IDLE_SECONDS / 3
    assert open_.authorization(left, used=False) is None
    assert open_.authorization(used) == "used"


def test_the_one_that_was_used_least_lately_makes_room() -> None:
    open_ = Sessions(Clock())
    first, second = open_.open("first"), open_.open("second")
    for number in range(sessions.MOST - 2):
        open_.open(str(number))
    assert open_.authorization(first) == "first"
    open_.open("one more")
    assert len(open_) == sessions.MOST
    assert open_.authorization(second) is None
    assert open_.authorization(first) == "first"


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
