"""Share groups that come and go with their topics: subscriptions made and deleted, dead letter topics made."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.share_oracle import Delivery, Letter, Rules, ShareOracle, Verdict
from tests.proofs.soak.share_wire import ACCEPT, REJECT, RELEASE, Acks, Place, Sendable, ShareWire, batch
from tests.proofs.soak.wire import Refused

RECORDS = 5
GONE = (3, 69)
"""UNKNOWN_TOPIC_OR_PARTITION, GROUP_ID_NOT_FOUND: what is to be deleted is not there."""


@dataclass
class Brief:
    """One group on one topic, from its making to its end."""

    topic: str
    group: str
    oracle: ShareOracle
    # dead letters read so far
    read: dict[int, int] = field(default_factory=dict)

    @property
    def dead(self) -> str:
        return f"{self.topic}-{self.group}-DLQ"

    @property
    def place(self) -> Place:
        return self.topic, 0


class ShareComings(Load):
    """Nobody else knows of what it makes, so it checks for itself."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.seen: Counter[str] = Counter()
        self._brief: Brief | None = None
        self._count = 0

    def run(self) -> None:
        stop = self.world.stop
        while not stop.is_set():
            try:
                with ShareWire(self.world.port) as wire:
                    while not stop.is_set():
                        self._round(wire)
                        stop.wait(self.chance.random() * 0.1)
            except OSError:
                stop.wait(0.02)
            except Refused as error:
                # fenced, or on its way: it begins anew
                self.seen["refused"] += 1
                if error.code not in (14, 15, 16, 25, 110, 122, 123) or self.seen["refused"] > 200:
                    self.fail(f"was refused: {error}")
                    return
                stop.wait(0.02)

    def _round(self, wire: ShareWire) -> None:
        brief = self._brief
        if brief is None:
            number = self._count % 3
            brief = Brief(
                f"brief-{number}", f"few-{number}", ShareOracle(f"few-{number}", Rules(4), self.fail)
            )
            self._clean(wire, brief)
            wire.create(brief.topic, 1 + number, {})
            wire.configure(
                brief.group, {"share.auto.offset.reset": "earliest", "pulsar.max.redeliver.count": 3}
            )
            records: list[Sendable] = [
                (int(time.time() * 1000), None, b"%d" % each, []) for each in range(RECORDS)
            ]
            wire.produce(brief.place, batch(records))
            self._brief = brief
        if not self._work(wire, brief):
            return
        self._letters(wire, brief)
        start, _ = wire.positions(brief.group)[brief.place]
        brief.oracle.settled_below(brief.place, start, time.monotonic_ns())
        # nobody else asks
        brief.oracle.checked(time.monotonic_ns())
        brief.oracle.finish({brief.place: RECORDS})
        # a check is over when everything of it is
        self._brief = None
        self._clean(wire, brief)
        try:
            left = wire.positions(brief.group)
        except Refused:
            left = {}
        if left:
            self.fail(f"the group {brief.group} was deleted, and is at {left}")
        self._count += 1
        self.moved += 1

    def _clean(self, wire: ShareWire, brief: Brief) -> None:
        for request in (
            lambda: wire.beat(brief.group, self.name, -1, None),
            lambda: wire.delete_group(brief.group),
            lambda: wire.delete(brief.topic),
            lambda: wire.delete(brief.dead),
        ):
            try:
                request()
            except Refused as error:
                if error.code not in (*GONE, 25):
                    raise

    def _work(self, wire: ShareWire, brief: Brief) -> bool:
        """Until the group has no backlog; False when the run is over before."""
        wire.beat(brief.group, self.name, 0, [brief.topic])
        wire.positions(brief.group)
        epoch = 0
        acks: Acks = {}
        said: list[Verdict] = []
        while not self.world.stop.is_set():
            asked = time.monotonic_ns()
            given, errors = wire.fetch_shared(
                brief.group, self.name, epoch, [brief.place], acks, max_wait=20, max_records=2, strict=True
            )
            got, now = time.monotonic_ns(), int(time.time() * 1000)
            epoch += 1
            for each in said:
                if errors[brief.place] == 0:
                    brief.oracle.take(each._replace(answered_ns=got))
            said, acks = [], {}
            for record in given:
                name = record.value.decode()
                brief.oracle.take(
                    Delivery(brief.place, record.offset, record.count, name, None, 0, asked, got, now)
                )
                kind = ACCEPT
                if record.offset == 1:
                    kind = REJECT
                elif record.offset == 3 and record.count < 3:
                    kind = RELEASE
                verdict = Verdict(brief.place, record.offset, record.count, kind, got, now)
                said.append(verdict)
                brief.oracle.take(verdict)
                acks.setdefault(brief.place, []).append((record.offset, record.offset, bytes([kind])))
            if not given and wire.positions(brief.group)[brief.place][1] == 0:
                wire.fetch_shared(brief.group, self.name, -1, max_wait=0, max_records=0)
                return True
        return False

    def _letters(self, wire: ShareWire, brief: Brief) -> None:
        topics, _ = wire.metadata()
        places = [(brief.dead, each) for each in range(topics.get(brief.dead, 0))]
        for place, end in wire.offsets(places, -1).items():
            at = brief.read.get(place[1], 0)
            while at < end:
                for each in wire.fetch(place, at):
                    headers = dict(each.headers)
                    brief.oracle.letter(
                        Letter(
                            brief.place,
                            int(headers["__dlq.errors.offset"]),
                            int(headers["__dlq.errors.delivery.count"]),
                            headers["pulsar-dead-letter-reason"].decode(),
                            each.value.decode(),
                        ),
                        time.monotonic_ns(),
                    )
                    at = each.offset + 1
                brief.read[place[1]] = at


def loads(world: World) -> list[Load]:
    return [ShareComings(world, "share-comings")]
