"""Pages show lines of `magnetar-admin`."""

from __future__ import annotations

from gateway.console.lines import topic_word


def test_a_topic_is_called_as_one_types_it() -> None:
    assert topic_word("persistent", "public", "default", "orders") == "orders"
    assert topic_word("persistent", "shop", "eu", "orders") == "persistent://shop/eu/orders"
    assert topic_word("non-persistent", "public", "default", "x") == "non-persistent://public/default/x"
