"""Some images are given to a real gateway, and clients go on where the power left them.

Producers send again what they have no answer to, at most five batches a partition, in order; then everything is
read: what was promised is there, and nothing of an idempotent producer is there twice.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter

from compat.peers.magnetar import MagnetarPeer
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from store import batch as layout
from tests.proofs.powercut.asking import Connection, check, produce_request
from tests.proofs.powercut.cuts import Cut, Scratch, Tally, build
from tests.proofs.powercut.disk import Disk
from tests.proofs.powercut.oracle import Verdict
from tests.proofs.powercut.recording import ENTRY, Recording
from tests.proofs.powercut.world import Batch, Topic, World

IN_FLIGHT = 5
REFUSED = 45
"""OUT_OF_ORDER_SEQUENCE_NUMBER: what came before it is gone, which only `os` allows."""


def look(recording: Recording, cuts: list[Cut]) -> Tally:
    """Start a gateway on the image of each cut, which ascend, and be its clients."""
    tally = Tally()
    disk = Disk(recording.root, base=recording.base)
    with Scratch() as place:
        for cut in cuts:
            while disk.index < cut.at:
                disk.apply(recording.events[disk.index])
            build(disk, place / "image", recording, cut)
            verdict = Verdict()
            durability = "fsync" if recording.policy == "fsync" else "os"
            try:
                flags = ("--durability", durability)
                with MagnetarPeer(*flags, directory=place, data=place / "image", entry=ENTRY) as process:
                    asyncio.run(_clients(process.bootstrap, recording.world, cut.at, verdict))
            except Exception as error:
                verdict.wrong(f"{type(error).__name__}: {error}")
            tally.add(f"{cut}, served", verdict)
            shutil.rmtree(place / "image")
    return tally


async def _clients(address: str, world: World, cut: int, verdict: Verdict) -> None:
    connection = await Connection.open(address)
    _, answer = await connection.ask(
        ApiKey.METADATA, messages.MetadataRequest(topics=None, allow_auto_topic_creation=False)
    )
    there = {topic.name for topic in answer.topics}
    for topic in world.topics:
        if topic.name.startswith("churn") or not world.acked(topic.created, cut):
            continue
        if topic.name not in there and not world.synced:
            # what made it was acknowledged and not synced, which only `os` allows
            continue
        for index in range(topic.partitions):
            await _one(connection, topic, index, world, cut, verdict)
    connection.close()


async def _one(
    connection: Connection, topic: Topic, index: int, world: World, cut: int, verdict: Verdict
) -> None:
    name = f"{topic.name}-{index}"
    by_data = {batch.data[16:]: batch for batch in topic.batches[index]}
    again = [batch for batch in topic.batches[index] if batch.acked >= cut][:IN_FLIGHT]
    stored: list[Batch] = []
    for batch in again:
        if batch.producer_id < 0 and not batch.named:
            continue
        _, answer = await connection.ask(ApiKey.PRODUCE, produce_request([(topic.name, index, batch.data)]))
        code = answer.responses[0].partition_responses[0].error_code
        if code == 0:
            stored.append(batch)
        elif code != REFUSED or topic.synced:
            verdict.wrong(f"{name}: a retry was answered with error {code}")
    found: Counter[bytes] = Counter()
    for data in await _read(connection, topic.name, index):
        found[data[16:]] += 1
    for data, count in found.items():
        known = by_data.get(data)
        if known is None:
            verdict.wrong(f"{name}: a batch that nobody sent")
        elif count > 1:
            verdict.wrong(f"{name}: the batch at {known.offset} is there {count} times")
    start = max((trim.offset for trim in topic.trims[index]), default=0)
    for batch in topic.batches[index]:
        promised = batch in stored or (topic.synced and batch.acked < cut and batch.next_offset > start)
        if promised and not found[batch.data[16:]]:
            verdict.wrong(f"{name}: the batch at {batch.offset} is not there")


async def _read(connection: Connection, topic: str, index: int) -> list[bytes]:
    """All batches of a partition, by Fetch."""
    of_topic = messages.FetchRequest.FetchTopic
    of_partition = messages.FetchRequest.FetchPartition
    found: list[bytes] = []
    offset = 0
    while True:
        _, answer = await connection.ask(
            ApiKey.FETCH,
            messages.FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=1 << 24,
                session_id=0,
                session_epoch=-1,
                topics=[
                    of_topic(
                        topic=topic,
                        partitions=[
                            of_partition(
                                partition=index,
                                current_leader_epoch=-1,
                                fetch_offset=offset,
                                partition_max_bytes=1 << 24,
                            )
                        ],
                    )
                ],
            ),
        )
        part = answer.responses[0].partitions[0]
        if part.error_code == 1 and offset < part.log_start_offset:
            offset = part.log_start_offset
            continue
        if part.error_code == 1 and not found:
            # out of range without a start to go to: an answer that says nothing of it
            offset += 1
            if offset > 1_000_000:
                check(part.error_code)
            continue
        check(part.error_code)
        data = bytes(part.records or b"")
        whole = [
            (data[at : at + size], following)
            for at, size, _, following in layout.walk(data)
            if at + size <= len(data)
        ]
        if not whole:
            return found
        found += [each for each, _ in whole]
        offset = whole[-1][1]


def some(cuts: list[Cut], count: int) -> list[Cut]:
    """Cuts spread over all."""
    return cuts[:: max(1, len(cuts) // count)][:count] if count else []


__all__ = ["look", "some"]
