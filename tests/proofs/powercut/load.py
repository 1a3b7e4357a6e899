"""A load that touches everything a power cut can break, and remembers what it was told.

All of it is asked over the wire, on connections of its own for each part: producers with several requests in flight
(idempotent and not, small and large batches), offsets of groups, topics that come and go, records deleted.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from gateway.wire import messages, records
from gateway.wire.api_keys import ApiKey
from tests.proofs.powercut import compacted_load, policy_load, transaction_load
from tests.proofs.powercut.asking import Connection, check, produce_request
from tests.proofs.powercut.lane_load import lanes
from tests.proofs.powercut.policy_load import Http
from tests.proofs.powercut.share_load import share
from tests.proofs.powercut.world import Batch, Commit, Topic, Trim, World

PATIENCE = 60.0


async def create(
    connection: Connection, world: World, name: str, partitions: int, synced: bool, **configs: str
) -> Topic:
    config = messages.CreateTopicsRequest.CreatableTopicConfig
    key, answer = await connection.ask(
        ApiKey.CREATE_TOPICS,
        messages.CreateTopicsRequest(
            topics=[
                messages.CreateTopicsRequest.CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=1,
                    configs=[
                        config(name=each.replace("__", "."), value=value) for each, value in configs.items()
                    ],
                )
            ],
            timeout_ms=10_000,
        ),
    )
    check(answer.topics[0].error_code)
    topic = Topic(name, partitions, synced, key, answer.topics[0].topic_id)
    world.topics.append(topic)
    return topic


async def delete(connection: Connection, topic: Topic) -> None:
    key = connection.send(
        ApiKey.DELETE_TOPICS, messages.DeleteTopicsRequest(topic_names=[topic.name], timeout_ms=10_000)
    )
    topic.deleted = key
    check((await connection.receive()).responses[0].error_code)


async def producer_id(connection: Connection) -> int:
    _, answer = await connection.ask(
        ApiKey.INIT_PRODUCER_ID,
        messages.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
    )
    check(answer.error_code)
    found: int = answer.producer_id
    return found


class Producer:
    """Writes to partitions that nobody else writes to, with several requests in flight."""

    def __init__(
        self,
        connection: Connection,
        chance: random.Random,
        targets: list[tuple[Topic, int]],
        *,
        depth: int,
        sizes: tuple[int, ...],
        most: int = 4,
        identity: int = -1,
    ) -> None:
        self._connection = connection
        self._chance = chance
        self._targets = targets
        self._depth = depth
        self._sizes = sizes
        self._most = most
        self._identity = identity
        self._sequences: dict[tuple[bytes, int], int] = {}
        self._flying: deque[list[tuple[Topic, int, Batch]]] = deque()
        self._count = 0

    async def run(self, until: asyncio.Event, pause: float = 0.004) -> None:
        while not until.is_set():
            if len(self._flying) < self._depth:
                self._send()
                if self._chance.random() < 0.5:
                    await asyncio.sleep(self._chance.random() * pause)
            else:
                await self._receive()
        while self._flying:
            await self._receive()

    def _send(self) -> None:
        chance = self._chance
        chosen = chance.sample(self._targets, chance.randint(1, min(self._most, len(self._targets))))
        made: list[tuple[Topic, int, Batch]] = []
        parts = []
        for topic, index in chosen:
            data, count, sequence = self._batch(topic, index)
            batch = Batch(data, count, (0, 0), self._identity, sequence)
            made.append((topic, index, batch))
            parts.append((topic.name, index, data))
        key = self._connection.send(ApiKey.PRODUCE, produce_request(parts))
        for topic, index, batch in made:
            batch.key = key
            topic.batches[index].append(batch)
        self._flying.append(made)

    def _batch(self, topic: Topic, index: int) -> tuple[bytes, int, int]:
        chance = self._chance
        count = chance.choice((1, 1, 1, 3))
        sequence = -1
        if self._identity >= 0:
            place = (topic.topic_id, index)
            sequence = self._sequences.get(place, 0)
            self._sequences[place] = sequence + count
        self._count += 1
        listed = []
        for number in range(count):
            name = f"{self._connection.port}/{self._count}/{number}/".encode()
            value = name + chance.randbytes(max(0, chance.choice(self._sizes) // count))
            listed.append(records.Record(number, 1_700_000_000_000 + self._count, None, value, []))
        identity = self._identity
        return (
            records.build_batch(
                listed,
                producer_id=identity,
                producer_epoch=0 if identity >= 0 else -1,
                base_sequence=sequence,
            ),
            count,
            sequence,
        )

    async def _receive(self) -> None:
        answer = await self._connection.receive()
        made = self._flying.popleft()
        offsets = {
            (topic.name, part.index): part for topic in answer.responses for part in topic.partition_responses
        }
        for topic, index, batch in made:
            part = offsets[topic.name, index]
            check(part.error_code)
            batch.offset = part.base_offset


def acked_end(topic: Topic, index: int) -> int:
    """The log's end as far as the client knows."""
    return max((batch.next_offset for batch in topic.batches[index] if batch.offset >= 0), default=0)


async def commit(
    connection: Connection,
    world: World,
    group: str,
    offsets: list[tuple[str, int, int, str]],
    *,
    member: str = "",
    generation: int = -1,
    chain: bool = False,
) -> None:
    """Commit (topic, partition, offset, stamp)s."""
    of_topic = messages.OffsetCommitRequest.OffsetCommitRequestTopic
    of_partition = messages.OffsetCommitRequest.OffsetCommitRequestPartition
    topics: dict[str, list[Any]] = {}
    for name, index, offset, stamp in offsets:
        topics.setdefault(name, []).append(
            of_partition(partition_index=index, committed_offset=offset, committed_metadata=stamp)
        )
    key = connection.send(
        ApiKey.OFFSET_COMMIT,
        messages.OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[of_topic(name=name, partitions=found) for name, found in topics.items()],
        ),
    )
    for name, index, offset, stamp in offsets:
        made = Commit(offset, stamp, key)
        world.commits.setdefault((group, name, index), []).append(made)
        if chain:
            world.chain.append(((group, name, index), made))
    answer = await connection.receive()
    for topic in answer.topics:
        for part in topic.partitions:
            check(part.error_code)


async def join(connection: Connection, group: str) -> tuple[str, int]:
    """Become the only member: (member id, generation)."""
    protocol = messages.JoinGroupRequest.JoinGroupRequestProtocol
    _, joined = await connection.ask(
        ApiKey.JOIN_GROUP,
        messages.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            member_id="",
            protocol_type="consumer",
            protocols=[protocol(name="range", metadata=b"\0\1\0\0\0\0\0\0\0\0")],
        ),
    )
    check(joined.error_code)
    _, synced = await connection.ask(
        ApiKey.SYNC_GROUP,
        messages.SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[
                messages.SyncGroupRequest.SyncGroupRequestAssignment(
                    member_id=joined.member_id, assignment=b"everything"
                )
            ],
        ),
    )
    check(synced.error_code)
    return joined.member_id, joined.generation_id


async def trim(connection: Connection, topic: Topic, index: int, offset: int) -> None:
    """DeleteRecords."""
    of_topic = messages.DeleteRecordsRequest.DeleteRecordsTopic
    of_partition = messages.DeleteRecordsRequest.DeleteRecordsPartition
    key = connection.send(
        ApiKey.DELETE_RECORDS,
        messages.DeleteRecordsRequest(
            topics=[
                of_topic(name=topic.name, partitions=[of_partition(partition_index=index, offset=offset)])
            ],
            timeout_ms=10_000,
        ),
    )
    topic.trims[index].append(Trim(offset, key))
    answer = await connection.receive()
    check(answer.topics[0].partitions[0].error_code)


Made = TypeVar("Made", Connection, Http)


class Load:
    """All of it against one gateway, for some seconds."""

    def __init__(self, address: str, admin: str, policy: str, seed: int) -> None:
        self._address = address
        self._admin = admin
        self._policy = policy
        self._chance = random.Random(seed)
        self.world = World(policy == "fsync", policy == "mixed")
        self._open: list[Connection | Http] = []
        self._enough = asyncio.Event()
        self._buried = asyncio.Event()

    async def _connection(self) -> Connection:
        return await self._of_its_own(lambda: Connection.open(self._address))

    async def _http(self) -> Http:
        return await self._of_its_own(lambda: Http.open(self._admin))

    async def _of_its_own(self, opened: Callable[[], Awaitable[Made]]) -> Made:
        """Answers are told apart by ports: two connections, to the gateway's two listeners, may have the same."""
        while True:
            made = await opened()
            taken = any(made.port == other.port for other in self._open)
            # closed at the end, all of them: else this one might come again
            self._open.append(made)
            if not taken:
                return made

    async def run(self, seconds: float) -> World:
        """For so long, and until records of the share group have died: on a busy machine that takes longer."""
        control = await self._connection()
        synced = self._policy == "fsync"
        also = {"durability": "fsync"} if self._policy == "mixed" else {}
        either = synced or bool(also)
        world = self.world
        orders = await create(control, world, "orders", 6, synced)
        vital = await create(control, world, "vital", 4, either, **also)
        events = await create(control, world, "events", 4, synced, internal__segment__bytes="20000")
        blobs = await create(control, world, "blobs", 2, either, internal__segment__bytes="400000", **also)
        tasks = await create(control, world, "tasks", 2, either, **also)
        pieces = await create(control, world, "pieces", 2, either, **also)
        await policy_load.prepare(await self._http())
        before = policy_load.BEFORE
        rules = await create(control, world, f"{before}rules", 1, synced)
        names = await create(control, world, f"{before}names", 2, synced, pulsar__deduplication="true")
        lives = {"pulsar__message__ttl__ms": str(policy_load.TTL_MS)}
        old = await create(control, world, f"{before}old", 2, synced, **lives)
        quota = {
            "pulsar__backlog__quota__bytes": str(policy_load.HEAP_BYTES),
            "pulsar__backlog__quota__bytes__policy": "consumer_backlog_eviction",
        }
        heap = await create(control, world, f"{before}heap", 1, synced, **quota)
        await transaction_load.prepare(control, also)
        latest = await create(
            control, world, compacted_load.NAME, compacted_load.PARTITIONS, synced, **compacted_load.CONFIGS
        )
        world.topics.remove(latest)
        world.compacted = latest
        parts = [
            self._produce(
                [(orders, 0), (orders, 2), (orders, 4), (vital, 0), (vital, 1)], depth=5, known=True
            ),
            self._produce([(orders, 1), (orders, 3), (orders, 5), (vital, 2)], depth=5, known=True),
            self._produce([(events, index) for index in range(4)] + [(vital, 3)], depth=8),
            self._produce([(blobs, 0)], depth=1, sizes=(80_000, 150_000), pause=0.2),
            self._produce([(blobs, 1)], depth=2, sizes=(9_000, 30_000), pause=0.1, known=True),
            self._chained(orders),
            self._groups(orders, vital),
            self._churn(),
            self._trims(events),
            self._share(tasks),
            self._lanes(pieces),
            self._policies(rules, names),
            self._stale(old, heap),
            self._ends(synced),
            self._transactions(),
            self._latest(latest),
        ]
        running = [asyncio.ensure_future(part) for part in parts]
        ending = asyncio.ensure_future(self._until(seconds))
        await asyncio.wait([*running, ending], return_when=asyncio.FIRST_COMPLETED)
        self._enough.set()
        await asyncio.gather(*running)
        await ending
        for connection in self._open:
            connection.close()
        return world

    async def _until(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        async with asyncio.timeout(PATIENCE):
            await self._buried.wait()

    async def _produce(
        self,
        targets: list[tuple[Topic, int]],
        *,
        depth: int,
        sizes: tuple[int, ...] = (20, 200, 200, 2500),
        pause: float = 0.004,
        known: bool = False,
    ) -> None:
        connection = await self._connection()
        identity = await producer_id(connection) if known else -1
        producer = Producer(
            connection,
            random.Random(self._chance.random()),
            targets,
            depth=depth,
            sizes=sizes,
            identity=identity,
        )
        await producer.run(self._enough, pause)

    async def _chained(self, topic: Topic) -> None:
        """One row after the other: what survives of them must be the first of them."""
        connection = await self._connection()
        number = 0
        while not self._enough.is_set():
            number += 1
            await commit(
                connection, self.world, "chain", [(topic.name, number % 5, 0, str(number))], chain=True
            )
            await asyncio.sleep(0.001)

    async def _groups(self, *topics: Topic) -> None:
        connection = await self._connection()
        member, generation = await join(connection, "readers")
        number = 0
        while not self._enough.is_set():
            number += 1
            offsets = [
                (topic.name, index, acked_end(topic, index), str(number))
                for topic in topics
                for index in range(topic.partitions)
                if self._chance.random() < 0.3
            ]
            if offsets:
                await commit(connection, self.world, "readers", offsets, member=member, generation=generation)
            await asyncio.sleep(0.003)

    async def _share(self, topic: Topic) -> None:
        await share(
            await self._connection(), await self._connection(), self.world, topic, self._enough, self._buried
        )

    async def _lanes(self, topic: Topic) -> None:
        await lanes(await self._connection(), await self._connection(), self.world, topic, self._enough)

    async def _transactions(self) -> None:
        chance = random.Random(self._chance.random())
        await transaction_load.transact(await self._connection(), self.world, chance, self._enough)

    async def _latest(self, topic: Topic) -> None:
        chance = random.Random(self._chance.random())
        await compacted_load.keep_latest(await self._connection(), topic, chance, self._enough)

    async def _policies(self, rules: Topic, names: Topic) -> None:
        await asyncio.gather(
            policy_load.say_of_topic(await self._connection(), self.world, rules, self._enough),
            policy_load.say_of_namespace(await self._http(), self.world, self._enough),
            policy_load.named(await self._connection(), self.world, names, self._enough),
        )

    async def _stale(self, old: Topic, heap: Topic) -> None:
        connection, http = await self._connection(), await self._http()
        await policy_load.stale(connection, http, self.world, old, heap, self._enough)

    async def _ends(self, synced: bool) -> None:
        """Topics come, are written to, and end."""
        connection, http = await self._connection(), await self._http()
        number = 0
        while not self._enough.is_set():
            number += 1
            name = f"end-{number}"
            topic = await create(connection, self.world, f"{policy_load.BEFORE}{name}", 1, synced)
            await policy_load.ends(connection, http, self.world, topic, name)
            await asyncio.sleep(0.05)

    async def _churn(self) -> None:
        """Topics come, get a batch and go; names come again."""
        connection = await self._connection()
        alive: list[Topic] = []
        number = 0
        while not self._enough.is_set():
            number += 1
            free = sorted({f"churn-{each}" for each in range(6)} - {topic.name for topic in alive})
            if free and self._chance.random() < 0.6:
                topic = await create(
                    connection, self.world, self._chance.choice(free), 2, self._policy == "fsync"
                )
                producer = Producer(
                    connection, self._chance, [(topic, 0), (topic, 1)], depth=1, sizes=(100, 3000)
                )
                producer._count = number * 1000
                producer._send()
                await producer._receive()
                alive.append(topic)
            elif alive:
                await delete(connection, alive.pop(self._chance.randrange(len(alive))))
            await asyncio.sleep(0.02)

    async def _trims(self, topic: Topic) -> None:
        connection = await self._connection()
        while not self._enough.is_set():
            await asyncio.sleep(0.05)
            index = self._chance.randrange(topic.partitions)
            end = acked_end(topic, index)
            start = max((each.offset for each in topic.trims[index]), default=0)
            if end > start:
                await trim(connection, topic, index, self._chance.choice((end, (start + end) // 2)))
