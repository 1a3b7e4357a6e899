"""The answer to "why does it not arrive?": what is known of one message of a Shared or Key_Shared subscription."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gateway.admin.exchange import RefusedError, iso
from gateway.admin.settled import find_letter, find_retry
from gateway.admin.slices import turn
from gateway.broker.loading import until_loaded
from gateway.broker.message_ids import id_at
from gateway.broker.subscriptions import rows
from semantics.command_line import word
from semantics.console.letter_states import NAMES
from semantics.names import dotted
from semantics.subscriptions.rows import due_runs

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from semantics.subscriptions.states import RecordState

Stats = dict[str, Any]

WAITING = ("DELAYED", "BACKOFF")
DUE_ROWS = 2_000
"""Rows that are looked at before the loop may do something else."""

NO_TIMEOUT_MS = 2**31 - 1
"""What a group's configs make of pulsar.ack.timeout.ms=0"""


async def explained(at: SubscriptionPartition, offset: int) -> Stats:
    """Everything that is known of one record, and a sentence that says why it does not arrive.

    Raises RefusedError (404) for one that is not there any more, unless it is a dead letter.
    """
    due = None
    known = at.ready().look(offset)
    if known.state in WAITING and known.due is None:
        # only the nearest due times are in memory
        due = await stored_due(at, offset)
    found = at.ready().look(offset)
    if found.due is None and found.state in WAITING:
        found = found._replace(due=due)
    answer = known_of(at, found)
    if found.state == "DONE" or offset < at.partition.log_start:
        await _settled(at, answer)
    else:
        answer["explanation"] = _sentence(at, answer)
    return answer


def why(at: SubscriptionPartition, found: RecordState, due: int | None = None) -> Stats:
    """The same of an open record, from what memory knows: `due` is used where the cursor has forgotten it."""
    if found.due is None and found.state in WAITING:
        found = found._replace(due=due)
    answer = known_of(at, found)
    answer["explanation"] = _sentence(at, answer, "a time that topics explain finds")
    return answer


def known_of(at: SubscriptionPartition, found: RecordState) -> Stats:
    """What is known of one record, without a sentence."""
    if found.state == "BLOCKED" and found.slot is None and not at.consumers:
        # its slot is read when somebody comes: it is for that, and not for its key, that it waits
        found = found._replace(state="AVAILABLE", reason=None)
    offset = found.offset
    partition = at.partition
    clock = at.node.clock
    now, wall = clock.monotonic_ms(), clock.wall_ms()
    timed = at.subscription.config.subscription.lock_ms < NO_TIMEOUT_MS
    deadline = wall + (found.deadline - now) if found.deadline is not None and timed else None
    answer: Stats = {"offset": offset, "state": found.state, "failedDeliveries": found.count}
    if partition.log_start <= offset < partition.high_watermark:
        answer["messageId"] = str(id_at(partition, offset))
    for key, value in (
        ("consumer", found.consumer),
        ("lockedUntil", iso(deadline) if deadline is not None else None),
        ("due", iso(found.due) if found.due is not None else None),
        ("slot", found.slot),
        ("owner", found.owner),
        ("reason", found.reason),
    ):
        if value is not None:
            answer[key] = value
    until = at.subscription.reserved.get(found.owner) if found.owner is not None else None
    if until is not None:
        answer["ownerAwaitedUntil"] = iso(wall + until - now)
    return answer


async def _settled(at: SubscriptionPartition, answer: Stats) -> None:
    """What became of a record that is settled, or not there any more. Raises RefusedError."""
    offset = answer["offset"]
    # how often it failed is forgotten with the record; its letter knows
    del answer["failedDeliveries"]
    message_id = answer.get("messageId", "")
    search = await find_letter(at, offset, message_id)
    letter = search.found
    if letter is not None:
        answer["deadLetter"] = {
            "topic": letter.topic,
            "partition": letter.partition,
            "offset": letter.offset,
            "reason": letter.reason,
            "deliveries": letter.deliveries,
        }
        what = (
            "Its batch cannot be opened and is a dead letter as a whole"
            if letter.batch
            else "It is a dead letter"
        )
        answer["explanation"] = (
            f"{what} ({letter.reason}): offset {letter.offset} of {letter.topic}, partition {letter.partition}."
        )
        return
    log_start = at.partition.log_start
    if offset < log_start:
        raise RefusedError(
            404,
            f"Record {offset} is not there any more, and is no dead letter in {search.topic}: the log begins at offset"
            f" {log_start}. Retention or DeleteRecords removed what lies before it.",
        )
    again = await find_retry(at, offset, message_id)
    if again is not None and again.found is not None:
        retry = again.found
        answer["retryLetter"] = {"topic": retry.topic, "partition": retry.partition, "offset": retry.offset}
        answer["explanation"] = (
            f"It went to the retry letter topic: offset {retry.offset} of {retry.topic}, partition"
            f" {retry.partition}. What became of it since: magnetar-admin topics explain"
            f" {retry.topic}-partition-{retry.partition} -s {word(at.subscription.group)} --offset {retry.offset}."
        )
        return
    beyond = "" if search.whole else ", as far as its latest 64 MiB tell"
    answer["explanation"] = (
        "It is settled: acknowledged, sent to the retry letter topic by its consumer, skipped, expired,"
        f"{' of a transaction that was aborted,' if at.read_committed else ''} or before the subscription's start."
        f" It is no dead letter in {search.topic}{beyond}."
    )


async def since_dead(broker: Broker, answer: Stats) -> Stats:
    """The same, with what became of the dead letter since, where it is one: it was replayed, discarded, or is open."""
    letter = answer.get("deadLetter")
    topic = broker.catalog.get(broker.catalog.said(letter["topic"])) if letter is not None else None
    if letter is None or topic is None or letter["partition"] >= len(topic.partitions):
        return answer
    at = await until_loaded(partial(broker.in_use.partition, topic, letter["partition"]))
    cursor = await until_loaded(partial(broker.redrive.cursors.of, at))
    state = NAMES[cursor.states.of(letter["offset"])]
    letter["state"] = state
    if state in _SINCE:
        answer["explanation"] += f" {_SINCE[state]}"
    return answer


_SINCE = {
    "replayed": "It was replayed since: topics trace follows it.",
    "edited": "It was replayed since, with an edit: topics trace follows it.",
    "discarded": "It was discarded since.",
}
"""By the state of a letter."""


async def stored_due(at: SubscriptionPartition, offset: int) -> int | None:
    """When a record is due, by the rows: all of the cursor's are looked through, a page at a time."""
    key = b""
    while True:
        page = rows.due(at.node.store, at.prefix, key, DUE_ROWS)
        for row in page:
            assert row.value is not None
            for due, run in due_runs(row.key, row.value):
                if run >> 10 <= offset <= (run >> 10) + (run & 1023):
                    return due
        if len(page) < DUE_ROWS:
            return None
        key = page[-1].key + b"\0"
        await turn()


def behind_transaction(at: SubscriptionPartition, offset: int) -> bool:
    """Whether a record is held back from this subscription until a transaction ends."""
    return at.read_committed and at.partition.last_stable_offset <= offset < at.partition.high_watermark


def _of_active(at: SubscriptionPartition) -> str:
    """Failover: whom a record that can be delivered waits for."""
    active = at.active.consumer(at.partition.topic.topic)
    assert active is not None, "somebody is attached"
    if at.active.others_hold(active, at.ready()):
        return f"It is for {active}, the active consumer, when those before it have nothing more in hand."
    return f"It is for {active}, the active consumer, when that asks: the others stand by."


def _sentence(
    at: SubscriptionPartition, known: Stats, some_time: str = "a time that is being written"
) -> str:
    state = known["state"]
    times = known["failedDeliveries"]
    failed = f" It failed {times} time{'s' if times > 1 else ''} so far." if times else ""
    # some are sentences of their own
    reason = f" ({known['reason'].rstrip('.')})" if "reason" in known else ""
    config = at.subscription.config.subscription
    if state == "ACQUIRED":
        until = "for as long as it is connected: the group has no ack timeout"
        if "lockedUntil" in known:
            until = f"until {known['lockedUntil']} at the latest"
        elif config.lock_ms < NO_TIMEOUT_MS:
            until = "in an answer that waits to be sent: its lock begins then"
        return f"{known.get('consumer')} has it, {until}.{failed}"
    if state == "BACKOFF" and reason:
        return (
            f"It is to be a dead letter, which is tried again at {known.get('due')}{reason}. To which topic they go is"
            f" the group's pulsar.dead.letter.topic.{failed}"
        )
    if state in WAITING:
        why = (
            "Its producer asked for a delay" if state == "DELAYED" else "It was nacked or timed out and waits"
        )
        return f"{why}: it is due at {known.get('due', some_time)}{reason}.{failed}"
    if state == "BLOCKED":
        if "slot" in known and "owner" not in known:
            return f"It waits for a consumer that takes keys of slot {known['slot']}{reason}.{failed}"
        whose = f": slot {known['slot']}, owned by {known['owner']}" if "slot" in known else ""
        return f"It waits for its key{reason}{whose}.{failed}"
    if state.startswith("DYING"):
        topic = at.subscription.config.dead_letters_of(
            at.subscription.group, at.subscription.base or at.subscription.topic
        )
        return f"It is on its way to the dead letter topic {dotted(topic)}{reason}.{failed}"
    if "ownerAwaitedUntil" in known:
        return (
            f"It waits for {known['owner']}, which owned slot {known['slot']} before the gateway was started again and"
            f" is not back. Others get the slot at {known['ownerAwaitedUntil']}, or when that member leaves its"
            f" group.{failed}"
        )
    if not at.consumers:
        others = len(at.subscription.consumers)
        if others:
            whose = "the consumer that is" if others == 1 else f"none of the {others} consumers that are"
            asks = "has not asked" if others == 1 else "has asked"
            return (
                f"It can be delivered, but {whose} connected {asks} for messages of partition {at.index} yet: it is"
                f" delivered to who polls next.{failed}"
            )
        return f"It can be delivered, but no consumer is connected.{failed}"
    cursor = at.ready()
    if cursor.acquired >= config.max_locks:
        return (
            f"It can be delivered, but {config.max_locks} records are unacknowledged, which is the most"
            " (share.partition.max.record.locks, or the policy max-unacked-messages-per-subscription)."
            f"{failed}"
        )
    if state == "UNREAD" and behind_transaction(at, max(cursor.known, 0)):
        return (
            f"It waits for a transaction that is open, which has records from offset {at.partition.last_stable_offset}"
            " on: the group is given only what is committed (share.isolation.level). magnetar-admin transactions list"
            " says whose it is, and when it is aborted at the latest."
        )
    if state == "UNREAD" and at.key_shared and cursor.window_full:
        deep = max(cursor.deep(), key=lambda one: one.waiting)
        return (
            f"It comes behind the records that were looked at so far, those before offset {cursor.read}, and no more"
            f" are read at present: {cursor.available} records wait for the consumers of their keys, over the most"
            f" that a partition keeps in mind. Of slot {deep.slot}, owned by {deep.owner}, alone {deep.waiting} wait."
        )
    if state == "UNREAD" and at.key_shared and cursor.waiting_ahead >= config.lookahead:
        return (
            f"It comes behind the records that were looked at so far, those before offset {cursor.read}, and no more"
            f" are read at present: {cursor.waiting_ahead} records wait for the consumers of their keys, and"
            f" pulsar.key.shared.look.ahead is {config.lookahead}."
        )
    if state == "UNREAD":
        return (
            f"It comes behind the records that were looked at so far, those before offset {cursor.read}: what its"
            " headers say of a delay is not known yet. Consumers that ask for more come to it."
        )
    if at.subscription.config.failover:
        return f"{_of_active(at)}{failed}"
    if at.pacing.shut:
        return f"It can be delivered, and waits for its turn within the dispatch rate.{failed}"
    if reason:
        return f"It can be delivered in its turn{reason}: {known['owner']} gets it.{failed}"
    return f"It can be delivered: the next consumer that asks, and whose turn it is, gets it.{failed}"
