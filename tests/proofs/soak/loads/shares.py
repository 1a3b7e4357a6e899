"""Share groups: members accept, release, reject, put off, forget and crash; every answer they get is kept.

Two groups. `workers` is Shared on `tasks`, with delays, backoff, retry letters and dead letters; `lanes` is Key_Shared
on `keyed`, in strict order. What becomes of a record is written in its number, so that the dead are known.
"""

from __future__ import annotations

import struct
import threading
import time
from collections import deque
from collections.abc import Iterable

from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.loads.backlog import Backlog
from tests.proofs.soak.oracle import Oracle
from tests.proofs.soak.share_oracle import Delivery, Letter, Rules, ShareOracle, Verdict
from tests.proofs.soak.share_wire import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Acks,
    Given,
    Place,
    ShareWire,
    Stored,
    batch,
)
from tests.proofs.soak.wire import Refused, Wire

LOCK_MS = 1500

_NAME = struct.Struct(">4sIQ")
_KEYS = 23
_EVERY = 40
_POISON, _HATED, _RETRIED = 7, 17, 27
"""Of each 40 records one is always released, one always rejected, one put off by a retry letter."""


class Crash(Exception):
    """A member's connection breaks, by its own will."""


def name_of(value: bytes) -> str:
    """Who a record is; the same on the retry letter topic and as a dead letter."""
    magic, sender, number = _NAME.unpack_from(value)
    assert magic == b"task", value[:40]
    return f"record {number} of sender {sender}"


def number_of(value: bytes) -> int:
    return int(_NAME.unpack_from(value)[2])


def fate_of(value: bytes) -> int | None:
    """What always becomes of this record, or None when its member may choose."""
    return {_POISON: RELEASE, _HATED: REJECT}.get(number_of(value) % _EVERY)


def due_of(timestamp: int, headers: Iterable[tuple[str, bytes]]) -> int:
    """Wall ms before which a record that was sent to a group may not come; 0: at once."""
    after = dict(headers).get("pulsar-deliver-after")
    return timestamp + int(after) if after is not None else 0


class Group:
    """What the members of a group share: its oracle, and what they were told."""

    def __init__(
        self,
        world: World,
        name: str,
        topic: str,
        partitions: int,
        rules: Rules,
        durability: str,
        retries: bool,
    ) -> None:
        self.world = world
        self.name = name
        self.topic = topic
        self.partitions = partitions
        self.rules = rules
        self.durability = durability
        self.topics = [topic, f"{topic}-{name}-RETRY"] if retries else [topic]
        self.dead = f"{topic}-{name}-DLQ"
        self.events: deque[Delivery | Verdict] = deque()
        self.oracle: ShareOracle | None = None
        # dead letters read so far, by partition
        self._read: dict[Place, int] = {}
        # every letter that was read, to be read again at the end
        self.letters: dict[tuple[Place, int], bytes] = {}
        # member -> when it asked for records that it was not answered yet, ns
        self.asking: dict[str, int] = {}
        self.backlog = Backlog()
        self.drained = threading.Event()

    def look(self, wire: ShareWire) -> bool:
        """Whether nothing is left to settle. Raises Refused."""
        left = sum(lag for _, lag in wire.positions(self.name).values())
        if self.backlog.told(left, time.monotonic()):
            self.drained.set()
            return True
        return False

    @property
    def retry(self) -> str | None:
        return self.topics[1] if len(self.topics) > 1 else None

    def prepare(self) -> None:
        with ShareWire(self.world.port) as wire:
            for topic in self.topics:
                settings = {"internal.segment.bytes": "200000"}
                if self.durability:
                    settings["durability"] = self.durability
                wire.create(topic, self.partitions, settings)
            configs: dict[str, object] = {
                "share.auto.offset.reset": "earliest",
                "pulsar.ack.timeout.ms": LOCK_MS,
                "pulsar.max.redeliver.count": self.rules.limit - 1,
                "pulsar.subscription.type": "key_shared" if self.rules.key_shared else "shared",
            }
            if self.rules.backoff is not None:
                names = ("min.ms", "max.ms", "multiplier")
                configs |= {
                    f"pulsar.nack.backoff.{name}": value
                    for name, value in zip(names, self.rules.backoff, strict=True)
                }
            wire.configure(self.name, configs)

    # the check

    def hand_over(self) -> None:
        assert self.oracle is not None
        for _ in range(len(self.events)):
            self.oracle.take(self.events.popleft())

    def check(self, oracle: Oracle) -> None:
        if self.oracle is None:
            self.oracle = ShareOracle(self.name, self.rules, oracle.wrong, oracle.seen)
        with ShareWire(self.world.port) as wire:
            try:
                positions = wire.positions(self.name)
            except Refused as error:
                if error.code == 69 and not self.oracle.shelves:
                    # nobody has joined yet
                    return
                raise
            asked = time.monotonic_ns()
            letters = self._letters(wire, self.oracle)
            read = time.monotonic_ns()
            oldest = min([*self.asking.copy().values(), read])
            # whatever led to what was found has been noted by now
            self.hand_over()
            for letter in letters:
                self.oracle.letter(letter, read)
            for place, (start, _) in positions.items():
                if start >= 0:
                    self.oracle.settled_below(place, start, asked)
            self.oracle.checked(oldest)

    def _letters(self, wire: ShareWire, oracle: ShareOracle) -> list[Letter]:
        """The dead letters that came since."""
        topics, _ = wire.metadata()
        letters = []
        places = [(self.dead, each) for each in range(topics.get(self.dead, 0))]
        if not places and self.letters:
            oracle.wrong((self.dead, 0), 0, "is gone with its topic")
        for place, end in wire.offsets(places, -1).items():
            at = self._read.get(place, 0)
            if end < at:
                oracle.wrong(place, end, f"is its end, and {at} was")
            while at < end:
                found = wire.fetch(place, at)
                assert found, f"{place} ends at {end}, and nothing comes from {at}"
                for each in found:
                    if each.offset < end:
                        letters.append(self._letter(oracle, place, each))
                at = found[-1].offset + 1
            self._read[place] = max(min(at, end), self._read.get(place, 0))
        return letters

    def _letter(self, oracle: ShareOracle, place: Place, stored: Stored) -> Letter:
        self.letters[place, stored.offset] = stored.value
        headers = dict(stored.headers)
        origin = headers["__dlq.errors.topic"].decode(), int(headers["__dlq.errors.partition"])
        if place[1] != origin[1] % self.partitions:
            oracle.wrong(place, stored.offset, f"is a dead letter of partition {origin[1]}")
        return Letter(
            origin,
            int(headers["__dlq.errors.offset"]),
            int(headers["__dlq.errors.delivery.count"]),
            headers["pulsar-dead-letter-reason"].decode(),
            name_of(stored.value),
            int(headers.get("pulsar-reconsume-times", b"0")),
            stored.timestamp * 1_000_000 - time.time_ns() + time.monotonic_ns(),
        )

    def finish(self, oracle: Oracle) -> None:
        """Nothing is open any more; and every dead letter is where it was."""
        self.check(oracle)
        assert self.oracle is not None
        with ShareWire(self.world.port) as wire:
            places = [(topic, each) for topic in self.topics for each in range(self.partitions)]
            self.oracle.finish(wire.offsets(places, -1))
            for place, end in self._read.items():
                at = 0
                while at < end:
                    for each in wire.fetch(place, at):
                        at = each.offset + 1
                        if self.letters.get((place, each.offset), each.value) != each.value:
                            self.oracle.wrong(place, each.offset, "is another dead letter than before")


class Sender(Load):
    """Sends what the group is to work on. Speaks for the group in checks."""

    def __init__(self, world: World, group: Group, number: int) -> None:
        super().__init__(world, f"{group.name}-sender")
        self.group = group
        self.number = number
        self._next = 0
        self._verified = False

    def prepare(self) -> None:
        self.group.prepare()

    def run(self) -> None:
        stop = self.world.stop
        while not stop.is_set():
            try:
                with ShareWire(self.world.port) as wire:
                    while not stop.is_set():
                        self._send(wire)
                        stop.wait(self.chance.random() * 0.15)
            except OSError:
                stop.wait(0.02)

    def _send(self, wire: ShareWire) -> None:
        chance, group = self.chance, self.group
        records = []
        for _ in range(chance.choice((1, 5, 20))):
            number, self._next = self._next, self._next + 1
            headers = []
            if not group.rules.key_shared and chance.random() < 0.15:
                headers.append(("pulsar-deliver-after", b"%d" % chance.choice((30, 300, 1500))))
            now = int(time.time() * 1000)
            value = _NAME.pack(b"task", self.number, number) + bytes(chance.randrange(100))
            records.append((now, b"k%d" % (number % _KEYS), value, headers))
        place = group.topic, chance.randrange(group.partitions)
        if group.rules.key_shared:
            # a key lives in one partition
            records = [each for each in records if int(each[1][1:]) % group.partitions == place[1]]
        if records:
            try:
                wire.produce(place, batch(records, chance.choice((0, 1, 3))))
            except Refused as error:
                self.fail(f"a record was refused: {error}")
            self.moved += 1

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        if self.group.drained.is_set() and self.world.stop.is_set():
            self.group.finish(oracle)
        else:
            self.group.check(oracle)


class Member(Load):
    """A share consumer. It goes on through kills, and at the end until the group has no backlog."""

    def __init__(self, world: World, group: Group, number: int) -> None:
        super().__init__(world, f"{group.name}-{number}")
        self.group = group
        self.member = f"{group.name}-member-{number}-{world.seed % 1_000_000}"
        self._member_epoch = 0
        self._epoch = 0
        self._hand: list[Given] = []
        self._beaten = 0.0
        self._refusals = 0

    def run(self) -> None:
        stop = self.world.stop
        while not self.group.drained.is_set() and not self.world.abandoned:
            if stop.is_set() and (stuck := self.group.backlog.stuck(time.monotonic())):
                self.fail(stuck)
                return
            try:
                with ShareWire(self.world.port) as wire:
                    self._join(wire)
                    self._refusals = 0
                    while not self.group.drained.is_set() and not self.world.abandoned:
                        if stop.is_set() and self._drained(wire):
                            break
                        self._step(wire)
                        if stop.is_set() and self.group.backlog.stuck(time.monotonic()):
                            break
            except Crash:
                pass
            except OSError:
                time.sleep(0.02)
            except Refused as error:
                # 110, 25: fenced; 122, 123: no such session, another epoch; then it begins anew
                self._refusals += 1
                if error.code not in (6, 14, 15, 16, 25, 110, 122, 123) or self._refusals > 200:
                    self.fail(f"was refused: {error}")
                    return
                self._member_epoch = 0
                time.sleep(0.02)
            self._hand.clear()

    # sessions

    def _join(self, wire: ShareWire) -> None:
        group = self.group
        topics = None if self._member_epoch > 0 else group.topics
        self._member_epoch = wire.beat(group.name, self.member, self._member_epoch, topics)
        self._beaten = time.monotonic()
        wire.positions(group.name)
        self._open(wire)

    def _open(self, wire: ShareWire) -> None:
        group = self.group
        self._epoch = 0
        places = [(topic, each) for topic in group.topics for each in range(group.partitions)]
        self._fetch(wire, None, places)

    def _drained(self, wire: ShareWire) -> bool:
        return not self._hand and self.group.look(wire)

    def _step(self, wire: ShareWire) -> None:
        chance = self.chance
        calm = self.world.stop.is_set()
        if time.monotonic() - self._beaten > 2:
            self._member_epoch = wire.beat(self.group.name, self.member, self._member_epoch, None)
            self._beaten = time.monotonic()
        way = 1.0 if calm else chance.random()
        if way < 0.01:
            raise Crash
        if way < 0.02:
            # ends its session and begins another one: what it holds goes back uncounted
            final = self._say(self._verdicts()) if chance.random() < 0.5 else {}
            self._acknowledged(final, wire.acknowledge(self.group.name, self.member, -1, _acks(final)))
            self._hand.clear()
            self._open(wire)
            return
        if way < 0.025:
            wire.beat(self.group.name, self.member, -1, None)
            self._member_epoch = 0
            self._hand.clear()
            wire.close()
            raise Crash
        if self._hand and way < 0.05:
            acks = _acks({(each.place, each.offset): (each, RENEW, 0, 0) for each in self._hand})
            wire.acknowledge(self.group.name, self.member, self._next_epoch(), acks, renew=True)
        verdicts = self._verdicts()
        self._letters(wire, verdicts)
        said = self._say(verdicts)
        if said and way < 0.5:
            self._acknowledged(
                said, wire.acknowledge(self.group.name, self.member, self._next_epoch(), _acks(said))
            )
            said = {}
        self._fetch(wire, said)
        time.sleep(chance.random() * 0.02)

    def _next_epoch(self) -> int:
        epoch, self._epoch = self._epoch, self._epoch + 1
        return epoch

    def _fetch(self, wire: ShareWire, said: Said | None, places: Iterable[Place] = ()) -> None:
        chance = self.chance
        asked = self.group.asking[self.member] = time.monotonic_ns()
        try:
            given, errors = wire.fetch_shared(
                self.group.name,
                self.member,
                self._next_epoch(),
                list(places),
                _acks(said or {}),
                max_wait=chance.choice((0, 20, 100)),
                max_records=chance.choice((1, 10, 100)),
                strict=chance.random() < 0.5,
            )
            self._note(given, asked)
        finally:
            del self.group.asking[self.member]
        self._hand += given
        if said:
            self._acknowledged(said, errors)

    def _note(self, given: list[Given], asked: int) -> None:
        got, now = time.monotonic_ns(), int(time.time() * 1000)
        for each in given:
            self.group.events.append(
                Delivery(
                    each.place,
                    each.offset,
                    each.count,
                    name_of(each.value),
                    each.key,
                    self._due(each),
                    asked,
                    got,
                    now,
                )
            )

    def _due(self, given: Given) -> int:
        if given.place[0] == self.group.retry:
            return given.timestamp + int(dict(given.headers)["DELAY_TIME"])
        return due_of(given.timestamp, given.headers)

    # verdicts

    def _verdicts(self) -> dict[tuple[Place, int], tuple[Given, int]]:
        """What becomes of what is in hand. A part is kept for later, some is forgotten until its lock runs out."""
        chance = self.chance
        calm = self.world.stop.is_set()
        found = {}
        kept = []
        for each in self._hand:
            fate, dice = fate_of(each.value), chance.random()
            if not calm and dice < 0.02:
                continue
            if not calm and dice < 0.1:
                kept.append(each)
                continue
            if fate is None:
                fate = RELEASE if not calm and dice > 0.85 else ACCEPT
            found[each.place, each.offset] = each, fate
        self._hand = kept
        return found

    def _letters(self, wire: ShareWire, verdicts: dict[tuple[Place, int], tuple[Given, int]]) -> None:
        """Some are put off by a retry letter; then they are accepted."""
        retry = self.group.retry
        if retry is None or self.world.stop.is_set():
            return
        for given, kind in verdicts.values():
            if kind == ACCEPT and number_of(given.value) % _EVERY == _RETRIED:
                headers = [*given.headers, ("DELAY_TIME", b"%d" % self.chance.choice((0, 50, 400)))]
                now = int(time.time() * 1000)
                wire.produce((retry, given.place[1]), batch([(now, given.key, given.value, headers)]))

    def _say(self, verdicts: dict[tuple[Place, int], tuple[Given, int]]) -> Said:
        """They are about to be sent."""
        at, now = time.monotonic_ns(), int(time.time() * 1000)
        for given, kind in verdicts.values():
            self.group.events.append(Verdict(given.place, given.offset, given.count, kind, at, now))
        return {key: (given, kind, at, now) for key, (given, kind) in verdicts.items()}

    def _acknowledged(self, said: Said, errors: dict[Place, int]) -> None:
        at = time.monotonic_ns()
        for given, kind, sent, now in said.values():
            if errors[given.place] == 0:
                self.group.events.append(Verdict(given.place, given.offset, given.count, kind, sent, now, at))
                self.moved += 1


Said = dict[tuple[Place, int], tuple[Given, int, int, int]]
"""By place and offset: what was given, the verdict, and when it was sent: monotonic ns, wall ms."""


def _acks(said: Said) -> Acks:
    """In ranges; neighbours join, with one type each."""
    found: Acks = {}
    for (place, offset), (_, kind, _, _) in sorted(said.items()):
        ranges = found.setdefault(place, [])
        if ranges and ranges[-1][1] + 1 == offset:
            first, _, types = ranges[-1]
            ranges[-1] = first, offset, types + bytes([kind])
        else:
            ranges.append((offset, offset, bytes([kind])))
    return {
        place: [(first, last, types[:1] if len(set(types)) == 1 else types) for first, last, types in ranges]
        for place, ranges in found.items()
    }


def loads(world: World) -> list[Load]:
    workers = Group(world, "workers", "tasks", 2, Rules(4, (40, 400, 2.0)), "", retries=True)
    lanes = Group(world, "lanes", "keyed", 2, Rules(4, key_shared=True), "fsync", retries=False)
    found: list[Load] = []
    for number, group in enumerate((workers, lanes)):
        found.append(Sender(world, group, number))
        found += [Member(world, group, each) for each in range(3)]
    return found
