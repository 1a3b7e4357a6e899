"""Kafka's quotas of clients: which one binds, and what it leaves."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics import quotas
from semantics.quotas import (
    CLIENT,
    USER,
    Bucket,
    Entity,
    QuotaError,
    binding,
    bound,
    check,
    entity_of,
    of_address,
)

PRODUCED = quotas.PRODUCED
# as Kafka's documentation lists them, the first goes before the others
LEVELS: list[Entity] = [
    (("user", "ada"), ("client-id", "app")),
    (("user", "ada"), ("client-id", None)),
    (("user", "ada"),),
    (("user", None), ("client-id", "app")),
    (("user", None), ("client-id", None)),
    (("user", None),),
    (("client-id", "app"),),
    (("client-id", None),),
]
SHARED = [("ada", "app")] * 2 + [("ada", "")] + [("ada", "app")] * 2 + [("ada", "")] + [("", "app")] * 2


@given(st.sets(st.integers(0, 7)))
def test_the_first_of_eight_levels_binds(there: set[int]) -> None:
    rows = {LEVELS[at]: {PRODUCED: 100.0 + at} for at in there}
    found = binding(rows, PRODUCED, "ada", "app")
    if not there:
        assert found is None
        return
    first = min(there)
    assert found == (100.0 + first, (PRODUCED, *SHARED[first]))


def test_others_rows_do_not_bind_and_each_key_finds_its_own() -> None:
    rows = {
        entity_of([("user", "bob")]): {PRODUCED: 1.0},
        entity_of([("client-id", "app")]): {PRODUCED: 2.0},
        entity_of([("user", "ada")]): {quotas.FETCHED: 3.0},
    }
    assert binding(rows, PRODUCED, "ada", "app") == (2.0, (PRODUCED, "", "app"))
    assert binding(rows, quotas.FETCHED, "ada", "app") == (3.0, (quotas.FETCHED, "ada", ""))
    assert binding(rows, quotas.WORK, "ada", "app") is None


def test_a_default_is_a_bucket_for_each() -> None:
    rows = {entity_of([("user", None)]): {PRODUCED: 5.0}}
    ada, bob = (binding(rows, PRODUCED, each, "app") for each in ("ada", "bob"))
    assert ada is not None
    assert bob is not None
    assert ada.whose != bob.whose


def test_an_address_has_its_own_or_the_default() -> None:
    rows = {entity_of([("ip", "10.0.0.1")]): {quotas.CONNECTIONS: 2.0}}
    assert of_address(rows, "10.0.0.2") is None
    rows[entity_of([("ip", None)])] = {quotas.CONNECTIONS: 9.0}
    for address, rate in (("10.0.0.1", 2.0), ("10.0.0.2", 9.0)):
        assert of_address(rows, address) == (rate, (quotas.CONNECTIONS, "", address))


def test_one_address_is_one_entity_however_it_is_written() -> None:
    assert entity_of([("ip", "2001:DB8::0001")]) == entity_of([("ip", "2001:db8:0:0::1")])


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [("user", "")],
        [("group", "a")],
        [("user", "a"), ("user", "b")],
        [("ip", "10.0.0.1"), ("user", "a")],
        [("ip", "10.0.0.")],
        [("user", "a" * 1025)],
        [("client-id", "a" * 257)],
    ],
)
def test_what_can_have_no_quotas(parts: list[tuple[str, str | None]]) -> None:
    with pytest.raises(QuotaError):
        entity_of(parts)


@pytest.mark.parametrize(
    ("kind", "key", "value", "good"),
    [
        ("user", PRODUCED, 1024.0, True),
        ("user", PRODUCED, 0.5, False),
        ("user", PRODUCED, 0.0, False),
        ("user", PRODUCED, -1.0, False),
        ("user", PRODUCED, float("nan"), False),
        ("user", PRODUCED, float("inf"), False),
        ("user", PRODUCED, 1e30, False),
        ("client-id", quotas.WORK, 0.5, True),
        ("client-id", quotas.MUTATIONS, 0.1, True),
        ("ip", quotas.CONNECTIONS, 3.0, True),
        ("ip", quotas.CONNECTIONS, 0.3, False),
        ("ip", PRODUCED, 3.0, False),
        ("user", quotas.CONNECTIONS, 3.0, False),
        ("user", "bogus", 3.0, False),
    ],
)
def test_what_a_row_may_say(kind: str, key: str, value: float, good: bool) -> None:
    entity = entity_of([(kind, None)])
    if good:
        check(entity, key, value)
        return
    with pytest.raises(QuotaError):
        check(entity, key, value)


@given(
    st.integers(1, 10_000),
    st.integers(1, 10),
    st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 50_000)), max_size=40),
)
def test_a_bucket_is_what_it_says(rate: int, seconds: int, steps: list[tuple[int, int]]) -> None:
    """Against whole fractions: never more than a millisecond too long."""
    bucket = Bucket(rate, seconds, 0)
    level, now = Fraction(rate * seconds), 0
    for passed, tokens in steps:
        now += passed
        level = min(level + Fraction(passed * rate, 1000), Fraction(rate * seconds)) - tokens
        wait = bucket.take(tokens, now)
        exact = -level * 1000 / rate if level < 0 else Fraction(0)
        assert exact - Fraction(1, 100) <= wait <= exact + 1
        assert bucket.wait(now) == wait


def test_who_has_paid_may_go_on_and_saves_nothing_up() -> None:
    bucket = Bucket(1000, 10, 0)
    assert bucket.take(10_000, 0) == 0
    assert bucket.take(500, 0) == 500
    assert bucket.wait(400) == 100
    assert not bucket.full(10_400)
    assert bucket.full(10_500)
    assert bucket.take(10_001, 1_000_000) == 1


def test_another_rate_takes_the_debt_over() -> None:
    bucket = Bucket(1000, 10, 0)
    assert bucket.take(12_000, 0) == 2000
    bucket.change(2000, 10, 0)
    assert bucket.wait(0) == 1000
    bucket = Bucket(1000, 10, 0)
    bucket.change(10, 10, 0)
    assert bucket.take(100, 0) == 0
    assert bucket.take(1, 0) == 100


def test_a_clock_that_stands_or_goes_back_fills_nothing() -> None:
    bucket = Bucket(10, 1, 1000)
    bucket.take(20, 1000)
    assert bucket.wait(500) == bucket.wait(1000) == 1000


BOSS_ROW: dict[Entity, dict[str, float]] = {((USER, "shop.boss"),): {PRODUCED: 40.0}}


@pytest.mark.parametrize(
    ("rows", "rate", "whose"),
    [
        ({}, 40.0, ("shop.boss", "")),
        ({((USER, "shop.boss"),): {PRODUCED: 10.0}}, 10.0, ("shop.boss", "")),
        ({((USER, None),): {PRODUCED: 100.0}}, 40.0, ("shop.boss", "")),
        ({((USER, "shop.boss"), (CLIENT, None)): {PRODUCED: 100.0}}, 40.0, ("shop.boss", "app")),
        # a bucket that others are in is not made smaller for them
        ({((CLIENT, "app"),): {PRODUCED: 100.0}}, 40.0, ("shop.boss", "")),
        ({((CLIENT, None),): {PRODUCED: 10.0}}, 10.0, ("shop.boss", "")),
    ],
)
def test_a_tenants_row_leaves_less_and_never_more(
    rows: dict[Entity, dict[str, float]], rate: float, whose: tuple[str, str]
) -> None:
    assert bound(rows, BOSS_ROW, PRODUCED, "shop.boss", "app") == (rate, (PRODUCED, *whose))
    assert bound(rows, {}, PRODUCED, "shop.boss", "app") == binding(rows, PRODUCED, "shop.boss", "app")


def test_a_tenants_rows_of_client_ids_are_no_way_out_of_what_binds_the_user() -> None:
    lower: dict[Entity, dict[str, float]] = {((USER, "shop.boss"), (CLIENT, None)): {PRODUCED: 40.0}}
    rows: dict[Entity, dict[str, float]] = {((USER, "shop.boss"),): {PRODUCED: 100.0}}
    assert bound(rows, lower, PRODUCED, "shop.boss", "app") == (100.0, (PRODUCED, "shop.boss", ""))
