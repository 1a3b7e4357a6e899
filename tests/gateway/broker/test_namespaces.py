"""What names of topics mean depends on the namespaces there are, also when it was asked before."""

from __future__ import annotations

import pytest

from gateway.broker import namespaces as module
from gateway.broker.namespaces import NamespaceRow, Namespaces
from semantics.names import Namespace
from store import memory
from store.api import Durability

SHOP = Namespace("shop", "eu")


class World:
    def __init__(self) -> None:
        self.store = memory.open()
        self.namespaces = Namespaces(self.store)

    def put(self, row: NamespaceRow | None, namespace: Namespace = SHOP) -> None:
        """A change of a namespace is stored, and shows."""
        self.store.commit([Namespaces.write(namespace, row)], Durability.OS, lambda outcome: None)
        self.namespaces.changed(namespace)

    def means(self, name: str = "shop.eu.orders") -> str:
        return str(self.namespaces.full(name))


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("asked", [False, True])
def test_a_dotted_name_is_the_namespaces_while_there_is_one(world: World, asked: bool) -> None:
    if asked:
        assert world.means() == "persistent://public/default/shop.eu.orders"
    world.put(NamespaceRow())
    assert world.means() == "persistent://shop/eu/orders"
    # it says something else, and is still there
    world.put(NamespaceRow(policies={"pulsar.message.ttl.ms": "1"}))
    assert world.means() == "persistent://shop/eu/orders"
    assert world.namespaces.policies_of("shop.eu.orders") == {"pulsar.message.ttl.ms": "1"}
    world.put(None)
    assert world.means() == "persistent://public/default/shop.eu.orders"
    assert world.namespaces.policies_of("shop.eu.orders") == {}


def test_another_namespace_that_comes_changes_nothing_else(world: World) -> None:
    world.put(NamespaceRow())
    assert world.means("shop.us.orders") == "persistent://public/default/shop.us.orders"
    world.put(NamespaceRow(), Namespace("shop", "us"))
    assert world.means("shop.us.orders") == "persistent://shop/us/orders"
    assert world.means() == "persistent://shop/eu/orders"


def test_only_so_many_names_are_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHED", 3)
    for number in range(20):
        assert world.means(f"t{number}") == f"persistent://public/default/t{number}"
        assert len(world.namespaces._full) <= 3
