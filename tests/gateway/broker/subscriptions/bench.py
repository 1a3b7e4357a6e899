"""What a record of Key_Shared costs the gateway's core, without sockets: requests as bytes go in, answers come out.

    python -m tests.gateway.broker.subscriptions.bench --records 200000

Members ask by turns for up to --limit records of all partitions, and each request accepts every record of the answer
before by itself, as franz-go does. The store is the memory one. Times are CPU of this thread, so that other work on the
machine matters little.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import pstats
import random
import struct
from collections.abc import Awaitable
from functools import partial
from time import thread_time
from typing import cast

from gateway.broker.sharing import ShareFetch
from gateway.peer import Peer
from gateway.wire import records, share
from gateway.wire.varint import encode_uvarint, uvarint
from tests.gateway.broker.subscriptions.world import World

_ACK = struct.Struct(">qqBBB")
_RANGE = struct.Struct(">qqhB")
PEER = Peer(1, "/127.0.0.1", "PLAINTEXT")


class NoGroups:
    """Members that no group knows: they ask without having joined."""

    def load(self, group: str) -> None:
        """Nothing is to be loaded of them."""

    def client_id(self, group: str, member: str) -> str:
        return ""

    def members_on(self, group: str, topic: str) -> int:
        return 0


class Member:
    """What one consumer holds, and what it sends."""

    def __init__(
        self, name: str, topic_id: bytes, partitions: int, limit: int, separate: bool, wait: int = 0
    ) -> None:
        self.name = name
        self.epoch = 0
        self._topic_id = topic_id
        self._partitions = partitions
        self._limit = limit
        self._wait = wait
        self._separate = separate
        self.held: dict[int, list[tuple[int, int]]] = {}

    def request(self) -> bytes:
        """The body of a ShareFetch of version 2."""
        limits = struct.pack(
            ">6ib?",
            self.epoch,
            self._wait,
            1,
            1 << 24,
            self._limit,
            self._limit,
            share.BATCH_OPTIMIZED,
            False,
        )
        parts = [b"\x02g", encode_uvarint(len(self.name) + 1), self.name.encode(), limits, b"\x02"]
        parts += [self._topic_id, encode_uvarint(self._partitions + 1)]
        for index in range(self._partitions):
            ranges = self.held.get(index, ())
            if self._separate:
                acks = [_ACK.pack(at, at, 2, 1, 0) for first, last in ranges for at in range(first, last + 1)]
            else:
                acks = [_ACK.pack(first, last, 2, 1, 0) for first, last in ranges]
            parts += [struct.pack(">i", index), encode_uvarint(len(acks) + 1), *acks, b"\x00"]
        self.held = {}
        self.epoch += 1
        return b"".join([*parts, b"\x00", b"\x01", b"\x00"])

    def take(self, answer: bytes) -> int:
        """How many records the answer gives."""
        count = 0
        # size, correlation id, tags, throttle, error, message, lock timeout
        position = 4 + 4 + 1 + 4 + 2 + 1 + 4
        topics, position = uvarint(answer, position)
        for _ in range(topics - 1):
            partitions, position = uvarint(answer, position + 16)
            for _ in range(partitions - 1):
                (index,) = struct.unpack_from(">i", answer, position)
                position += 4 + 2 + 1 + 2 + 1 + 9
                size, position = uvarint(answer, position)
                ranges, position = uvarint(answer, position + size - 1)
                held = self.held[index] = []
                for _ in range(ranges - 1):
                    first, last, _, _ = _RANGE.unpack_from(answer, position)
                    held.append((first, last))
                    count += last - first + 1
                    position += 19
                position += 1
            position += 1
        return count


async def _answer(fetch: ShareFetch) -> bytes:
    found = fetch.start()
    return b"".join(cast("list[bytes]", await found if isinstance(found, Awaitable) else found))


async def measure(options: argparse.Namespace) -> float:
    """us of CPU a record."""
    world = World()
    await world.start()
    topic = await world.topic("t", options.partitions)
    config: dict[str, str] = {
        "share__auto__offset__reset": "earliest",
        "pulsar__subscription__type": options.type,
    }
    await world.configure("g", **config)
    await world.broker.subscriptions.ensure("g", "t")
    world.broker.share_groups = NoGroups()  # type: ignore[assignment]
    dice = random.Random(1)
    value = bytes(90)
    per_partition = options.records // options.partitions
    hot: set[tuple[int, int]] = set()
    for index in range(options.partitions):
        for first in range(0, per_partition, options.batch):
            keys = [
                b"hot%d" % index
                if options.hot and dice.random() < options.hot
                else b"key-%d"
                % (dice.randrange(options.keys // options.partitions) * options.partitions + index)
                for _ in range(min(options.batch, per_partition - first))
            ]
            hot.update((index, first + at) for at, key in enumerate(keys) if key.startswith(b"hot"))
            await world.append(
                records.build_batch(
                    [
                        records.Record(i, world.clock.wall_ms() + i // 50, key, value, [])
                        for i, key in enumerate(keys)
                    ]
                ),
                "t",
                index,
            )
    # as `serve` does
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    members = [
        Member(f"member-{at}", topic.topic_id, options.partitions, options.limit, not options.ranges)
        for at in range(options.members)
    ]
    done = polls = idle = size = 0
    total = per_partition * options.partitions - len(hot)
    warm = total // 10
    counted = 0
    took = 0.0
    profile = cProfile.Profile() if options.profile else None
    rounds = 0
    while done < total and idle < 3 * len(members) and not (options.rounds and rounds == options.rounds):
        rounds += 1
        for member in members:
            world.clock.now += 1
            body = member.request()
            if profile is not None:
                profile.enable()
            before = thread_time()
            request = share.decode_fetch(2, body, 0, len(body))
            answer = await _answer(
                ShareFetch(world.broker, PEER, "bench", request, partial(share.encode_fetch, 2, 7))
            )
            took += thread_time() - before
            if profile is not None:
                profile.disable()
            found = member.take(answer)
            size += len(answer)
            done += found
            if hot:
                done -= sum(
                    (index, at) in hot
                    for index, ranges in member.held.items()
                    for first, last in ranges
                    for at in range(first, last + 1)
                )
            polls += 1
            idle = 0 if found else idle + 1
            if not counted and done >= warm:
                took, counted = 0.0, done
    await world.close()
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)
    print(f"{done} of {total} records in {polls} polls, {size / max(done, 1):.0f} B a record on the wire")
    if options.rounds:
        print(f"{done / rounds:.0f} records a round of all members")
    assert done == total or options.rounds
    return took * 1e6 / (done - counted)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=200_000, help="over all partitions (%(default)s)")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--limit", type=int, default=500, help="records a poll asks for (%(default)s)")
    parser.add_argument(
        "--batch", type=int, default=135, help="records of a stored batch (%(default)s: 16 KB)"
    )
    parser.add_argument(
        "--ranges", action="store_true", help="accept ranges as they came, not record by record"
    )
    parser.add_argument("--type", default="key_shared", choices=("key_shared", "shared"))
    parser.add_argument("--hot", type=float, default=0.0, help="the share of one key (%(default)s)")
    parser.add_argument("--rounds", type=int, default=0, help="so many at most, each member once a round")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    options = parser.parse_args()
    print(f"{asyncio.run(measure(options)):.3f} us a record")


if __name__ == "__main__":
    main()
