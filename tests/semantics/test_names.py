"""Pulsar's names and the Kafka names they are known by."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from semantics.names import (
    DEFAULT,
    MAX_KAFKA_NAME,
    Namespace,
    NamingError,
    TopicName,
    canonical,
    dotted,
    elsewhere,
    is_canonical,
    kafka_name,
    of_catalog,
    of_own,
    parse,
    partition_named,
)

SHOP = Namespace("shop", "eu")
THERE = {DEFAULT, SHOP, Namespace("a", "b")}

parts = st.sampled_from(["a", "b", "shop", "eu", "public", "default", "x-1", "_"])
locals_ = st.from_regex(r"[a-cA0._-]{1,12}", fullmatch=True) | st.sampled_from(
    ["a.b.c", "shop.eu.x", "a.b.shop.eu.x"]
)
namespaces = st.builds(Namespace, parts, parts)


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("orders", "persistent://public/default/orders"),
        ("shop/eu/orders", "persistent://shop/eu/orders"),
        ("persistent://shop/eu/orders", "persistent://shop/eu/orders"),
        ("non-persistent://shop/eu/orders", "non-persistent://shop/eu/orders"),
        ("orders.v1", "persistent://public/default/orders.v1"),
    ],
)
def test_every_way_to_write_a_topic(text: str, full: str) -> None:
    assert str(parse(text)) == full


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "..", "a b", "a/b", "a/b/c/d", "/a/b", "a//b", "a/b/", "kafka://a/b/c", "persistent://a",
        "persistent://a/b", "persistent://", "persistent://a/b/c/d", "a.b/c/d", "a/b.c/d", "ü", "a\n", "a:b",
        "a=b", "x" * 250,
    ],
)  # fmt: skip
def test_what_is_no_topic_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(NamingError, match=r"\.$"):
        parse(text)


def test_a_name_without_a_namespace_lives_at_home() -> None:
    assert parse("orders", SHOP) == TopicName(SHOP, "orders")
    assert parse("public/default/orders", SHOP) == TopicName(DEFAULT, "orders")


@pytest.mark.parametrize("text", ["public", "a/b/c", "/", "a/", "a.b/c", "a/b c", ""])
def test_what_is_no_namespace_is_refused(text: str) -> None:
    with pytest.raises(NamingError):
        Namespace.parse(text)


@pytest.mark.parametrize(
    ("local", "parent", "index"),
    [
        ("orders-partition-0", "orders", 0),
        ("orders-partition-12", "orders", 12),
        ("a-partition-1-partition-2", "a-partition-1", 2),
        ("orders", "orders", -1),
        ("orders-partition-", "orders-partition-", -1),
        ("orders-partition-03", "orders-partition-03", -1),
        ("orders-partition--1", "orders-partition--1", -1),
        ("orders-partition-1x", "orders-partition-1x", -1),
        ("-partition-1", "-partition-1", -1),
        ("orders-partition-9999999999", "orders-partition-9999999999", -1),
    ],
)
def test_the_name_of_a_partition(local: str, parent: str, index: int) -> None:
    name = TopicName(SHOP, local)
    assert (name.parent.local, name.partition) == (parent, index)


@given(locals_, st.integers(0, 10**9 - 1))
def test_a_partition_leads_back_to_its_topic(local: str, index: int) -> None:
    topic = TopicName(SHOP, local, "non-persistent")
    assert topic.with_partition(index).parent == topic
    assert topic.with_partition(index).partition == index


def test_kafka_names_are_bare_at_home_and_dotted_elsewhere() -> None:
    orders = TopicName(SHOP, "orders")
    assert kafka_name(orders) == "shop.eu.orders"
    assert kafka_name(orders, home=SHOP) == "orders"
    assert elsewhere("shop.eu.orders", DEFAULT, THERE.__contains__) == orders
    assert elsewhere("public.default.orders", SHOP, THERE.__contains__) == TopicName(DEFAULT, "orders")


def test_whole_names_of_the_home_are_its_own() -> None:
    assert of_own("shop.eu.orders.v1", SHOP) == "orders.v1"
    for name in ("orders", "shop.eu.", "shop.eu..", "shop.us.orders", "shop.eu"):
        assert of_own(name, SHOP) is None
    assert of_own("public.default.orders", DEFAULT) is None


@pytest.mark.parametrize(
    "name", ["orders", "shop.us.orders", "public.default.orders", "shop.eu.", "shop.eu..", "a.b"]
)
def test_other_names_are_none_of_another_namespace(name: str) -> None:
    assert elsewhere(name, DEFAULT, THERE.__contains__) is None


def test_the_catalogs_names() -> None:
    assert canonical(TopicName(DEFAULT, "shop.eu.orders")) == "shop.eu.orders"
    assert canonical(TopicName(SHOP, "orders.v1")) == "shop/eu/orders.v1"
    assert of_catalog("shop/eu/orders.v1") == TopicName(SHOP, "orders.v1")
    assert of_catalog("shop.eu.orders") == TopicName(DEFAULT, "shop.eu.orders")
    assert dotted("shop/eu/orders.v1") == "shop.eu.orders.v1"


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        ("orders", True), ("shop/eu/orders", True), ("shop.eu.orders", True), ("shop/eu/a.b", True), ("a/b", False),
        ("shop/eu//orders", False), ("//orders", False), ("shop/eu/", False), ("shop/eu/..", False), ("", False),
        ("s.p/eu/x", False), ("a/b/c/d", False), ("shop/eu/" + "x" * 241, True), ("shop/eu/" + "x" * 242, False),
    ],
)  # fmt: skip
def test_what_the_catalog_may_call_a_topic(text: str, legal: bool) -> None:
    assert is_canonical(text) is legal


def test_a_namespace_leaves_room_for_a_topic() -> None:
    longest = Namespace.of("t" * 145, "n" * 101)
    assert len(kafka_name(TopicName(longest, "x"), DEFAULT)) == MAX_KAFKA_NAME
    for tenant, name in (("t" * 146, "n" * 101), ("t" * 246, "n"), ("t", "n" * 246), ("", "n"), ("t", "")):
        with pytest.raises(NamingError, match=r"no topic could be named|cannot be empty"):
            Namespace.of(tenant, name)


def test_a_name_that_is_too_long_for_kafka_is_refused() -> None:
    longest = "x" * (MAX_KAFKA_NAME - len("shop.eu."))
    assert len(kafka_name(TopicName(SHOP, longest))) == MAX_KAFKA_NAME
    with pytest.raises(NamingError, match="250 characters"):
        kafka_name(TopicName(SHOP, longest + "x"))


@given(namespaces, locals_)
def test_a_name_of_the_catalog_leads_back_to_the_topic_that_has_it(where: Namespace, local: str) -> None:
    assume(local not in (".", ".."))
    topic = TopicName(where, local)
    assert of_catalog(canonical(topic)) == topic
    assert is_canonical(canonical(topic))


@given(st.lists(st.tuples(namespaces, locals_), max_size=20))
def test_no_two_topics_have_one_name_in_the_catalog(said: list[tuple[Namespace, str]]) -> None:
    topics = {TopicName(where, local) for where, local in said if local not in (".", "..")}
    assert len({canonical(each) for each in topics}) == len(topics)


@given(namespaces, locals_, namespaces)
def test_a_dotted_name_leads_back_to_the_topic_that_has_it(
    where: Namespace, local: str, home: Namespace
) -> None:
    assume(local not in (".", "..") and where != home)
    topic = TopicName(where, local)
    assert elsewhere(kafka_name(topic, home), home, lambda _: True) == topic


@given(st.text())
def test_any_text_is_a_topic_or_a_naming_error(text: str) -> None:
    with contextlib.suppress(NamingError):
        assert parse(str(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("local", "named"),
    [
        ("orders-partition-3", ("orders", 3)),
        ("a-partition-1-partition-2", ("a-partition-1", 2)),
        ("orders", None),
        ("orders-partition-x", None),
        ("shop/eu/orders-partition-3", ("shop/eu/orders", 3)),
        ("a-partition-1/eu/orders", None),
        ("..-partition-0", None),
        (".-partition-0", None),
    ],
)
def test_which_partition_a_name_is_of(local: str, named: tuple[str, int] | None) -> None:
    assert partition_named(local) == named
