"""Message ids as text and as JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.message_id import EARLIEST, LATEST, MessageId, MessageIdError

numbers = st.integers(-1, 2**63 - 1)
ids = st.builds(MessageId, numbers, numbers, numbers, numbers)


@given(ids)
def test_an_id_comes_back_from_its_text_and_its_json(message_id: MessageId) -> None:
    assert MessageId.parse(str(message_id)) == message_id
    assert MessageId.from_json(message_id.to_json()) == message_id


def test_what_is_left_out_is_minus_one() -> None:
    assert MessageId.parse("7:42") == (7, 42, -1, -1)
    assert MessageId.parse("7:42:3") == (7, 42, 3, -1)
    assert str(MessageId.parse("7:42:3:1")) == "7:42:3:1"
    assert MessageId.from_json({"ledgerId": 7, "entryId": 42, "other": "x"}) == (7, 42, -1, -1)


def test_pulsars_two_constants() -> None:
    assert MessageId.parse("earliest") == EARLIEST == (-1, -1, -1, -1)
    assert MessageId.parse("latest") == LATEST == (2**63 - 1, 2**63 - 1, -1, -1)
    assert EARLIEST < MessageId(0, 0) < MessageId(0, 0, 0, 5) < MessageId(0, 1) < LATEST


@pytest.mark.parametrize(
    "text",
    ["", "7", ":", "7:", ":7", "1:2:3:4:5", "a:b", "1:+2", "1: 2", "1:2_0", "1:-2", "1:--1", "1:٣",
     "1:" + "9" * 400, "9223372036854775808:0", "1.0:2", "Latest"],
)  # fmt: skip
def test_what_is_no_message_id_is_refused(text: str) -> None:
    with pytest.raises(MessageIdError, match="message id"):
        MessageId.parse(text)


@pytest.mark.parametrize(
    "value",
    [None, 7, [], "7:42", {}, {"ledgerId": 1}, {"entryId": 1}, {"ledgerId": "1", "entryId": 1},
     {"ledgerId": True, "entryId": 1}, {"ledgerId": 1, "entryId": -2}, {"ledgerId": 2**63, "entryId": 1},
     {"ledgerId": 1, "entryId": 1, "batchIndex": 0.5}],
)  # fmt: skip
def test_json_that_is_no_message_id_is_refused(value: object) -> None:
    with pytest.raises(MessageIdError):
        MessageId.from_json(value)
