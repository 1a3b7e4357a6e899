"""What becomes of a record that `topics consume --share` shows."""

from __future__ import annotations

import re

import pytest

from gateway.cli.admin_records import Record
from gateway.cli.admin_settling import Rules, asked


class TestRules:
    def test_reject_goes_before_release_and_else_all_is_accepted(self) -> None:
        rules = Rules(re.compile(b"bad"), re.compile(b"a"))
        values = [b"bad", b"later", b"ok", None]
        assert [rules.decide(Record(value), _no_key) for value in values] == [
            "rejected", "released", "accepted", "accepted",
        ]  # fmt: skip

    def test_every_nth(self) -> None:
        rules = Rules(reject_every=6, release_every=2)
        found = [rules.decide(Record(b""), _no_key) for _ in range(6)]
        assert found == ["accepted", "released", "accepted", "released", "accepted", "rejected"]

    def test_a_key_decides(self) -> None:
        keys = iter(["A", "r", "?", "x", "q", ""])
        assert [asked(lambda: next(keys)) for _ in range(5)] == [
            "accepted",
            "released",
            "rejected",
            None,
            None,
        ]

    def test_ctrl_c_at_the_question(self) -> None:
        with pytest.raises(KeyboardInterrupt):
            asked(lambda: "\x03")


def _no_key() -> str:
    raise AssertionError("nobody is asked")
