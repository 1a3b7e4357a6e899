"""Who makes room where many keep things in one place: each owner's own bound, and one for all.

Above the bound of all the owner with most makes room, so nobody loses anything to one that keeps more.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Container, Hashable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def crowded(
    kept: Sequence[tuple[T, Hashable, int]], most_of_one: int, most: int, stays: Container[T] = ()
) -> list[T]:
    """Which of these go: `kept` has (what, its owner, how much it is), the oldest first. So many go, the oldest of an
    owner first, that no owner has more than `most_of_one`, and all have no more than `most`. What `stays` does not go;
    it counts.
    """
    sums: dict[Hashable, int] = defaultdict(int)
    can_go: dict[Hashable, deque[tuple[T, int]]] = {}
    for what, owner, size in kept:
        sums[owner] += size
        if what not in stays:
            can_go.setdefault(owner, deque()).append((what, size))
    total = sum(sums.values())
    gone: list[T] = []

    def drop(owner: Hashable) -> None:
        nonlocal total
        what, size = can_go[owner].popleft()
        sums[owner] -= size
        total -= size
        gone.append(what)
        if not can_go[owner]:
            del can_go[owner]

    for owner in list(can_go):
        while owner in can_go and sums[owner] > most_of_one:
            drop(owner)
    while total > most and can_go:
        # of several with as much, the one whose oldest came first
        drop(max(can_go, key=sums.__getitem__))
    return gone
