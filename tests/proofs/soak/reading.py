"""One look at a gateway after a start: what clients were told is held against what is there now."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.oracle import Oracle, Place
from tests.proofs.soak.wire import Wire

PATIENCE = 60.0


def check(world: World, loads: list[Load], oracle: Oracle, *, restarted: bool) -> None:
    """The loads go on meanwhile. Raises OSError when the gateway dies under it: then look again."""
    places = world.places()
    for load in loads:
        load.tell(oracle)
    with Wire(world.port, PATIENCE) as wire:
        starts = wire.offsets(places, -2)
        ends = wire.offsets(places, -1)
        _, epoch = wire.metadata()
        for load in loads:
            load.asked(oracle)
        for place in places:
            if place not in starts or place not in ends:
                oracle.wrong(f"{place[0]}-{place[1]} is not there any more")
            else:
                oracle.ends(place, starts[place], ends[place])
        oracle.epoch(epoch, restarted=restarted)
        for load in loads:
            load.verify(oracle, wire)
    earlier = {place: oracle.log(place).read_to for place in places}
    read(world, oracle, earlier, ends)
    for load in loads:
        # what is delivered is held against what was read: the sooner the less is kept
        load.tell(oracle)
    for place in places:
        # an acknowledgement may come late, a whole check later
        wanted = [earlier[place], *(each for load in loads if (each := load.trimmable(place)) is not None)]
        world.may_trim[place] = min(wanted)


def read(world: World, oracle: Oracle, begins: dict[Place, int], ends: dict[Place, int]) -> None:
    """Every record from `begins` to below `ends` goes to the oracle."""
    left = {place: end for place, end in ends.items() if begins[place] < end}
    if not left:
        return
    consumer = Consumer(
        {
            "bootstrap.servers": world.bootstrap,
            "group.id": "oracle",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 5,
            "check.crcs": True,
            "log_level": 0,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
        }
    )
    try:
        consumer.assign([TopicPartition(*place, begins[place]) for place in left])
        last = time.monotonic()
        while left:
            messages = consumer.consume(5000, 0.02)
            if messages:
                last = time.monotonic()
            elif time.monotonic() - last > PATIENCE:
                oracle.wrong(f"nothing came from {left} for {PATIENCE:.0f} s")
                return
            for message in messages:
                _take(oracle, message, left)
    finally:
        consumer.close()


def _take(oracle: Oracle, message: Message, left: dict[Place, int]) -> None:
    error = message.error()
    if error is not None:
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            oracle.wrong(f"a reader was sent away: {error}")
            left.clear()
        return
    place = message.topic() or "", message.partition() or 0
    offset = message.offset() or 0
    end = left.get(place)
    if end is None or offset >= end:
        # more came than there was when we asked: the next check's
        return
    headers = [(name, value or b"") for name, value in message.headers() or []]
    epoch = message.leader_epoch()
    oracle.stored(
        place,
        offset,
        -1 if epoch is None else epoch,
        message.key(),
        message.value(),
        headers,
        message.timestamp()[1],
    )
    if offset + 1 == end:
        del left[place]
