"""What becomes of a record that `topics consume --share` shows."""

from __future__ import annotations

import re
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from gateway.cli.admin_reading import Reader
from gateway.cli.admin_records import Record
from gateway.cli.admin_settling import Rules, _settle, asked


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


class Message:
    """One that a share consumer's poll brings."""

    def __init__(self, partition: int, value: bytes = b"") -> None:
        self._partition, self._value = partition, value

    def error(self) -> None:
        return None

    def partition(self) -> int:
        return self._partition

    def value(self) -> bytes:
        return self._value

    def key(self) -> None:
        return None

    def headers(self) -> list[tuple[str, bytes]]:
        return []

    def topic(self) -> str:
        return "orders"

    def offset(self) -> int:
        return 0

    def timestamp(self) -> tuple[int, int]:
        return 0, 0

    def delivery_count(self) -> int:
        return 1


class Member:
    """A share consumer whose acknowledgements are answered as it is told."""

    def __init__(self, answers: dict[int, int | None]) -> None:
        self._answers = answers

    def acknowledge(self, message: Message, kind: object) -> None:
        pass

    def commit_sync(self, timeout: float) -> dict[TopicPartition, KafkaException | None]:
        return {
            TopicPartition("orders", number): None if code is None else KafkaException(KafkaError(code))
            for number, code in self._answers.items()
        }


def settled(answers: dict[int, int | None], **rules: Any) -> dict[str, int]:
    """What is counted of three messages, two of them of partition 1."""
    reader = Reader("a:1", (), "orders", None, False, 5.0, 60.0)
    messages = [Message(0), Message(1), Message(1)]
    assert _settle(reader, Member(answers), messages, Rules(**rules), lambda record: None)
    assert reader.shown == 3
    return reader.settled


class TestWhatIsCounted:
    def test_what_is_confirmed(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert settled({0: None, 1: None}, reject_every=3) == {"accepted": 2, "rejected": 1}
        assert capsys.readouterr().err == ""

    def test_an_outage_is_no_lock_that_was_held_too_long(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert settled({0: None, 1: KafkaError._TRANSPORT}) == {"accepted": 1, "not confirmed": 2}
        said = capsys.readouterr().err
        assert said == (
            "Partition 1: not all was settled (Local: Broker transport failure)."
            " A message without an answer comes again.\n"
        )

    def test_a_lock_that_was_held_too_long(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert settled({0: KafkaError.INVALID_RECORD_STATE, 1: None}) == {"accepted": 2, "not confirmed": 1}
        assert "held too long (share.record.lock.duration.ms) comes again" in capsys.readouterr().err

    def test_what_has_no_answer(self) -> None:
        assert settled({0: None}) == {"accepted": 1, "not confirmed": 2}
