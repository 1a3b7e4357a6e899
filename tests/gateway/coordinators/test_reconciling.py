"""The table of `reconciling`, row by row."""

from __future__ import annotations

import pytest

from gateway.coordinators.consumer_events import Partition
from gateway.coordinators.reconciling import Current, MemberState, reconcile

STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED, MemberState.UNRELEASED
A, B, C = ((b"t" * 16, index) for index in range(3))
_AT_1 = {A: 1, B: 1}


@pytest.mark.parametrize(
    ("current", "target", "owned", "taken", "after"),
    [
        (Current(1, STABLE, _AT_1, {}), {A}, {A, B}, set(), Current(1, UNREVOKED, {A: 1}, {B: 1})),
        (Current(1, STABLE, _AT_1, {}), {A}, None, set(), Current(1, UNREVOKED, {A: 1}, {B: 1})),
        (Current(1, STABLE, _AT_1, {}), {A}, {A}, set(), Current(2, STABLE, {A: 1}, {})),
        (Current(1, STABLE, {A: 1}, {}), {A, B, C}, None, {C}, Current(2, UNRELEASED, {A: 1, B: 2}, {})),
        (Current(1, STABLE, {A: 1}, {}), {A, B}, None, set(), Current(2, STABLE, {A: 1, B: 2}, {})),
        (Current(1, UNREVOKED, {A: 1}, {B: 1}), {A}, None, set(), None),
        (Current(1, UNREVOKED, {A: 1}, {B: 1}), {A}, {B}, set(), None),
        (Current(1, UNREVOKED, {A: 1}, {B: 1}), {A}, {A}, set(), Current(2, STABLE, {A: 1}, {})),
        (Current(1, UNREVOKED, {A: 1}, {B: 1}), {C}, {A}, set(), Current(1, UNREVOKED, {}, {A: 1})),
        (Current(1, UNREVOKED, {A: 1}, {B: 1}), {A, B}, {A}, set(), Current(2, STABLE, {A: 1, B: 2}, {})),
        (Current(2, UNRELEASED, {A: 1}, {}), {A, B}, None, {B}, None),
        (Current(2, UNRELEASED, {A: 1}, {}), {A, B}, None, set(), Current(2, STABLE, {A: 1, B: 2}, {})),
        (Current(2, UNRELEASED, {A: 1}, {}), {B}, {A}, {B}, Current(2, UNREVOKED, {}, {A: 1})),
        (Current(2, STABLE, {A: 1}, {}), {A, B}, {A}, set(), None),
    ],
)
def test_a_row_of_the_table(
    current: Current,
    target: set[Partition],
    owned: set[Partition] | None,
    taken: set[Partition],
    after: Current | None,
) -> None:
    """The targets are of epoch 2."""
    found = reconcile(current, 2, target, owned, lambda place: place not in taken)
    assert found == (current if after is None else after)
    if after is None:
        assert found is current, "nothing to write"
