"""A classic group becomes a consumer group, and a consumer group a classic one, while members are there (KIP-848).

The first member with group.protocol=consumer makes a consumer group of a classic one, in which the others go on as
members of the classic protocol (`mixed_group`). When only such are left, it becomes a classic group again. Nothing
here changes a group: a row of the one type becomes rows of the other, and a group is loaded from these.

What a member of a classic group has is not known for sure: in the middle of a rebalance some have given up all, others
keep what they had. So it counts as having what it was assigned last and what it said last that it still has. That it
has less it says when it joins again, as every member must: the newcomer makes a new epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gateway.coordinators import consumer_metadata, consumer_rows, group_rows, subscription
from gateway.coordinators.consumer_events import Partition, TopicView
from gateway.coordinators.consumer_rows import ConsumerMemberRow, ConsumerRow
from gateway.coordinators.consumer_state import FIRST_EPOCH
from gateway.coordinators.group_rows import ClassicRow, Kind, MemberRow, State
from gateway.coordinators.mixed_group import MixedGroup
from gateway.coordinators.reconciling import MemberState
from gateway.coordinators.wording import Wording
from store.api import Write


class CannotConvert(ValueError):
    """Why a group stays of the type that it is. The text is for a person."""


def names_in(row: ClassicRow, wording: Wording) -> frozenset[str]:
    """The topics that members of a classic group subscribe to or have partitions of. Raises CannotConvert."""
    _check_consumers(row)
    found: set[str] = set()
    for member in row.members:
        found.update(_said(row, member).topics, (name for name, _ in _has(row, member)))
    return frozenset(map(wording.inward, found))


def upgraded(
    row: ClassicRow, topics: Mapping[str, TopicView], wording: Wording, max_size: int
) -> tuple[ConsumerRow, list[ConsumerMemberRow]]:
    """The rows of the consumer group that a classic group becomes. `topics`: those of `names_in` that there are. Raises
    CannotConvert.
    """
    _check_consumers(row)
    if len(row.members) > max_size:
        raise CannotConvert(f"it has more than group.consumer.max.size={max_size} members")
    epoch = max(row.generation, FIRST_EPOCH)
    owners: dict[Partition, str] = {}
    members: list[ConsumerMemberRow] = []
    subscribed: set[str] = set()
    for number, member in enumerate(row.members, -len(row.members)):
        said = _said(row, member)
        names = sorted(map(wording.inward, said.topics))
        subscribed.update(names)
        places = [
            (view.topic_id, index)
            for name, index in _has(row, member)
            if (view := topics.get(wording.inward(name))) is not None and index < view.partitions
        ]
        if any(owners.setdefault(place, member.member_id) != member.member_id for place in places):
            raise CannotConvert("its assignor gives partitions to several members")
        members.append(
            ConsumerMemberRow(
                consumer_rows.VERSION,
                member.member_id,
                member.instance_id,
                said.rack,
                member.client_id,
                member.client_host,
                member.rebalance_timeout,
                names,
                "",
                None,
                epoch,
                epoch,
                MemberState.STABLE,
                consumer_rows.folded(dict.fromkeys(places, epoch)),
                [],
                consumer_rows.by_topic(places),
                member.session_timeout,
                list(member.protocols),
                # before all that join from now on
                number,
            )
        )
    return (
        ConsumerRow(
            group_rows.VERSION,
            Kind.CONSUMER,
            State.STABLE if members else State.EMPTY,
            row.since,
            subscription.CONSUMER,
            epoch,
            epoch,
            None,
            [(name, *topics[name]) for name in sorted(subscribed & topics.keys())],
            len(members),
        ),
        members,
    )


def _check_consumers(row: ClassicRow) -> None:
    if row.protocol_type != subscription.CONSUMER:
        raise CannotConvert("its members are no consumers")


def _said(row: ClassicRow, member: MemberRow) -> consumer_metadata.Said:
    """What a member says of itself by the protocol of its group."""
    spoken = dict(member.protocols)
    metadata = spoken.get(row.protocol_name or "", member.protocols[0][1] if member.protocols else b"")
    said = consumer_metadata.read(metadata)
    if said is None:
        raise CannotConvert(f"what member {member.member_id} subscribes to cannot be read")
    return said


def _has(row: ClassicRow, member: MemberRow) -> frozenset[tuple[str, int]]:
    """What a member may have, by topic and index."""
    assigned = subscription.assignment(member.assignment)
    return _said(row, member).owned.union((name, index) for name, its in assigned.items() for index in its)


def writes(group_id: str, group: ConsumerRow, members: Iterable[ConsumerMemberRow]) -> list[Write]:
    """What is stored when a group has become a consumer group."""
    of_members = (group_rows.put_member(group_id, member.member_id, member) for member in members)
    return [group_rows.put(group_id, group), *of_members]


def writes_back(group: MixedGroup, row: ClassicRow) -> list[Write]:
    """What is stored when it has become a classic group again."""
    of_members = (group_rows.delete_member(group.group_id, member_id) for member_id in group.members)
    return [*of_members, group_rows.put(group.group_id, row)]


def may_downgrade(group: MixedGroup) -> bool:
    """Whether only members of the classic protocol are left, all of one epoch: it is their generation from then on.
    Those that are behind are on their way to it, and would be fenced.
    """
    members = group.members.values()
    return (
        bool(members)
        and all(member.classic is not None for member in members)
        and len({member.epoch for member in members}) == 1
    )


def downgraded(group: MixedGroup) -> ClassicRow:
    """The row of the classic group that a consumer group becomes, which `may_downgrade`. It begins with a rebalance:
    one of the members has to lead it. Each is said to have all that it may still have.
    """
    members: list[MemberRow] = []
    names = {view.topic_id: group.wording.outward(name) for name, view in group.topics.items()}
    spoken = [
        dict(member.classic.protocols) for member in group.members.values() if member.classic is not None
    ]
    generation = 0
    for member in sorted(group.members.values(), key=lambda each: each.joined):
        assert member.classic is not None
        generation = member.epoch
        said = consumer_metadata.read(member.classic.protocols[0][1])
        places = consumer_rows.by_topic((*member.current.assigned, *member.current.revoking))
        members.append(
            MemberRow(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.classic.session_timeout,
                member.rebalance_timeout,
                list(member.classic.protocols),
                consumer_metadata.assignment(
                    said.version if said is not None else 0,
                    [(names[topic], indexes) for topic, indexes in places if topic in names],
                ),
            )
        )
    return ClassicRow(
        group_rows.VERSION,
        Kind.CLASSIC,
        State.PREPARING_REBALANCE,
        group.since,
        subscription.CONSUMER,
        generation,
        next((name for name in spoken[0] if all(name in its for its in spoken)), None),
        None,
        members,
    )
