"""Which topic is whose RETRY or DLQ, by its name and by the topics there are."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.catalog import Topic
from gateway.broker.namespaces import NamespaceRow, Namespaces
from gateway.broker.subscriptions import letter_names
from gateway.config import Settings
from gateway.config.group_configs import GroupConfig, effective
from semantics.group_names import scoped
from semantics.names import Namespace, TopicName
from store import memory
from store.api import Durability


class Named:
    """A catalog of these names."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.store = store = memory.open()
        write = Namespaces.write(Namespace("shop", "eu"), NamespaceRow())
        store.commit([write], Durability.OS, lambda outcome: None)
        self.namespaces = Namespaces(store)

    def get(self, name: str) -> Topic | None:
        return Topic(name, name.encode().ljust(16), [1], 0) if name in self.names else None

    def full(self, name: str) -> TopicName:
        return self.namespaces.full(name)


def config(**named: str) -> GroupConfig:
    settings = Settings.load([], None, {})
    return effective({key.replace("__", "."): value for key, value in named.items()}, settings)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a-g-DLQ", [("a", "g")]),
        ("a-b-g-DLQ", [("a-b", "g"), ("a", "b-g")]),
        ("a-b-DLQ", [("a", "b")]),
        ("x-g-DLQ", []),
        ("a-g-RETRY", []),
        ("a-g", []),
        ("a--DLQ", []),
        ("a-DLQ", []),
        ("-g-DLQ", []),
        ("a--g-DLQ", [("a", "-g")]),
        ("-DLQ", []),
        ("DLQ", []),
    ],
)
def test_what_a_name_may_be_made_of_the_longest_topic_first(name: str, found: list[tuple[str, str]]) -> None:
    assert list(letter_names.bases(Named("a", "a-b"), name, letter_names.DLQ)) == found


def test_where_namespaces_have_listeners_a_name_is_of_a_topic_in_its_own() -> None:
    topics = Named("shop", "shop/eu/a", "shop/eu/a-b")
    assert list(letter_names.bases(topics, "shop/eu/a-b-g-DLQ", letter_names.DLQ)) == [
        ("shop/eu/a-b", "g"),
        ("shop/eu/a", "b-g"),
    ]
    topics.namespaces.homes = frozenset({Namespace("shop", "eu")})
    assert list(letter_names.bases(topics, "shop/eu/a-b-g-DLQ", letter_names.DLQ)) == [
        ("shop/eu/a-b", scoped(Namespace("shop", "eu"), "g")),
        ("shop/eu/a", scoped(Namespace("shop", "eu"), "b-g")),
    ]
    # in a tenant with a dash the topic `my` of public/default is nobody's base
    topics = Named("my", "my-shop/eu/orders")
    name = "my-shop/eu/orders-g-RETRY"
    assert list(letter_names.bases(topics, name, letter_names.RETRY)) == [("my-shop/eu/orders", "g")]
    assert list(letter_names.bases(Named("my"), name, letter_names.RETRY)) == []


def test_a_group_with_slashes_in_its_id_reaches_no_other_namespace() -> None:
    topics = Named("orders", "orders-x/y/z-RETRY")
    assert letter_names.base_of_retries(topics, config(), "x/y/z", "orders-x/y/z-RETRY") is None
    assert "orders-x/y" in (letter_names.strays(topics, "orders", "orders-x/y/z-DLQ") or "")
    assert letter_names.strays(topics, "orders", "orders-g-DLQ") is None


@pytest.mark.parametrize("suffix", ["-RETRY", "-DLQ", "-QUEUE"])
def test_a_name_like_a_subscriptions_topic_of_no_topic_is_refused_in_words(suffix: str) -> None:
    topics = Named("orders")
    # a queue topic is made with its subscription: it does not come because somebody writes to it
    assert (letter_names.missing_base(topics, f"orders-g{suffix}") is None) is (suffix != "-QUEUE")
    why = letter_names.missing_base(topics, f"ordres-g{suffix}")
    assert why is not None
    assert f"'ordres-g{suffix}'" in why
    assert f"<topic>-<subscription>{suffix}" in why


@pytest.mark.parametrize("name", ["orders", "orders-g", "orders-g-retry", "RETRY", "DLQ"])
def test_other_names_come_into_being_as_they_like(name: str) -> None:
    assert letter_names.missing_base(Named(), name) is None


def test_the_topic_that_letters_belong_to() -> None:
    topics = Named("a", "a-b")
    for name, base in [("a-b-g-DLQ", "a-b"), ("a-g-RETRY", "a"), ("a-g-QUEUE", None), ("a-b", None)]:
        found = letter_names.base_of(topics, name)
        assert (found.name if found is not None else None) == base
    assert letter_names.is_dead_letters(topics, "a-g-DLQ")
    assert not letter_names.is_dead_letters(topics, "a-g-RETRY")
    assert not letter_names.is_dead_letters(topics, "x-g-DLQ")


@pytest.mark.parametrize(
    ("group", "name", "base"),
    [
        ("g", "a-g-RETRY", "a"),
        ("b-g", "a-b-g-RETRY", "a"),
        # to this group it is the other topic's
        ("g", "a-b-g-RETRY", "a-b"),
        ("h", "a-g-RETRY", None),
        ("g", "x-g-RETRY", None),
        ("g", "-g-RETRY", None),
        ("g", "a", None),
    ],
)
def test_whose_retries_a_group_reads(group: str, name: str, base: str | None) -> None:
    assert letter_names.base_of_retries(Named("a", "a-b"), config(), group, name) == base


def test_a_retry_topic_with_a_name_of_its_own_takes_the_place_of_pulsars() -> None:
    own = config(pulsar__retry__letter__topic="again")
    assert letter_names.base_of_retries(Named("a"), own, "g", "again") == "again"
    assert letter_names.base_of_retries(Named("a"), own, "g", "a-g-RETRY") is None


@pytest.mark.parametrize(
    ("name", "pulsar"),
    [
        ("orders", "persistent://public/default/orders"),
        ("a.b", "persistent://public/default/a.b"),
        ("shop/eu/orders", "persistent://shop/eu/orders"),
        ("shop.eu.orders", "persistent://public/default/shop.eu.orders"),
    ],
)
def test_the_catalogs_and_pulsars_name_of_a_topic(name: str, pulsar: str) -> None:
    assert letter_names.full_name(Named(), name) == pulsar
    assert letter_names.name_of(pulsar) == name


@pytest.mark.parametrize("full", ["", "persistent://", "persistent://a/b", "http://public/default/t"])
def test_what_is_no_name_of_pulsars(full: str) -> None:
    assert letter_names.name_of(full) is None


def test_names_are_searched_in_a_time_that_does_not_grow_with_the_topics() -> None:
    """A name of n dashes asks n times."""

    class Counting(Named):
        asked = 0

        def get(self, name: str) -> Any:
            self.asked += 1
            return None

    topics = Counting()
    assert list(letter_names.bases(topics, "a" + "-b" * 100 + "-DLQ", "-DLQ")) == []
    assert topics.asked == 100
