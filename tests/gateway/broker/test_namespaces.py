"""What names of topics mean, and which of them depend on the namespaces there are."""

from __future__ import annotations

import pytest

from gateway.broker import namespaces as module
from gateway.broker.namespaces import NamespaceRow, Namespaces
from semantics.names import DEFAULT, Namespace
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

    def means(self, name: str) -> str:
        return str(self.namespaces.full(name))


@pytest.fixture
def world() -> World:
    return World()


def test_a_name_of_the_catalog_says_its_namespace_whichever_there_are(world: World) -> None:
    for there in (False, True, False):
        assert world.means("shop.eu.orders") == "persistent://public/default/shop.eu.orders"
        assert world.means("shop/eu/orders") == "persistent://shop/eu/orders"
        world.put(NamespaceRow(policies={"pulsar.message.ttl.ms": "1"}) if not there else None)
        said = {"pulsar.message.ttl.ms": "1"} if not there else {}
        assert world.namespaces.policies_of("shop/eu/orders") == said
        assert world.namespaces.policies_of("shop.eu.orders") == {}


def test_a_dotted_name_may_be_of_a_namespace_while_there_is_one(world: World) -> None:
    assert (world.namespaces.several, world.namespaces.elsewhere("shop.eu.orders")) == (False, None)
    world.put(NamespaceRow())
    assert (world.namespaces.several, world.namespaces.elsewhere("shop.eu.orders")) == (
        True,
        "shop/eu/orders",
    )
    assert world.namespaces.elsewhere("shop.us.orders") is None
    assert world.namespaces.elsewhere("public.default.orders", SHOP) == "orders"
    world.put(None)
    assert (world.namespaces.several, world.namespaces.elsewhere("shop.eu.orders")) == (False, None)


def test_public_default_alone_is_not_several(world: World) -> None:
    """It gets a row when somebody sets a policy of it."""
    world.put(NamespaceRow(), DEFAULT)
    assert not world.namespaces.several
    world.put(NamespaceRow())
    assert world.namespaces.several


def test_only_so_many_names_are_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHED", 3)
    for number in range(20):
        assert world.means(f"t{number}") == f"persistent://public/default/t{number}"
        assert len(world.namespaces._full) <= 3
