"""What scattered due times cost the gateway's core, without sockets, on a clock that moves by the CPU it takes.

    python -m tests.gateway.broker.subscriptions.bench_scattered --records 200000 --seconds 6

Batches of --batch delayed records are in the store; when each is due was drawn from --seconds, so that what comes due
in a moment lies a record here, a record there in all batches. Members ask as in `bench.py` and are parked while there
is nothing. The clock moves by what each step took of CPU, and to the next timer when there is nothing to do: the
figures are of a machine with a core for the gateway alone, whatever else runs beside. Said are the CPU a record
(finding its due time, and delivering it), how late records came, and the longest steps, since others wait for those.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import math
import pstats
import random
import struct
from array import array
from collections.abc import Awaitable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

from gateway.broker.requests import Answer
from gateway.broker.sharing import ShareFetch
from gateway.peer import Peer
from gateway.promise import Promise
from gateway.wire import compression, records, share
from store.pending import Pending
from tests.gateway.broker.subscriptions.bench import Member, NoGroups
from tests.gateway.broker.subscriptions.world import NOW, World

_DUE = struct.Struct(">q")


class Asking:
    """A request of a member on its way."""

    def __init__(self, world: World, member: Member, connection: int) -> None:
        self.member = member
        self._world = world
        self._peer = Peer(connection, "/127.0.0.1", "PLAINTEXT")
        self.answer: Answer | None = None

    def start(self) -> None:
        body = self.member.request()
        request = share.decode_fetch(2, body, 0, len(body))
        fetch = ShareFetch(
            self._world.broker,
            self._peer,
            "bench",
            request,
            partial(share.encode_fetch, 2, 7),
        )
        self._told(fetch.start())

    def _told(self, found: Pending[Answer]) -> None:
        if isinstance(found, Promise):
            found.then(self._told)
        elif isinstance(found, Awaitable):
            self._waits = asyncio.ensure_future(found)
            self._waits.add_done_callback(self._came)
        else:
            self.answer = found

    def _came(self, waits: asyncio.Future[Answer]) -> None:
        self.answer = waits.result()


def spread(samples: Sequence[float]) -> str:
    """p50, p99 and the largest."""
    ordered = sorted(samples) or [0.0]
    ranks = [math.ceil(part * len(ordered)) - 1 for part in (0.5, 0.99, 1)]
    p50, p99, largest = (ordered[max(rank, 0)] for rank in ranks)
    return f"p50 {p50:.1f}, p99 {p99:.1f}, max {largest:.1f} ms"


async def fill(world: World, options: argparse.Namespace) -> list[array[int]]:
    """When the records are due, by partition and offset: ms from the start."""
    dice = random.Random(1)
    value = dice.randbytes(options.size // 2) + bytes(options.size - options.size // 2)
    begin = options.ahead * 1000
    dues: list[array[int]] = [array("q") for _ in range(options.partitions)]
    for number in range(options.records // options.batch):
        index = number % options.partitions
        listed = []
        for at in range(options.batch):
            due = begin + dice.randrange(options.seconds * 1000)
            dues[index].append(due)
            header = ("pulsar-deliver-at", b"%d" % (NOW + due))
            listed.append(records.Record(at, NOW, None, value, [header]))
        codec = compression.NAMES.index(options.codec)
        await world.append(records.build_batch(listed, codec=codec), "t", index)
    return dues


async def measure(options: argparse.Namespace, folder: str) -> None:
    """Print it."""
    world = World(Path(folder))
    await world.start()
    topic = await world.topic("t", options.partitions)
    await world.configure("g", share__auto__offset__reset="earliest")
    await world.broker.subscriptions.ensure("g", "t")
    world.broker.share_groups = NoGroups()  # type: ignore[assignment]
    dues = await fill(world, options)
    start = NOW
    members = [
        Member(f"member-{at}", topic.topic_id, options.partitions, options.limit, not options.ranges, 500)
        for at in range(options.members)
    ]
    asking: list[Asking] = []
    total = sum(map(len, dues))
    done = early = 0
    clock = float(world.clock.now)
    last_found = 0.0
    finding = spent = 0.0
    late: list[float] = []
    steps: list[float] = []
    profile = cProfile.Profile() if options.profile else None
    cursors = [world.at(index=index) for index in range(options.partitions)]
    idle = 0
    for number, member in enumerate(members):
        each = Asking(world, member, number)
        asking.append(each)
    fresh = list(asking)
    wakes = 0
    while done < total:
        wakes += 1
        read = sum(at.cursor.read for at in cursors if at.cursor is not None)
        if profile is not None and (read == total or options.profile == "find"):
            profile.enable()
        before = process_time()
        timers = [each for each in getattr(world.broker, "timers", []) if each[0] <= world.clock.now]
        for entry in timers:
            world.broker.timers.remove(entry)
            entry[1]()
        for each in fresh:
            each.start()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        took = process_time() - before
        if profile is not None:
            profile.disable()
            if options.profile == "find" and read == total:
                break
        fresh = []
        clock += took * 1000
        world.clock.now = int(clock)
        spent += took
        if read < total:
            last_found, finding = clock, spent
        wall = world.clock.wall_ms() - start
        got = 0
        for each in asking:
            if each.answer is None:
                continue
            answer = b"".join(each.answer)  # type: ignore[arg-type] # only a plain fetch lends pieces of a disk
            each.answer = None
            got += each.member.take(answer)
            for index, ranges in each.member.held.items():
                for first, end in ranges:
                    for due in dues[index][first : end + 1]:
                        early += due > wall
                        if read == total:
                            late.append(wall - due)
            fresh.append(each)
        done += got
        if got:
            steps.append(took * 1000)
        if not fresh:
            idle += 1
            before = process_time()
            for _ in range(3):
                await asyncio.sleep(0)
            while any(at.unsaved for at in cursors):
                await asyncio.sleep(0.0002)
            took = process_time() - before
            clock += took * 1000
            spent += took
            if any(each.answer is not None for each in asking):
                continue
            following = min((each[0] for each in world.broker.timers), default=None)
            if following is not None and following > world.clock.now:
                clock = float(following)
                world.clock.now = following
        else:
            idle = 0
        assert idle < 100_000, (done, total)
    found = NOW - start + (last_found - 5_000_000)
    scanner = world.broker.subscriptions.scanner
    print(f"all due times known after {found / 1000:.1f} s of CPU, {finding * 1e6 / total:.1f} us a record")
    cost = (spent - finding) * 1e6 / max(len(late), 1)
    print(f"delivering {cost:.1f} us a record, {len(late)} of {total}, {early} early")
    print(f"late: {spread(late)}; steps: {len(steps)}, {spread(steps)}")
    print(f"after {(clock - 5_000_000) / 1000:.1f} s of {options.ahead + options.seconds}")
    print(f"{scanner.openings} openings, {scanner.kept.bytes >> 20} MiB kept")
    await world.close()
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000, help="over all partitions (%(default)s)")
    parser.add_argument(
        "--seconds", type=int, default=30, help="from which due times are drawn (%(default)s)"
    )
    parser.add_argument("--ahead", type=int, default=40, help="seconds until the first is due (%(default)s)")
    parser.add_argument("--batch", type=int, default=10_000, help="records of a batch (%(default)s)")
    parser.add_argument("--size", type=int, default=100, help="bytes of a value, half of them zeros")
    parser.add_argument("--codec", default="lz4", choices=compression.NAMES)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--limit", type=int, default=500, help="records a poll asks for (%(default)s)")
    parser.add_argument("--ranges", action="store_true", help="accept ranges as they came")
    parser.add_argument("--profile", choices=("find", "deliver"), help="print where the time goes")
    with TemporaryDirectory() as folder:
        asyncio.run(measure(parser.parse_args(), f"{folder}/data"))


if __name__ == "__main__":
    main()
