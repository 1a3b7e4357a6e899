"""Whose records an archive has: topics by id."""

from __future__ import annotations

import pytest

from pipeline.errors import PipelineError
from pipeline.identity import Identity, adopted


def test_it_is_read_as_it_was_written() -> None:
    kept = Identity(output="file:/a", checkpoint="file:/a/c", topics={"t": "1"})

    assert Identity.parse(kept.text()) == kept
    assert Identity().archive != Identity().archive


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"archive": 1, "output": "", "checkpoint": "", "topics": 3}']
)
def test_what_is_no_identity(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Identity.parse(text)


def test_new_topics_are_taken_and_known_ones_must_be_the_same() -> None:
    kept = Identity(topics={"a": "1"})

    assert kept.meet({"a": "1", "b": "2"}) == ["b"]
    with pytest.raises(PipelineError, match=r"topic b was deleted and made again .*--output"):
        kept.meet({"b": "3", "c": "4"})
    assert kept.topics == {"a": "1", "b": "2"}
    # a topic that is gone for now is still known
    assert kept.meet({}) == []


def test_only_topics_that_were_read_before_are_adopted_with_a_word() -> None:
    assert adopted(["new"], ["old"]) is None
    assert "knows a by id" in str(adopted(["a", "new"], ["a"]))
    assert "a, b, c and 2 more" in str(adopted(list("abcde"), list("abcde")))
