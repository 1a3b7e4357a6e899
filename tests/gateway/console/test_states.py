"""Every state that the admin API says of a message has a word, and an icon that pages have."""

from __future__ import annotations

import re

import pytest

from gateway.console import states
from gateway.console.standing import STATES
from gateway.console.templates import HERE
from semantics.subscriptions.states import NAMES

OF_EXPLAIN = {each.lower() for each in NAMES.values()} | {"blocked", "unread", "done"}


@pytest.mark.parametrize("state", sorted({*OF_EXPLAIN, *STATES, "dead"}))
def test_each_state_has_a_word_and_a_symbol_of_the_page(state: str) -> None:
    assert states.WORDS[state]
    symbols = re.findall(r'<symbol id="i-(\w+)"', (HERE / "templates" / "base.html").read_text("utf-8"))
    assert states.ICONS[state] in symbols


def test_a_message_whose_letter_is_not_stored_yet_is_not_called_dead() -> None:
    assert states.WORDS["dying"] != states.WORDS["dead"]


@pytest.mark.parametrize(("said", "state"), [("ACQUIRED by c1", "acquired"), ("DONE", "done"), ("", "")])
def test_a_sentence_begins_with_its_state(said: str, state: str) -> None:
    assert states.state_of(said) == state
