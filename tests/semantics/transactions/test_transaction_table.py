"""The table at the top of `transaction.py`, executed line by line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from semantics.transactions import transaction
from semantics.transactions.events import (
    NOBODY,
    Abort,
    AddOffsets,
    AddPartitions,
    Admitted,
    End,
    EndTxn,
    Fence,
    Init,
    NeedId,
    Plain,
    ProducerAnswer,
    Tick,
)
from semantics.transactions.rows import Last
from semantics.transactions.states import LAST_EPOCH, Partition, Producer, State
from tests.semantics.transactions.driving import (
    EXPIRATION,
    FRESH,
    GROUP,
    ID,
    ORDERS,
    OTHER,
    TIMEOUT,
    Driven,
    same,
)
from tests.semantics.transactions.given import (
    GIVEN,
    Give,
    ongoing,
)


def bumped(driven: Driven) -> bool:
    head = driven.machine.head
    return (
        head is not None
        and head.last is not None
        and head.last.committed is not None
        and head.last.producer != head.producer
    )


COMPLETE = (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
WHERE: dict[str, Callable[[Driven], bool]] = {
    "any": lambda driven: True,
    "not Dead": lambda driven: driven.machine.state is not State.DEAD,
    "Dead": lambda driven: driven.machine.state is State.DEAD,
    "Empty": lambda driven: driven.machine.state is State.EMPTY,
    "Ongoing": lambda driven: driven.machine.state is State.ONGOING,
    "Complete*": lambda driven: driven.machine.state in COMPLETE,
    "bumped": lambda driven: driven.machine.state in COMPLETE and bumped(driven),
    "not bumped": lambda driven: driven.machine.state in COMPLETE and not bumped(driven),
}

# -- events by what the table calls them; each yields what is tried and answered ---------------------------------------

Told = ProducerAnswer | Plain | NeedId | Admitted | None
Try = Callable[[Driven], Told]


def ask(event: Any) -> Try:
    return lambda driven: driven.step(event)


def producer_of(driven: Driven) -> Producer:
    return driven.producer if driven.machine.head is not None else Producer(ID, 0)


def last_of(driven: Driven) -> Last | None:
    return driven.machine.head.last if driven.machine.head is not None else None


def admit(producer: Producer, partition: Partition, implicit: bool) -> Try:
    def tried(driven: Driven) -> Told:
        driven.wall += 1
        given = driven.machine.admit(*producer, *partition, implicit=implicit, wall=driven.wall)
        driven.disk.take(list(given.rows))
        return given

    return tried


def admit_offsets(producer: Producer, group: str, implicit: bool) -> Try:
    def tried(driven: Driven) -> Told:
        driven.wall += 1
        given = driven.machine.admit_offsets(*producer, group, implicit=implicit, wall=driven.wall)
        driven.disk.take(list(given.rows))
        return given

    return tried


def init(producer: Producer | None, timeout: int = TIMEOUT) -> Try:
    return ask(Init("t", timeout, producer, FRESH))


def init_last(driven: Driven) -> Iterator[Try]:
    last = last_of(driven)
    if last is not None and last.producer != driven.producer:
        yield init(last.producer)


def init_else(driven: Driven) -> Iterator[Try]:
    producer, last = driven.producer, last_of(driven)
    before = Producer(producer.id, producer.epoch - 1)
    for claimed in (before, Producer(ID + 1, producer.epoch), Producer(producer.id, producer.epoch + 1)):
        if last is None or claimed != last.producer:
            yield init(claimed)


def adds(driven: Driven) -> Iterator[Try]:
    producer = producer_of(driven)
    yield ask(AddPartitions("t", producer, [OTHER]))
    yield ask(AddPartitions("t", producer, [OTHER, ORDERS, OTHER]))
    yield ask(AddOffsets("t", producer, "group-b"))


def may_add(driven: Driven) -> Iterator[Try]:
    yield admit(producer_of(driven), OTHER, True)
    yield admit_offsets(producer_of(driven), "group-b", True)


def not_added(driven: Driven) -> Iterator[Try]:
    yield admit(producer_of(driven), OTHER, False)
    yield admit_offsets(producer_of(driven), "group-b", False)


def was_added(driven: Driven) -> Iterator[Try]:
    for implicit in (False, True):
        for partition in driven.machine.partitions:
            yield admit(driven.producer, partition, implicit)
        for group in driven.machine.groups:
            yield admit_offsets(driven.producer, group, implicit)


def end(committed: bool, bumps: bool) -> Callable[[Driven], Iterator[Try]]:
    def tries(driven: Driven) -> Iterator[Try]:
        yield ask(EndTxn("t", producer_of(driven), committed, bumps, FRESH))

    return tries


def end_last(bumps: bool, other: bool) -> Callable[[Driven], Iterator[Try]]:
    def tries(driven: Driven) -> Iterator[Try]:
        last = last_of(driven)
        assert last is not None
        assert last.committed is not None
        yield ask(EndTxn("t", last.producer, last.committed is not other, bumps, FRESH))

    return tries


def end_of_producer(driven: Driven) -> Iterator[Try]:
    yield from end(True, False)(driven)
    yield from end(False, False)(driven)


def all_but_init(producer: Producer) -> Iterator[Try]:
    yield ask(AddPartitions("t", producer, [OTHER]))
    yield ask(AddPartitions("t", producer, [ORDERS]))
    yield ask(AddOffsets("t", producer, GROUP))
    yield ask(Abort("t", producer, FRESH))
    for flag in (False, True):
        yield admit(producer, ORDERS, flag)
        yield admit_offsets(producer, GROUP, flag)
        for committed in (False, True):
            yield ask(EndTxn("t", producer, committed, flag, FRESH))


def other_epoch(driven: Driven) -> Iterator[Try]:
    producer, last = driven.producer, last_of(driven)
    for epoch in (producer.epoch - 1, producer.epoch + 1, producer.epoch + 2):
        if last is None or last.committed is None or last.producer.epoch != epoch:
            yield from all_but_init(Producer(producer.id, epoch))


def other_id(driven: Driven) -> Iterator[Try]:
    yield from all_but_init(Producer(ID + 1, driven.producer.epoch))


def tick(wait: int) -> Callable[[Driven], Iterator[Try]]:
    def tries(driven: Driven) -> Iterator[Try]:
        def late(driven: Driven) -> Told:
            head = driven.machine.head
            begun = driven.wall
            if head is not None:
                begun = head.start if head.state is State.ONGOING else head.updated
            driven.wall = begun + wait - 1  # a step is a ms
            return driven.step(Tick(FRESH))

        yield late

    return tries


def before_due(driven: Driven) -> Iterator[Try]:
    yield from tick((TIMEOUT if driven.machine.state is State.ONGOING else EXPIRATION) - 1)(driven)


def one(make: Callable[[Driven], Any]) -> Callable[[Driven], Iterator[Try]]:
    def tries(driven: Driven) -> Iterator[Try]:
        yield make(driven)

    return tries


EVENTS: dict[str, Callable[[Driven], Iterator[Try]]] = {
    "Init, its timeout out of bounds": lambda driven: iter(
        [init(producer_of(driven), 900_001), init(None, 0), init(None, -1)]
    ),
    "Init, whoever it says that it is": lambda driven: iter([init(None), init(Producer(ID, 3))]),
    "any other request": lambda driven: all_but_init(Producer(ID, 0)),
    "Init of nobody": one(lambda driven: init(None)),
    "Init of the producer": one(lambda driven: init(driven.producer)),
    "Init of the last one, if it is not the producer": init_last,
    "Init of anybody else": init_else,
    "AddPartitions, AddOffsets": adds,
    "Produce, TxnOffsetCommit that may add": may_add,
    "Produce, TxnOffsetCommit of what was not added": not_added,
    "Produce, TxnOffsetCommit of what was added": was_added,
    "EndTxn, commit": end(True, False),
    "EndTxn, abort": end(False, False),
    "EndTxn 5, commit": end(True, True),
    "EndTxn 5, abort": end(False, True),
    "EndTxn as the last end": end_last(False, False),
    "EndTxn 5 as the last end": end_last(True, False),
    "EndTxn of the last one, other verdict": end_last(False, True),
    "EndTxn 5 of the last one, other verdict": end_last(True, True),
    "EndTxn of the producer": end_of_producer,
    "any but Init, Fence, Tick; another epoch": other_epoch,
    "any but Init, Fence, Tick; another id": other_id,
    "Tick, start + timeout is over": tick(TIMEOUT),
    "Fence": one(lambda driven: ask(Fence("t", FRESH))),
    "Abort": one(lambda driven: ask(Abort("t", driven.producer, FRESH))),
    "Tick, idle for the time of expiration": tick(EXPIRATION),
    "Tick, before that": before_due,
}

THEN = {state.shown: state for state in State}


def table() -> list[list[str]]:
    """The lines of the docstring: state, event, then, producer, answer, end."""
    found = re.findall(r"^\|(.*)\|$", transaction.__doc__ or "", re.MULTILINE)
    lines = [[cell.strip() for cell in line.split("|")] for line in found]
    assert lines[0] == ["state", "event", "then", "producer", "answer", "end"]
    return lines[2:]


LINES = table()


def cases() -> Iterator[Any]:
    """Every line, in every state that it names, with every event that it means, at a low epoch and at the highest."""
    for line in LINES:
        for name in line[0].split(", "):
            for state, ways in GIVEN.items():
                for way, give in enumerate(ways):
                    if not WHERE[name](give()):
                        continue
                    for highest in (False, True):
                        for number, _ in enumerate(EVENTS[line[1]](at(give, highest))):
                            yield pytest.param(
                                line,
                                give,
                                number,
                                highest,
                                id=f"{state.shown}{way}-{line[1]}-{number}{'-highest' * highest}",
                            )


def at(give: Give, highest: bool) -> Driven:
    driven = give()
    if highest and driven.machine.head is not None:
        driven.to_epoch(LAST_EPOCH)
    return driven


def test_every_event_has_a_line_and_every_line_a_case() -> None:
    assert {line[1] for line in LINES} == set(EVENTS)
    tried = {id(case.values[0]) for case in cases()}
    assert [line for line in LINES if id(line) not in tried] == []


def test_the_states_are_those_of_their_names() -> None:
    for state, ways in GIVEN.items():
        assert {give().machine.state for give in ways} == {state}


@pytest.mark.parametrize(("line", "give", "number", "highest"), list(cases()))
def test_a_line_of_the_table(line: list[str], give: Give, number: int, highest: bool) -> None:
    _, event, then, producer, answer, ending = line
    driven = at(give, highest)
    before, parts = driven.machine.head, (set(driven.machine.partitions), set(driven.machine.groups))
    disk = dict(driven.disk)
    told = list(EVENTS[event](driven))[number](driven)
    head = driven.machine.head

    state = THEN.get(then)
    if then == "same":
        state = before.state if before is not None else State.DEAD
    assert driven.machine.state is state

    # who the producer is
    expected: Producer | None = None
    if producer == "new":
        expected = Producer(FRESH, 0)
    elif producer == "same":
        expected = before.producer if before is not None else None
    elif producer == "+ 1":
        assert before is not None
        expected = Producer(FRESH, 0) if highest else Producer(ID, before.producer.epoch + 1)
    assert (head.producer if head is not None else None) == expected

    # what is said
    if not answer:
        assert told is None
    else:
        assert isinstance(told, ProducerAnswer | Plain | Admitted)
        assert told.error == int(answer)
        if isinstance(told, ProducerAnswer):
            assert told.producer == (expected if answer == "0" else NOBODY)

    # what ends
    if not ending:
        assert driven.ends == []
    else:
        assert before is not None
        (found,) = driven.ends
        assert isinstance(found, End)
        assert found.producer_id == ID
        assert found.epoch == before.producer.epoch + (producer == "+ 1")
        assert found.committed is (ending == "committed")
        assert (set(found.partitions), set(found.groups)) == parts

    if producer == "same" and then == "same":
        assert dict(driven.disk) == disk, "nothing is written"
    same(driven.disk.load(), driven.machine)


@pytest.mark.parametrize("give", [way for ways in GIVEN.values() for way in ways])
@pytest.mark.parametrize(
    "event",
    [
        Init("t", TIMEOUT, None),
        Init("t", TIMEOUT, Producer(ID, LAST_EPOCH)),
        EndTxn("t", Producer(ID, LAST_EPOCH), True, True),
        EndTxn("t", Producer(ID, LAST_EPOCH), False, True),
        Abort("t", Producer(ID, LAST_EPOCH)),
        Fence("t"),
        Tick(),
    ],
    ids=["init", "init-again", "commit", "abort", "tool", "fence", "tick"],
)
def test_an_event_that_needs_an_id_changes_nothing_without_one(give: Give, event: Any) -> None:
    without, fed = at(give, True), at(give, True)
    for driven in (without, fed):
        if isinstance(event, Tick):
            driven.wall += TIMEOUT if driven.machine.state is State.ONGOING else 0
    before, disk = without.machine.head, dict(without.disk)
    told = without.step(event)
    fed.step(event._replace(new_id=FRESH))
    used = fed.machine.head is not None and fed.machine.head.producer.id == FRESH
    assert isinstance(told, NeedId) is used
    if used:
        assert told == NeedId(None if isinstance(event, Tick) else "t")
        assert without.machine.head == before
        assert dict(without.disk) == disk
        assert without.ends == []


def test_a_low_epoch_never_needs_an_id() -> None:
    driven = ongoing()
    assert driven.step(EndTxn("t", driven.producer, True, True)) == ProducerAnswer(0, Producer(ID, 2))
    assert driven.step(Init("t", TIMEOUT)) == ProducerAnswer(0, Producer(ID, 3))
