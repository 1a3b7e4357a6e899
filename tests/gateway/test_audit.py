"""Who changed what, who was refused, who came in."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from gateway import audit, logs
from gateway.audit import Audit, Entry, Kind


class At:
    def __init__(self, most: int = 3) -> None:
        self.seconds = 0.0
        self.refusals = 0
        self.audit = Audit(most, lambda: int(self.seconds * 1000), lambda: self.seconds)

    def change(self, target: str = "orders") -> None:
        self.audit.change("CreateTopics", "User:ada", "10.0.0.1", "kafka", "done", target)

    def refuse(self, target: str = "") -> None:
        """Another one each time, unless it is named."""
        self.refusals += 1
        self.audit.refused("DELETE", "User:eve", "10.0.0.2", "http", target or str(self.refusals))


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """The log, as JSON."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.setup("info", "json", stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_line_and_an_entry_say_the_same(written: io.StringIO) -> None:
    at = At()
    at.seconds = 1.5
    at.change()
    (entry,) = at.audit.last(10)
    assert entry == Entry(
        1, 1500, Kind.CHANGE, "CreateTopics", "User:ada", "10.0.0.1", "kafka", "done", "orders"
    )
    line = json.loads(written.getvalue())
    assert (line["logger"], line["level"], line["message"]) == ("magnetar.audit", "info", "change")
    said = {name: line[name] for name in ("what", "who", "host", "over", "outcome", "target")}
    assert said == {
        "what": "CreateTopics", "who": "User:ada", "host": "10.0.0.1", "over": "kafka", "outcome": "done",
        "target": "orders",
    }  # fmt: skip


def test_beyond_its_budget_a_kind_is_counted() -> None:
    at = At(most=3)
    for _ in range(5):
        at.refuse()
    assert len(at.audit.last(10)) == 3
    # a flood of one kind hides no other
    at.change()
    assert at.audit.last(1)[0].kind is Kind.CHANGE
    at.seconds += 1 / 3
    at.refuse()
    assert at.audit.last(1)[0].left_out == 2
    at.seconds += 1
    at.refuse()
    assert at.audit.last(1)[0].left_out == 0


def test_what_was_left_out_is_told_when_nothing_comes_after_it(written: io.StringIO) -> None:
    at = At(most=1)
    for _ in range(4):
        at.refuse()
    at.audit.tell_left_out()
    at.audit.tell_left_out()
    told = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [(line["message"], line.get("left_out")) for line in told] == [("refused", None), ("left out", 3)]


def test_the_logs_own_budget_does_not_cut_it_short(written: io.StringIO) -> None:
    at = At(most=100)
    for number in range(60):
        at.change(str(number))
    assert len(written.getvalue().splitlines()) == 60


def test_a_flood_of_refusals_pushes_no_change_out() -> None:
    at = At(most=10 * audit.KEPT)
    at.change()
    for _ in range(audit.KEPT + 5):
        at.refuse()
    found = at.audit.last(5 * audit.KEPT)
    assert len(found) == audit.KEPT + 1
    assert [each.number for each in found] == sorted((each.number for each in found), reverse=True)
    assert at.audit.last(10, Kind.CHANGE)[0].target == "orders"


def test_what_is_done_all_day_is_told_once_a_minute() -> None:
    at = At(most=100)
    for target in ("g: orders", "g: orders", "g: bills"):
        at.audit.routine("OffsetCommit", "User:ada", "10.0.0.1", "kafka", "done", target)
    assert [each.target for each in at.audit.last(10)] == ["g: bills", "g: orders"]
    # another end of it is something else
    at.audit.routine("OffsetCommit", "User:ada", "10.0.0.1", "kafka", "UNKNOWN", "g: orders")
    assert at.audit.last(1)[0].outcome == "UNKNOWN"
    at.seconds = audit.AGAIN_SECONDS
    at.audit.routine("OffsetCommit", "User:ada", "10.0.0.1", "kafka", "done", "g: orders")
    assert (at.audit.last(1)[0].kind, at.audit.last(1)[0].repeats) == (Kind.CHANGE, 1)


def test_what_one_tenant_does_in_a_flood_hides_nobody_elses() -> None:
    at = At(most=3)
    for number in range(9):
        at.audit.change("DeleteGroups", f"User:shop.u{number}", "10.0.0.1", "kafka")
    at.change("orders")
    assert [(each.who, each.target, each.left_out) for each in at.audit.last(1)] == [
        ("User:ada", "orders", 0)
    ]
    assert len(at.audit.last(10)) == 4
    # nor does it push it out
    for _ in range(audit.KEPT):
        at.seconds += 1
        at.audit.change("DeleteGroups", "User:shop.u1", "10.0.0.1", "kafka")
    found = at.audit.last(2 * audit.KEPT)
    assert len(found) == audit.KEPT
    assert found[-1].target == "orders"


def test_who_has_no_name_has_no_share_of_those_that_have() -> None:
    at = At(most=2)
    for number in range(9):
        at.audit.login_refused(f"u{number}", "10.0.0.3", "kafka", "PLAIN", "wrong password")
    at.refuse("orders")
    assert at.audit.last(1)[0].target == "orders"
    assert len(at.audit.last(10)) == 3


def test_a_client_that_tries_a_wrong_password_in_a_loop_is_told_once_a_minute(written: io.StringIO) -> None:
    at = At(most=100)
    wrong = "wrong password"
    for tried in range(180):
        at.seconds = tried / 3
        at.audit.login_refused("ada", "10.0.0.3", "kafka", "PLAIN", wrong)
    assert len(at.audit.last(10)) == len(written.getvalue().splitlines()) == 1
    # another name, from elsewhere, or for another reason, is something else
    at.audit.login_refused("bob", "10.0.0.3", "kafka", "PLAIN", wrong)
    at.audit.login_refused("ada", "10.0.0.4", "kafka", "PLAIN", wrong)
    at.audit.login_refused("ada", "10.0.0.3", "kafka", "PLAIN", "its token has ended")
    assert len(at.audit.last(10)) == 4
    at.seconds = audit.AGAIN_SECONDS
    at.audit.login_refused("ada", "10.0.0.3", "kafka", "PLAIN", wrong)
    told = at.audit.last(1)[0]
    assert (told.who, told.host, told.outcome, told.repeats) == ("ada", "10.0.0.3", wrong, 179)


def test_all_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "OWNERS", 4)
    at = At(most=2)
    for number in range(50):
        at.audit.change("CreateTopics", f"User:u{number}", "10.0.0.1", "kafka")
    assert len(at.audit.last(100)) == 2 * audit.TOGETHER


def test_the_first_login_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "SEEN", 3)
    at = At(most=100)
    for host in ("a", "a", "b"):
        at.audit.login("User:ada", host, "kafka", "PLAIN")
    at.audit.login("User:ada", "a", "http", "PLAIN")
    assert len(at.audit.last(10)) == 3
    # what is remembered is bounded
    at.audit.login("User:ada", "c", "http", "PLAIN")
    at.audit.login("User:ada", "a", "kafka", "PLAIN")
    assert len(at.audit.last(10)) == 5


def test_what_a_client_asks_for_again_and_again_is_told_once_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit, "SEEN", 2)
    at = At(most=100)
    for _ in range(4):
        at.refuse("orders")
    at.refuse("bills")
    assert [each.target for each in at.audit.last(10)] == ["bills", "orders"]
    at.seconds = audit.AGAIN_SECONDS
    at.refuse("orders")
    assert at.audit.last(1)[0].repeats == 3
    # what is remembered is bounded
    at.refuse("more")
    at.refuse("orders")
    assert [each.target for each in at.audit.last(2)] == ["orders", "more"]


def test_what_was_left_out_hides_nothing_that_comes_later() -> None:
    """A flood that is over takes no first login with it, nor the only line of a refusal or a routine change."""
    at = At(most=1)
    for _ in range(2):
        for name in ("ada", "eve"):
            at.audit.login(f"User:shop.{name}", "a", "kafka", "PLAIN")
            at.audit.refused("Metadata", f"User:shop.{name}", "a", "kafka", "orders")
            at.audit.routine("OffsetCommit", f"User:shop.{name}", "a", "kafka", "done", "g: orders")
        at.seconds += 1
    for kind in Kind:
        assert [(each.who, each.left_out) for each in at.audit.last(10, kind)] == [
            ("User:shop.eve", 1), ("User:shop.ada", 0),
        ]  # fmt: skip


def test_what_was_left_out_counts_as_a_repetition() -> None:
    at = At(most=1)
    at.refuse("orders")
    at.refuse("orders")
    at.seconds = audit.AGAIN_SECONDS
    at.refuse("bills")
    at.refuse("orders")
    at.seconds += 1
    at.refuse("orders")
    assert [(each.target, each.repeats) for each in at.audit.last(2)] == [("orders", 2), ("bills", 0)]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("orders\nlevel=info who=root", "orders\\u000alevel=info who=root"),
        ("\x1b[31mred\x00", "\\u001b[31mred\\u0000"),
        ("a\u2028b\u202e", "a\\u2028b\\u202e"),
        ("shop/eu/\x1fbilling", "shop/eu//billing"),
        ("é \udcff", "é \\udcff"),
        ("x" * 10_000, "x" * 255 + "…"),
    ],
)
def test_what_clients_say_is_one_short_line(said: str, told: str) -> None:
    at = At()
    at.change(said)
    assert at.audit.last(1)[0].target == told
    at.audit.login_refused(said, said, "kafka", said, said)
    entry = at.audit.last(1)[0]
    assert (entry.who, entry.host, entry.outcome) == (told, told, told)
