"""Names of topics in the bytes of classic members, and in the catalog."""

from __future__ import annotations

import pytest

from gateway.coordinators.wording import HOME, Wording


@pytest.mark.parametrize(
    ("wording", "said", "kept"),
    [
        (HOME, "orders", "orders"),
        (HOME, "shop.eu.orders", "shop.eu.orders"),
        (Wording("shop/eu/"), "orders", "shop/eu/orders"),
        (Wording("shop/eu/"), "shop.us.x", "shop/eu/shop.us.x"),
        (Wording("", {"shop.eu.orders": "shop/eu/orders"}.__getitem__), "shop.eu.orders", "shop/eu/orders"),
        (Wording("", str.upper), "orders", "orders"),
    ],
)
def test_what_is_said_comes_back(wording: Wording, said: str, kept: str) -> None:
    assert wording.inward(said) == kept
    assert wording.outward(kept) == said
