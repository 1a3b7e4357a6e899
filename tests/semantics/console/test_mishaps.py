"""Jobs and transactions that need attention: which make a sentence, and which do not."""

from __future__ import annotations

from typing import Any

import pytest

from semantics.console.attention import RULES
from semantics.console.mishaps import Ended, Waited, of_job, of_transaction

MINUTE, DAY = 60_000, 86_400_000
NOW = 1_800_000_000_000


def job(**other: Any) -> Ended:
    one = Ended(
        7, "replay", "orders", "billing", NOW - MINUTE, "failed", "the store is full", 1_200, 5_000, 3_800
    )
    return one._replace(**other)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (
            {},
            "The replay of dead letters of billing on orders, job 7, failed after 1,200 of 5,000: the store is full."
            " 3,800 are open.",
        ),
        (
            {"what": "discard", "state": "interrupted", "why": "", "left": 1},
            "The discard of dead letters of billing on orders, job 7, was interrupted after 1,200 of 5,000. 1 is open.",
        ),
        (
            {"state": "stopped", "why": "150 of 1,200 that were sent died again, more than 10 %"},
            "The replay of dead letters of billing on orders, job 7, stopped by itself after 1,200 of 5,000: 150 of"
            " 1,200 that were sent died again, more than 10 %. 3,800 are open.",
        ),
    ],
)
def test_a_job_that_ended_by_itself(other: dict[str, Any], says: str) -> None:
    one = job(**other)
    found = of_job(one, NOW, "billing on orders")
    assert found is not None
    assert (found.rule, found.about, found.since, found.number) == ("job", "7", NOW - MINUTE, one.left)
    assert (found.topic, found.group, found.partition, found.sentence) == ("orders", "billing", None, says)


def test_a_job_is_no_news_for_ever_and_none_where_no_letter_is_left() -> None:
    assert of_job(job(ended=NOW - DAY), NOW, "x") is not None
    assert of_job(job(ended=NOW - DAY - 1), NOW, "x") is None
    assert of_job(job(left=0), NOW, "x") is None


def transaction(since: int, *waits: Waited) -> Any:
    return of_transaction("shop/eu//pay", "pay", since, waits, NOW, "orders")


def test_a_transaction_that_holds_readers_up() -> None:
    found = transaction(NOW - 12 * MINUTE, Waited("orders", 3, 1_204))
    assert (found.rule, found.about, found.topic, found.group) == (
        "transaction",
        "shop/eu//pay",
        "orders",
        "",
    )
    assert (found.partition, found.since, found.number) == (3, NOW - 12 * MINUTE, 1_204)
    assert found.sentence == (
        "Transaction pay has been open for 12 minutes: it holds back 1,204 messages from readers of committed records"
        " in partition 3 of orders."
    )
    several = transaction(NOW - 5 * MINUTE, Waited("orders", 3, 1), Waited("sales", 0, 4))
    assert several.number == 5
    assert several.sentence.endswith(" in 2 partitions, the first is 3 of orders.")


def test_one_that_is_open_for_a_moment_or_holds_nobody_up_is_not_told() -> None:
    assert transaction(NOW - 5 * MINUTE + 1, Waited("orders", 3, 9)) is None
    assert transaction(NOW - DAY) is None


def test_their_rules_have_a_place_among_all() -> None:
    assert RULES.index("transaction") < RULES.index("blocked")
    assert RULES.index("job") < RULES.index("letters")


def test_letters_that_others_may_have_are_those_of_a_topic() -> None:
    found = of_job(job(letters="bin"), NOW, "billing on orders", str.upper)
    assert found is not None
    assert found.sentence.endswith(": the store is full. 3,800 are open in BIN.")
    assert found.letters == "bin"
