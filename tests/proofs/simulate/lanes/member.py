"""A consumer of a queue topic as client libraries are: it joins, fetches ahead, works in order, commits, and goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from gateway.apis.offset_commit import offset_commit
from gateway.apis.offset_fetch import offset_fetch
from gateway.apis.registry import Context
from gateway.broker.errors import KafkaError
from gateway.broker.machines import Caller
from gateway.coordinators.classic_events import Heartbeat, Join, Leave, Leaver, Sync
from gateway.peer import Peer
from gateway.wire import delivery as wire
from gateway.wire import messages, records
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.proofs.simulate.ledger import Broken

if TYPE_CHECKING:
    from gateway.broker.queues.lane import LaneAtWork
    from tests.proofs.simulate.lanes.producer import Producer
    from tests.proofs.simulate.lanes.world import LanesWorld

TOPIC = "t-g-QUEUE"
SESSION_MS, REBALANCE_MS, HEARTBEAT_MS = 2_000, 1_500, 300
_SUBSCRIBED = b"\0\0\0\0\0\1" + len(TOPIC).to_bytes(2, "big") + TOPIC.encode()


def context(key: ApiKey, version: int) -> Context:
    """A request of somebody."""
    return Context(Peer(1, "/127.0.0.1", "PLAINTEXT"), key, version, 1, "c")


class Member:
    """See the module. What it does is drawn by the world."""

    def __init__(self, world: LanesWorld, name: str, commit_ms: int, instance: str | None, most: int) -> None:
        self.world = world
        self.name = name
        self.commit_ms = commit_ms
        self.instance = instance
        self.most_bytes = most
        self.stuck = False
        self.gone = False
        self.since = 0
        """when it may come again"""
        self.producer: Producer | None = None
        """with which it acknowledges, mostly"""
        self.id = ""
        self.begin()

    def begin(self) -> None:
        """It knows nothing of before."""
        self.generation = -1
        self.state = "out"
        """out, joining, syncing, asking, in"""
        self.answer: Any = None
        self.lanes: dict[int, int] = {}
        """to the position in each"""
        self.work: dict[int, list[tuple[int, int]]] = {}
        """of each lane: offset and number, in order"""
        self.done: dict[int, int] = {}
        """of each lane: up to where it has worked"""
        self.names: dict[int, dict[int, str]] = {}
        """of each lane: what is to be said of single offsets, until a commit that says so was answered"""
        self.at: dict[int, LaneAtWork] = {}
        self.fetching: set[int] = set()
        """of which a fetch is on its way"""
        self.beat = self.committed = self.world.now
        self._asked = 0

    def wake(self, lane: object, appended: int) -> None:
        """It fetches again anyway."""

    # -- the group ---------------------------------------------------------------------------------------------------

    def _ask(self, pending: Any, then: Callable[[Any], None]) -> None:
        """Have it called with the answer, unless all began anew meanwhile."""
        self._asked += 1
        asked = self._asked

        def answered(answer: Any) -> None:
            if self._asked == asked and not self.gone:
                then(answer)

        self.world.when(pending, answered)

    def lost(self) -> None:
        """It is no member any more, and begins anew."""
        self.drop()
        self.begin()
        self.id = ""

    def drop(self) -> None:
        """It lets go of its lanes."""
        for at in self.at.values():
            at.watchers.discard(self)
        self.at, self.lanes, self.work, self.done, self.names = {}, {}, {}, {}, {}
        self.fetching = set()

    def step(self) -> None:
        """Whatever comes next for it."""
        world = self.world
        if self.gone or world.now < self.since:
            return
        if self.producer is not None:
            self.producer.step()
        if self.state == "out":
            self.join()
        elif self.state == "in":
            if world.now - self.beat >= HEARTBEAT_MS:
                self.heartbeat()
            if self.stuck:
                return
            if world.random.random() < 0.6 and self.lanes:
                self.fetch(world.random.choice(list(self.lanes)))
            self.do()
            if self.done and world.now - self.committed >= self.commit_ms and not self.gone:
                self.commit()

    def join(self) -> None:
        self.state = "joining"
        event = Join(
            token=Caller(lambda answer: answer),
            member_id=self.id,
            new_member_id=self.world.new_id(self),
            instance_id=self.instance,
            client_id=self.name,
            client_host="h",
            session_timeout=SESSION_MS,
            rebalance_timeout=REBALANCE_MS,
            protocol_type="consumer",
            protocols=(("range", _SUBSCRIBED + b"\xff" * 4),),
            id_required=False,
        )
        self._ask(self.world.broker.classic_requests.run("g", event), self._joined)

    def _joined(self, answer: Any) -> None:
        if answer.error:
            self.state = "out"
            if answer.error not in (Error.REBALANCE_IN_PROGRESS, Error.COORDINATOR_NOT_AVAILABLE):
                self.id = ""
            return
        self.id, self.generation = answer.member_id, answer.generation
        given: dict[str, bytes] = {}
        if answer.members and not answer.skip_assignment:
            names = [each.member_id for each in answer.members]
            self.world.random.shuffle(names)
            lanes = self.world.scenario.lanes
            for number, name in enumerate(names):
                mine = range(number, lanes, len(names))
                given[name] = (
                    _SUBSCRIBED
                    + len(mine).to_bytes(4, "big")
                    + b"".join(lane.to_bytes(4, "big") for lane in mine)
                    + b"\xff" * 4
                )
        self.state = "syncing"
        event = Sync(Caller(lambda each: each), self.id, self.generation, self.instance, assignments=given)
        self._ask(self.world.broker.classic_requests.run("g", event), self._synced)

    def _synced(self, answer: Any) -> None:
        if answer.error:
            self.state = "out"
            if answer.error not in (Error.REBALANCE_IN_PROGRESS, Error.COORDINATOR_NOT_AVAILABLE):
                self.id = ""
            return
        data = answer.assignment
        mine = data[len(_SUBSCRIBED) :]
        number = int.from_bytes(mine[:4], "big")
        lanes = [int.from_bytes(mine[4 * each + 4 : 4 * each + 8], "big") for each in range(number)]
        self.drop()
        self.beat = self.committed = self.world.now
        if not lanes:
            self.state = "in"
            return
        self.state = "asking"
        self._ask_offsets(lanes)

    def _ask_offsets(self, lanes: list[int]) -> None:
        asked = messages.OffsetFetchRequest
        topic = asked.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=lanes)
        group = asked.OffsetFetchRequestGroup(group_id="g", topics=[topic])
        pending = offset_fetch(
            self.world.broker, context(ApiKey.OFFSET_FETCH, 9), asked(groups=[group], require_stable=True)
        )
        self._ask(pending, partial(self._placed, lanes))

    def _asked_again(self, lanes: list[int]) -> None:
        if self.state == "asking":
            self._ask_offsets(lanes)

    def _placed(self, lanes: list[int], answer: Any) -> None:
        (found,) = answer.groups
        if found.error_code or any(each.error_code for each in found.topics[0].partitions):
            # its lanes are being written: it asks again
            self.world.later(partial(self._asked_again, lanes))
            return
        for each in found.topics[0].partitions:
            if each.committed_offset < 0:
                raise Broken(f"OffsetFetch answers {each.committed_offset} for lane {each.partition_index}")
            self.lanes[each.partition_index] = each.committed_offset
        self.state = "in"

    def heartbeat(self) -> None:
        self.beat = self.world.now
        event = Heartbeat(Caller(lambda each: each), self.id, self.generation, self.instance)
        asked = self._asked

        def told(answer: Any) -> None:
            if self._asked != asked or self.gone or self.state != "in":
                return
            if answer.error == Error.REBALANCE_IN_PROGRESS:
                # eager: what is done is said, and all is let go
                if self.done and not self.stuck:
                    self.commit()
                self.state = "out"
            elif answer.error in (
                Error.UNKNOWN_MEMBER_ID,
                Error.ILLEGAL_GENERATION,
                Error.FENCED_INSTANCE_ID,
            ):
                self.lost()

        self.world.when(self.world.broker.classic_requests.run("g", event), told)

    def leave(self) -> None:
        """In good order: most say before what is done."""
        if self.state == "in" and self.done and self.world.random.random() < 0.7:
            self.commit()
        if self.id:
            event = Leave(Caller(lambda each: each), (Leaver(self.id, self.instance),))
            self.world.when(self.world.broker.classic_requests.run("g", event), lambda answer: None)
        self.lost()
        self.since = self.world.now + self.world.random.randint(0, 2_000)

    def die(self) -> None:
        """Nobody is told."""
        self.lost()
        if self.producer is not None:
            self.producer.die()
        quick = self.instance is not None and self.world.random.random() < 0.5
        self.since = self.world.now + (100 if quick else self.world.random.randint(500, 2 * SESSION_MS))

    def cut(self) -> None:
        """The gateway is gone: what was asked is not answered. It keeps its place, as clients do."""
        self._asked += 1
        self.at = {}
        if self.state in ("joining", "syncing", "asking"):
            self.state = "out"

    # -- records -----------------------------------------------------------------------------------------------------

    def fetch(self, lane: int) -> None:
        """One fetch; it goes on behind what came."""
        world = self.world
        try:
            runtime = world.broker.in_use.topic(TOPIC.encode())
            assert runtime is not None
            at: Any = world.broker.in_use.readable(runtime, lane)
        except KafkaError:
            return
        if self.at.get(lane) is not at:
            if lane in self.at:
                self.at[lane].watchers.discard(self)
            self.at[lane] = at
            at.watchers.add(self)
        if lane in self.fetching:
            return
        position = self.lanes[lane]
        if position >= at.high_watermark:
            if position > at.high_watermark:
                raise Broken(
                    f"{self.name} is at {position} of lane {lane}, which ends at {at.high_watermark}"
                )
            at.at_end()
            return
        generation, asked = self.generation, self._asked
        limit = self.most_bytes
        pending = at.fetch(position, limit, whole_first=True, least=None)

        fetching = self.fetching
        fetching.add(lane)

        def came(buffers: Any) -> None:
            fetching.discard(lane)
            # a batch comes whole, and a client passes over what lies before its place
            found = {at: number for at, number in parts(buffers).items() if at >= position}
            stored = world.stored_end(lane)
            here = self._asked == asked and self.generation == generation and self.lanes.get(lane) == position
            owner = here and world.oracle.owners[lane] == self.id
            world.oracle.read(lane, position, found, stored, owner=owner)
            if here and found:
                self.lanes[lane] = max(found) + 1
                self.work.setdefault(lane, []).extend(found.items())

        world.when(pending, came, lambda: fetching.discard(lane), at_once=True)

    def do(self) -> None:
        """Work on some of what there is, in order."""
        world, scenario, pick = self.world, self.world.scenario, self.world.random
        for lane in list(self.work):
            todo = self.work[lane]
            for _ in range(pick.choice([1, 5, 40])):
                if not todo:
                    break
                at, number = todo[0]
                if world.kills(number):
                    world.oracle.counts["killed by poison"] += 1
                    self.die()
                    return
                del todo[0]
                luck = pick.random()
                if scenario.bad and number % scenario.bad == 5:
                    self.names.setdefault(lane, {})[at] = "n"
                elif world.ending:
                    pass
                elif luck < scenario.nacks:
                    self.names.setdefault(lane, {})[at] = pick.choice(
                        ["n", "n", f"n:{scenario.nack_ms}", "n:0"]
                    )
                elif luck < scenario.nacks + scenario.rejected:
                    self.names.setdefault(lane, {})[at] = "d"
                self.done[lane] = at + 1

    def commit(self) -> None:
        """All that is done, with names."""
        world, pick, scenario = self.world, self.world.random, self.world.scenario
        self.committed = world.now
        lane = pick.choice(list(self.done))
        offset = self.done[lane]
        names = {at: verb for at, verb in self.names.get(lane, {}).items() if at < offset}
        if pick.random() < scenario.above and not world.ending:
            for at, _ in pick.sample(self.work.get(lane, []), min(2, len(self.work.get(lane, [])))):
                names[at] = "a"
        if self.producer is not None and pick.random() < 0.8:
            if self.producer.ready:
                self.producer.say(lane, offset, names, stranger=pick.random() < scenario.strangers)
            return
        send = partial(self.send, lane, offset, names, self.id, self.generation)
        send()
        if pick.random() < scenario.repeats:
            world.later(send, pick.randint(0, 3_000))

    def send(self, lane: int, offset: int, names: dict[int, str], member: str, generation: int) -> None:
        """One OffsetCommit."""
        world, request = self.world, messages.OffsetCommitRequest
        by: dict[str, list[int]] = {}
        for at in sorted(names):
            by.setdefault(names[at], []).append(at)
        metadata = "".join(f";{verb}={','.join(map(str, ats))}" for verb, ats in by.items())
        said = world.says(lane, offset, names, member, generation)
        topic = request.OffsetCommitRequestTopic(
            name=TOPIC,
            partitions=[
                request.OffsetCommitRequestPartition(
                    partition_index=lane,
                    committed_offset=offset,
                    committed_metadata=f"ack1{metadata}" if metadata else None,
                )
            ],
        )
        body = request(
            group_id="g",
            member_id=member,
            group_instance_id=self.instance,
            generation_id_or_member_epoch=generation,
            topics=[topic],
        )
        own = names.copy()

        def told(answer: Any) -> None:
            error = answer.topics[0].partitions[0].error_code
            world.answered(lane, said, error)
            if error == Error.NONE and self.id == member:
                self.said(lane, own)

        world.when(
            offset_commit(world.broker, context(ApiKey.OFFSET_COMMIT, 9), body),
            told,
            lambda: world.oracle.unanswered(said),
        )

    def said(self, lane: int, names: Iterable[int]) -> None:
        """What it was to say of these is said."""
        kept = self.names.get(lane, {})
        for at in names:
            kept.pop(at, None)


def parts(buffers: Any) -> dict[int, int]:
    """Offset -> number of all records in batches with good checksums that ascend and are dense. Raises Broken."""
    found: dict[int, int] = {}
    last = -1
    for buffer, position, header in wire.headers_of([b"".join(map(bytes, buffers))]):
        if header.base_offset <= last:
            raise Broken(f"a batch at {header.base_offset} follows one that ends at {last}")
        last = header.last_offset
        batch = bytes(buffer[position : position + header.size])
        records.check(batch)
        those = wire.records_at(batch, [(header.base_offset, header.last_offset)])
        if [each.offset for each in those] != list(range(header.base_offset, last + 1)):
            raise Broken(f"a batch at {header.base_offset} leaves offsets out")
        found.update((each.offset, int(each.value or b"-1")) for each in those)
    return found
