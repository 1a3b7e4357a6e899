"""A producer of few keys, with and without values, in a topic that is compacted all the time."""

from __future__ import annotations

import asyncio
import random

from gateway.wire import records
from gateway.wire.api_keys import ApiKey
from tests.proofs.powercut.asking import Connection, check, produce_request
from tests.proofs.powercut.world import Batch, Topic

NAME, PARTITIONS, KEYS = "latest", 2, 9
CONFIGS = {
    "cleanup__policy": "compact",
    "min__cleanable__dirty__ratio": "0",
    "internal__segment__bytes": "3000",
}
"""Some ten batches are a segment."""


async def keep_latest(
    connection: Connection, topic: Topic, chance: random.Random, enough: asyncio.Event
) -> None:
    """One request after the other."""
    count = 0
    while not enough.is_set():
        index = chance.randrange(PARTITIONS)
        listed = []
        for number in range(chance.choice((1, 1, 3))):
            count += 1
            key = b"%d" % chance.randrange(KEYS)
            value = None if chance.random() < 0.2 else b"%d/" % count + chance.randbytes(200)
            listed.append(records.Record(number, 1_700_000_000_000 + count, key, value, []))
        data = records.build_batch(listed)
        key_, answer = await connection.ask(ApiKey.PRODUCE, produce_request([(topic.name, index, data)]))
        ((part,),) = [each.partition_responses for each in answer.responses]
        check(part.error_code)
        topic.batches[index].append(Batch(data, len(listed), key_, offset=part.base_offset))
        if chance.random() < 0.3:
            await asyncio.sleep(chance.random() * 0.005)
