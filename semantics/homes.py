"""Which namespaces are homes: those whose subscriptions are of the groups of clients at home there.

Where nobody asks for rights, clients are told apart by their listeners, and those namespaces are homes that have one of
their own. Where rights are asked for, a client's user says where it is at home: so each namespace is one, whichever
there are.
"""

from __future__ import annotations

from semantics.names import Namespace


class Everywhere:
    """All namespaces, those too that are made later. There is one of it: `EVERYWHERE`."""

    def __contains__(self, namespace: Namespace) -> bool:
        return True

    def __repr__(self) -> str:
        return "EVERYWHERE"


EVERYWHERE = Everywhere()

Homes = frozenset[Namespace] | Everywhere
"""Namespaces that are homes. Nothing but `in`, and whether there are any, is asked of them."""


def written(homes: Homes) -> bytes:
    """As text, the same for the same homes."""
    return b"*" if isinstance(homes, Everywhere) else ",".join(sorted(map(str, homes))).encode()
