"""Names of topics as members of the classic protocol write them, in bytes that only they and their leader read.

|  | members at home in public/default | in shop/eu | the catalog |
|---|---|---|---|
| a topic of their home | `orders` | `orders` | `orders`, `shop/eu/orders` |
| one of another namespace | `shop.eu.orders` | `a.b.orders` | `shop/eu/orders`, `a/b/orders` |
"""

from __future__ import annotations

from collections.abc import Callable


class Wording:
    """Of one group."""

    __slots__ = ("_prefix", "_said")

    def __init__(self, prefix: str = "", said: Callable[[str], str] | None = None) -> None:
        """`prefix`: how names of its home begin in the catalog. `said` looks up what a name means that has dots; None:
        no name is of another namespace.
        """
        self._prefix = prefix
        self._said = said

    def inward(self, name: str) -> str:
        """The catalog's name of what members call so."""
        if self._said is not None and "." in name:
            return self._said(name)
        return self._prefix + name

    def outward(self, name: str) -> str:
        """What members call a topic of the catalog."""
        return name.removeprefix(self._prefix).replace("/", ".")


HOME = Wording()
"""Of groups at home in public/default, while there is no other namespace."""
