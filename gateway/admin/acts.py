"""What administrators do to single messages of a subscription: deliver now, settle, dead-letter, take back.

A dry run chooses the messages and says what would be done to which, with a plan; the act that names the plan chooses
anew, and is refused where that has changed (`semantics/console/plans.py`). An act is done in slices, each in a turn of
its own; a message is done or not, and a gateway that is killed amid an act has done the first of them. Each slice has
a record of its own in the topic of the audit, by the same commit: what is told there is what was done.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from gateway.admin import audit, windows
from gateway.admin.chosen import FILTERS, Look, Sought, sought
from gateway.admin.exchange import RefusedError, iso, json, previewed
from gateway.admin.places import offset_of
from gateway.admin.planned import planned
from gateway.admin.slices import Pace
from gateway.admin.windows import Place
from gateway.broker.loading import until_loaded
from gateway.broker.message_ids import id_at
from gateway.broker.subscriptions import ahead, positions
from semantics.console.plans import HOLDS_MS, Selection, slices
from semantics.message_id import MessageId, MessageIdError
from semantics.names import dotted
from semantics.subscriptions.chosen import OF, Act
from semantics.subscriptions.states import ACQUIRED, DONE, NAMES, UNREAD
from store.api import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.admin.context import Context
    from gateway.admin.exchange import Call, Reply
    from gateway.admin.places import Named
    from gateway.admin.planned import Planned
    from gateway.broker.broker import Broker
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from semantics.subscriptions.cursor import Cursor

MOST = 20_000
"""Messages of one act; who has more acts again."""
MOST_READ = 200_000
"""Messages that a filter by key or text reads for it."""
MOST_NAMED = 10_000
AHEAD = 20_000
"""Offsets of a partition that are looked at beyond what consumers have come to."""
SLICE = 500
"""Messages that are done in one turn."""
SHOWN = 5

_STATES = {
    Act.DELIVER_NOW: frozenset({"delayed", "backoff"}),
    Act.SETTLE: frozenset({"available", "blocked", "acquired", "delayed", "backoff"}),
    Act.DEAD_LETTER: frozenset({"available", "blocked", "acquired", "delayed", "backoff"}),
    Act.TAKE_BACK: frozenset({"acquired"}),
}
"""Act -> the states of what it is for, as a filter says them."""

_SAYS = {
    Act.DELIVER_NOW: "would be delivered now, and not wait for their time",
    Act.SETTLE: "would be acknowledged, and delivered to nobody any more",
    Act.DEAD_LETTER: "would go to the dead letter topic {letters}",
    Act.TAKE_BACK: "would be taken from their consumers, and delivered to whoever is next: what those say of them after"
    " that is refused, as after an ack timeout. It counts as no delivery",
}


class Asked(NamedTuple):
    """What a body asks for."""

    do: Act
    messages: tuple[str, ...] | None
    filter_: Sought | None
    # of both, so that an act and its plan can be compared
    said: bytes


class Chosen(NamedTuple):
    """What an act is on."""

    selection: Selection
    states: Counter[str]
    left_out: Counter[str]
    # with a filter: how many were looked at, of how many, and whether that were all
    looked: int
    of: int
    whole: bool


async def act(context: Context, call: Call) -> Reply:
    """Do it: `{"do": "deliver-now" | "settle" | "dead-letter" | "take-back", "messages": [ids] | "filter": {…},
    "dryRun": true, "plan": id}`. (Magnetar's own.)
    """
    broker = context.broker
    body = call.json()
    asked = _asked(body)
    dry = body.get("dryRun", False)
    plan_id = body.get("plan", "")
    if not isinstance(dry, bool) or not isinstance(plan_id, str):
        raise RefusedError(400, "dryRun is true or false, and plan is the id that a dry run has given.")
    if asked.filter_ is not None and not dry and not plan_id:
        raise RefusedError(
            400, "What a filter chooses is looked at first: send it with dryRun, then with the plan of that."
        )
    if call.query.get("partition") == "":
        raise RefusedError(400, "partition is empty: leave it out if the act is on all of them.")
    at = await windows.shared(broker, call)
    _check(broker, at, asked.do)
    pace = Pace()
    ats = await windows.partitions(broker, at, call, pace)
    # others of these names, made anew, are other things
    things = at.found.topic.topic_id, frozenset(each.subscription.id for each in ats)
    what = (call.path, things, asked.said)
    if dry:
        chosen = await _choose(broker, ats, asked, pace)
        plan_id = context.looks.keep(broker, call, what, chosen.selection)
        return previewed(
            _shown(broker, at, ats, asked.do, chosen)
            | {
                "plan": plan_id,
                "planHoldsUntil": iso(broker.clock.wall_ms() + HOLDS_MS),
            }
        )
    with planned(context.looks, broker, call, plan_id, what) as its:
        chosen = await _choose(broker, ats, asked, pace)
        selection = await its.follow(pace, chosen.selection)
        did = await _do(broker, call, ats, asked.do, selection, pace, its)
    return json({"do": asked.do, "messages": did, "leftOut": dict(chosen.left_out)})


def _asked(body: Any) -> Asked:
    """Refuses with 400 what makes no sense."""
    if not isinstance(body, dict):
        raise RefusedError(400, 'The body says what to do: {"do": "settle", "messages": ["17:3:0:5"]}.')
    try:
        do = Act(str(body.get("do")))
    except ValueError:
        raise RefusedError(400, f"do is one of {', '.join(Act)}.") from None
    messages, filter_ = body.get("messages"), body.get("filter")
    if (messages is None) == (filter_ is None):
        raise RefusedError(400, "Either messages, a list of ids, or a filter says which messages.")
    said = msgspec.json.encode([do, messages, filter_], order="deterministic")
    if filter_ is not None:
        if not isinstance(filter_, dict) or set(filter_) - {*FILTERS}:
            raise RefusedError(400, f"A filter has some of {', '.join(FILTERS)}, or is {{}} for all.")
        return Asked(do, None, _of_act(do, sought(filter_)), said)
    if (
        not isinstance(messages, list)
        or not messages
        or len(messages) > MOST_NAMED
        or not all(isinstance(each, str) for each in messages)
    ):
        raise RefusedError(400, f"messages is a list of up to {MOST_NAMED} ids, each as text.")
    return Asked(do, tuple(messages), None, said)


def _of_act(do: Act, filter_: Sought) -> Sought:
    """A filter, for those states only that the act is for."""
    wanted = filter_.wanted
    states = _STATES[do] if wanted.states is None else wanted.states & _STATES[do]
    if not states:
        said = ", ".join(sorted(wanted.states or ()))
        raise RefusedError(
            400, f"{do} is for messages that are {', '.join(sorted(_STATES[do]))}; not {said}."
        )
    return filter_._replace(wanted=wanted._replace(states=states))


def _check(broker: Broker, at: Named, do: Act) -> None:
    """Refuse with 412 what cannot be done to this subscription."""
    subscription = broker.subscriptions.by_id(at.name, at.found.topic.topic_id)
    if (
        do is Act.DEAD_LETTER
        and subscription is not None
        and not subscription.config.subscription.dead_letters
    ):
        raise RefusedError(
            412,
            f"{at.name} has no dead letter topic: its dead letters are off, and what dies is dropped. Settle the"
            " messages if that is what you want.",
        )
    if do is Act.TAKE_BACK and (queue := broker.queues.serving(at.found.topic, at.name)) is not None:
        raise RefusedError(
            412,
            f"{at.name} is served by the lanes of {dotted(queue.name)}: a consumer has what its lane holds, in"
            " order, and single messages cannot be taken from it. When it leaves, others get its lane.",
        )


async def _choose(broker: Broker, ats: Sequence[SubscriptionPartition], asked: Asked, pace: Pace) -> Chosen:
    """What of it is there now. Raises KafkaError."""
    left_out: Counter[str] = Counter()
    if asked.messages is not None:
        named = await _named(broker, ats, asked.messages, pace, left_out)
        offsets = {index: sorted(set(each)) for index, each in named.items()}
        looked, whole = len(asked.messages), True
    else:
        assert asked.filter_ is not None, "it is one of the two"
        if asked.do is not Act.TAKE_BACK:
            for at in ats:
                await _read_on(at, at.ready().known + AHEAD, pace)
        look = Look(broker, asked.filter_, pace, most=MOST, most_read=MOST_READ)
        found = await look.go(ats, Place(0, 0))
        # in the order of offsets: they go one by one, since thousands that go at once hold the loop
        offsets, hits = {}, found.hits
        hits.reverse()
        while hits:
            hit = hits.pop()
            offsets.setdefault(hit.at.index, []).append(hit.offset)
            if not len(hits) & 255:
                await pace.rest()
        looked = found.looked
        # beyond what was looked at there may be more
        unread = sum(max(each.partition.high_watermark - each.ready().known, 0) for each in ats)
        whole = found.next is None and (not unread or asked.do is Act.TAKE_BACK)
    selection, states = Selection(), Counter[str]()
    total = 0
    for at in ats:
        cursor = at.ready()
        total += cursor.backlog(at.partition.high_watermark)
        for offset in offsets.get(at.index, ()):
            state, holder = _state_of(cursor, offset)
            if state not in OF[asked.do]:
                left_out[_why_not(state)] += 1
            elif state == ACQUIRED and holder not in at.consumers:
                left_out["inTransaction"] += 1
            else:
                states[NAMES[state].lower()] += 1
                selection.add(at.index, offset, offset)
            await pace.rest()
    return Chosen(selection, states, left_out, looked, total, whole)


def _state_of(cursor: Cursor, offset: int) -> tuple[int, str | None]:
    """The code of a record's state, and who has it in hand."""
    piece = next(iter(cursor.planes(offset, offset + 1)), None)
    if piece is None:
        return (UNREAD if offset >= cursor.known else DONE), None
    state = piece.states[0]
    return state, (cursor.holder_at(offset) if state == ACQUIRED else None)


def _why_not(state: int) -> str:
    """The name under which it is told what was left out."""
    return {UNREAD: "unread", DONE: "settled"}.get(state, NAMES.get(state, "").lower())


async def _named(
    broker: Broker,
    ats: Sequence[SubscriptionPartition],
    messages: Sequence[str],
    pace: Pace,
    left_out: Counter[str],
) -> dict[int, list[int]]:
    """By partition, the offsets that ids name. What consumers have not come to is looked at, if it is near."""
    by_index = {at.index: at for at in ats}
    offsets: dict[int, list[int]] = {}
    for said in messages:
        try:
            wanted = MessageId.parse(said)
        except MessageIdError as error:
            raise RefusedError(400, str(error)) from None
        at = by_index.get(max(wanted.partition, 0))
        if at is None or wanted.ledger < 0:
            raise RefusedError(400, f"{said[:60]} is of no partition that this is about.")
        try:
            offset = offset_of(at.partition, wanted)
        except RefusedError:
            left_out["gone"] += 1
        else:
            offsets.setdefault(at.index, []).append(offset)
        await pace.rest()
    for index, some in offsets.items():
        await _read_on(by_index[index], max(some) + 1, pace)
    return offsets


async def _read_on(at: SubscriptionPartition, end: int, pace: Pace) -> None:
    """Have the cursor look at what comes next, as far as that is near."""
    end = min(end, at.ready().known + AHEAD)
    while await ahead.read_on(at, end):
        await pace.rest()


def _shown(
    broker: Broker, at: Named, ats: Sequence[SubscriptionPartition], do: Act, chosen: Chosen
) -> dict[str, Any]:
    """What a dry run answers."""
    subscription = ats[0].subscription if ats else None
    letters = ""
    if subscription is not None:
        letters = dotted(
            subscription.config.dead_letters_of(subscription.group, subscription.base or subscription.topic)
        )
    number = len(chosen.selection)
    answer: dict[str, Any] = {
        "do": do,
        "messages": number,
        "byState": dict(chosen.states),
        "byPartition": {
            str(each.index): sum(last - first + 1 for first, last in chosen.selection.runs(each.index))
            for each in ats
            if chosen.selection.runs(each.index)
        },
        "leftOut": dict(chosen.left_out),
        "looked": chosen.looked,
        "of": chosen.of,
        "explanation": f"{number} {'message' if number == 1 else 'messages'} of {at.name} on {at.found.name}"
        f" {_SAYS[do].format(letters=letters)}.",
    }
    if not chosen.whole:
        answer["atLeast"] = True
        answer["explanation"] += (
            " There may be more: an act is on what was looked at, and may be repeated for the rest."
        )
    answer["first"] = _first_ids(ats, chosen.selection)
    return answer


def _first_ids(ats: Sequence[SubscriptionPartition], selection: Selection) -> list[str]:
    """Some of them, for people to look at."""
    found: list[str] = []
    for at in ats:
        for first, last in selection.runs(at.index):
            for offset in range(first, min(last + 1, first + SHOWN - len(found))):
                try:
                    found.append(str(id_at(at.partition, offset)))
                except (LookupError, StoreError):
                    continue
            if len(found) == SHOWN:
                return found
    return found


async def _do(
    broker: Broker,
    call: Call,
    ats: Sequence[SubscriptionPartition],
    do: Act,
    selection: Selection,
    pace: Pace,
    its: Planned,
) -> int:
    """In slices: how many messages it was done to. Raises KafkaError, StoreError."""
    number = 0
    await broker.audit_log.ready()
    for at in ats:
        for some in slices(selection.runs(at.index), SLICE):
            number += await until_loaded(partial(_one_slice, broker, call, at, do, some, its))
            await broker.write([])
            its.stored()
            await pace.rest()
    return number


def _one_slice(
    broker: Broker,
    call: Call,
    at: SubscriptionPartition,
    do: Act,
    runs: Sequence[tuple[int, int]],
    its: Planned,
) -> int:
    """Into the open turn, with its record. Nothing is done when it raises: KafkaError; Loading."""
    broker.audit_log.check()
    did = 0

    def do_it(cursor: Cursor, _: int) -> None:
        nonlocal did
        its.begins()
        did = cursor.act(do, runs, at.consumers)

    positions.move([(at, 0)], do_it)
    if did:
        audit.tell(broker, call, do, {"messages": did, "partition": at.index}, its.plan_id)
    return did
