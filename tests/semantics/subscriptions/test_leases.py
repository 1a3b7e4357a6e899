from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semantics.subscriptions import leases
from semantics.subscriptions.leases import Consumer, Lease, Leases, pack, unpack


def opened(kept: Leases, consumer: Consumer, deadline: int) -> Lease:
    lease = kept.open(consumer, deadline)
    lease.remaining += 1
    return lease


@given(st.integers(0, 2**54 - 1), st.integers(1, 1024))
def test_a_run_is_one_number(first: int, length: int) -> None:
    assert pack(first, length) < 2**64
    assert unpack(pack(first, length)) == (first, length)


def test_leases_run_out_in_the_order_of_their_deadlines() -> None:
    kept, consumer = Leases(), Consumer("a", 0)
    late, early, latest = (opened(kept, consumer, deadline) for deadline in (200, 100, 300))
    assert kept.next_deadline() == 100
    assert list(kept.expired(99)) == []
    assert list(kept.expired(200)) == [early, late]
    for lease in (early, late):
        kept.close(lease)
    assert kept.next_deadline() == 300
    kept.settle(latest, 1)
    assert kept.next_deadline() is None
    assert consumer.leases == {}


def test_what_is_given_in_one_millisecond_is_one_lease() -> None:
    kept, ann, bob = Leases(), Consumer("a", 0), Consumer("b", 0)
    first = opened(kept, ann, 100)
    assert opened(kept, ann, 100) is first
    assert opened(kept, bob, 100) is not first
    assert opened(kept, ann, 101) is not first
    kept.settle(first, 2)
    assert kept.open(ann, 100) is not first


def test_settled_leases_leave_nothing_behind() -> None:
    kept, consumer = Leases(), Consumer("a", 0)
    stuck = opened(kept, consumer, 0)
    for deadline in range(1, 10_000):
        kept.settle(opened(kept, consumer, deadline), 1)
    assert list(kept.by_id.values()) == [stuck]
    assert len(kept._heap) < 100


def test_what_is_withheld_does_not_run_out_however_many_come_and_go_meanwhile() -> None:
    kept, consumer = Leases(), Consumer("a", 0)
    held_back = opened(kept, consumer, 0)
    kept.withhold(held_back)
    for deadline in range(1, 1_000):
        kept.settle(opened(kept, consumer, deadline), 1)
    assert kept.next_deadline() is None
    assert list(kept.expired(10_000)) == []
    kept.shorten(held_back, 20_000)
    assert kept.next_deadline() == 20_000
    assert list(kept.expired(20_000)) == [held_back]


def test_ids_come_round_and_pass_over_those_in_use() -> None:
    kept, consumer = Leases(), Consumer("a", 0)
    first = opened(kept, consumer, 1)
    kept._last_id = leases._IDS - 1
    ids = [opened(kept, consumer, deadline).id for deadline in (2, 3)]
    assert first.id == 1
    assert ids == [leases._IDS, 2]


def test_an_id_used_again_does_not_run_out_with_its_former_lease() -> None:
    kept, consumer = Leases(), Consumer("a", 0)
    former = opened(kept, consumer, 100)
    kept.settle(former, 1)
    kept._last_id = former.id - 1
    lease = opened(kept, consumer, 200)
    assert lease.id == former.id
    assert list(kept.expired(150)) == []
    assert kept.next_deadline() == 200
    assert list(kept.expired(200)) == [lease]
