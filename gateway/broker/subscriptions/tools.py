"""What all cursors of a node work with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.broker.subscriptions.counted import Counted
    from gateway.broker.subscriptions.letters import Letters
    from gateway.broker.subscriptions.node import Delivering
    from gateway.broker.subscriptions.ports import Watching
    from gateway.broker.subscriptions.scanning import Scanner
    from gateway.broker.subscriptions.timers import Timers, Turns


@dataclass(frozen=True, slots=True)
class Tools:
    """Made once, by the registry. It leads to no subscription, and none leads to another."""

    node: Delivering
    timers: Timers
    turns: Turns
    scanner: Scanner
    letters: Letters
    counted: Counted
    # who watches keys of a subscription, by its id
    watched: dict[int, Watching]
    # how many members of a group subscribe to a topic; raises KafkaError while it is not loaded
    members_on: Callable[[str, str], int]
    # whether members of a group subscribe to more than one topic without partitions
    several_plain: Callable[[str], bool]
    # whether the type of a group's subscription may be changing: nobody becomes a consumer meanwhile
    retyping: Callable[[str], bool]
    # of a subscription and a partition, as the store names them: trustee -> records, by what open transactions say
    entrusted: Callable[[int, int], Iterable[tuple[str, Sequence[tuple[int, int]]]]]
    # records of one of these were moved from outside: what trustees hold no more is of no transaction any more, in the
    # open turn; the last says what of some records a trustee holds
    withdraw: Callable[
        [int, int, Callable[[str, Sequence[tuple[int, int]]], Sequence[tuple[int, int]]]], None
    ]
    # whether the gateway stops: consumers whose connections close then are nobody's crash
    stopping: Callable[[], bool]
