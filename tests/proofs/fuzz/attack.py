"""Those who send what they should not: each method is one of them, at work until the end.

Several run side by side in a process of their own (`main`), so that they do not slow down the client that watches.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import uvloop

from gateway.wire import compression, messages
from tests.proofs.fuzz import batches, corpus, frames, logins, mutate, sharing, stuffed
from tests.proofs.fuzz.frames import request, sized

API_VERSIONS = request(18, 0, b"")
_PATIENCE = 20.0
"""Seconds after which an attacker gives up waiting for an answer: not its business to judge."""

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Attackers:
    """What they share: where the gateway is, until when, and counts of what they did."""

    def __init__(
        self, address: str, asking: str, admin: str, until: float, seed: object, topic_ids: list[bytes]
    ) -> None:
        """`asking`: where the gateway asks its clients who they are."""
        host, port = address.rsplit(":", 1)
        self.where = (host, int(port))
        asking_host, asking_port = asking.rsplit(":", 1)
        self.asking = (asking_host, int(asking_port))
        admin_host, admin_port = admin.removeprefix("http://").rsplit(":", 1)
        self.admin = (admin_host, int(admin_port))
        self.until = until
        self.pick = random.Random(str(seed))
        self.counts: Counter[str] = Counter()
        self.corpus = corpus.captured() + frames.plausible(self.pick.randrange(1 << 31), topic_ids)
        self.corpus += corpus.generated(self.pick.random(), each=1)
        self.topic_ids = topic_ids

    @property
    def going(self) -> bool:
        return time.monotonic() < self.until

    @contextlib.asynccontextmanager
    async def connected(self, where: tuple[str, int] | None = None) -> AsyncIterator[Stream]:
        """A connection; it ends by a reset now and then."""
        reader, writer = await asyncio.wait_for(asyncio.open_connection(*(where or self.where)), _PATIENCE)
        self.counts["connections"] += 1
        try:
            yield reader, writer
        finally:
            if self.pick.random() < 0.3:
                sock = writer.get_extra_info("socket")
                # a transport that ended by itself has none, or one without a number
                with contextlib.suppress(OSError, AttributeError, ValueError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort() if self.pick.random() < 0.5 else writer.close()

    async def forever(self, attack: Callable[[], Awaitable[None]]) -> None:
        """One attack after another; connections that the gateway ends are what they are for."""
        while self.going:
            try:
                await attack()
            except (OSError, EOFError, RuntimeError):
                # RuntimeError: uvloop's word for a transport that is closed
                self.counts["ended by the gateway"] += 1

    # -- wrong frames -------------------------------------------------------------------------------------------------

    async def bulk(self) -> None:
        """Mutated frames in bursts, some behind right ones, until the gateway closes."""
        pick, known = self.pick, self.corpus
        async with self.connected() as (reader, writer):
            for _ in range(30):
                if not self.going:
                    return
                burst = []
                if pick.random() < 0.3:
                    burst += [pick.choice(known) for _ in range(4)]
                for _ in range(pick.choice((1, 4, 16))):
                    burst.append(mutate.mutate(pick, pick.choice(known), known))
                burst = [frame for frame in burst if frames.harmless(frame)]
                data = b"".join(map(sized, burst))
                if pick.random() < 0.1:
                    data += frames.wrong_length(pick)
                writer.write(data)
                self.counts["frames"] += len(burst)
                if await self._over(reader):
                    return

    async def right(self) -> None:
        """Frames as they are: sessions that get far."""
        async with self.connected() as (reader, writer):
            for _ in range(30):
                if not self.going:
                    return
                burst = [each for each in self.pick.choices(self.corpus, k=8) if frames.harmless(each)]
                writer.write(b"".join(map(sized, burst)))
                self.counts["frames"] += len(burst)
                if await self._over(reader):
                    return

    async def sharing(self) -> None:
        """A share consumer that works, and between its requests the same ones, mutated."""
        pick = self.pick
        consumer = sharing.Consumer(pick, pick.choice(self.topic_ids))
        async with self.connected() as (reader, writer):
            writer.write(consumer.join())
            await self._answer(reader)
            for _ in range(50):
                if not self.going:
                    return
                asked = consumer.next()
                if pick.random() < 0.4:
                    wrong = mutate.mutate(pick, asked[4:], self.corpus)
                    if frames.harmless(wrong):
                        writer.write(sized(wrong))
                        self.counts["mutated share requests"] += 1
                        await self._answer(reader)
                    continue
                writer.write(asked)
                consumer.learn(await self._answer(reader))
                self.counts["share requests"] += 1

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        """The next answer, without its length. A mutated request may want none, or wait: then nothing."""
        try:
            async with asyncio.timeout(1):
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                return await reader.readexactly(size)
        except TimeoutError as error:
            raise EOFError from error

    async def _over(self, reader: asyncio.StreamReader) -> bool:
        """Read what there is; True at the end of the connection."""
        try:
            async with asyncio.timeout(0.05):
                return not await reader.read(1 << 16)
        except TimeoutError:
            return False

    async def strangers(self) -> None:
        """Logins that are none."""
        async with self.connected(self.asking) as (reader, writer):
            kind = self.pick.choice(logins.KINDS)
            self.counts["strangers"] += 1
            for said in kind(self.pick, self.corpus):
                writer.write(said)
                if self.pick.random() < 0.5 and await self._over(reader):
                    return
            async with asyncio.timeout(self.pick.choice((1, 15))):
                while await reader.read(1 << 16):
                    pass

    async def wrong_lengths(self) -> None:
        async with self.connected() as (reader, writer):
            writer.write(frames.wrong_length(self.pick))
            self.counts["wrong lengths"] += 1
            async with asyncio.timeout(_PATIENCE):
                await reader.read(1)
        await asyncio.sleep(0.02)

    # -- patience -----------------------------------------------------------------------------------------------------

    async def half_frames(self) -> None:
        """Half a frame and silence."""
        async with self.connected() as (reader, writer):
            frame = sized(self.pick.choice(self.corpus))
            writer.write(frame[: self.pick.randrange(len(frame))])
            self.counts["half frames"] += 1
            async with asyncio.timeout(self.pick.choice((1, 10, 60))):
                await reader.read(1)

    async def left_open(self) -> None:
        async with self.connected() as (reader, _):
            self.counts["left open"] += 1
            async with asyncio.timeout(60):
                await reader.read(1)

    async def slow_sender(self) -> None:
        """A frame byte by byte."""
        async with self.connected() as (_, writer):
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.counts["slow senders"] += 1
            for byte in sized(self.pick.choice(self.corpus)):
                if not self.going or writer.is_closing():
                    return
                writer.write(bytes((byte,)))
                await asyncio.sleep(self.pick.choice((0.01, 0.1, 0.5)))

    async def memory_filler(self) -> None:
        """Nearly all of a frame of 100 MB, then nothing: many of them want more than memory.max.bytes."""
        async with self.connected() as (reader, writer):
            writer.write(API_VERSIONS + struct.pack(">ihhih", 100_000_000, 0, 9, 1, -1))
            chunk = bytes(1 << 20)
            for _ in range(90):
                if not self.going:
                    return
                writer.write(chunk)
                self.counts["megabytes of unfinished frames"] += 1
                async with asyncio.timeout(_PATIENCE):
                    await writer.drain()
            async with asyncio.timeout(60):
                await reader.read(1)

    async def crumbs(self) -> None:
        """A large frame in many small writes: what is kept of it must not be many times its bytes."""
        async with self.connected() as (_, writer):
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            writer.write(API_VERSIONS + struct.pack(">ihhih", 50_000_000, 0, 9, 1, -1))
            self.counts["frames in crumbs"] += 1
            for _ in range(100_000):
                if not self.going or writer.is_closing():
                    return
                writer.write(b"xy")
                await asyncio.sleep(0.0005)

    async def never_reads(self) -> None:
        """Asks and asks, and takes no answer."""
        _, writer = await asyncio.wait_for(asyncio.open_connection(*self.where), _PATIENCE)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        self.counts["clients that never read"] += 1
        try:
            question = self.pick.choice((API_VERSIONS, fetch_all("fuzz"), request(3, 1, b"\xff\xff\xff\xff")))
            async with asyncio.timeout(self.pick.choice((2, 30))):
                while self.going:
                    writer.write(question * 100)
                    await writer.drain()
        finally:
            writer.transport.abort()

    async def flood(self) -> None:
        """Ten thousand requests in one go."""
        batch = self.pick.choice(batches.good_batches())
        one = self.pick.choice(
            (API_VERSIONS, frames.produce_to("fuzz", batch, acks=0), frames.produce_to("fuzz", batch))
        )
        async with self.connected() as (reader, writer):
            writer.write(one * 10_000)
            self.counts["requests in floods"] += 10_000
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    while await reader.read(1 << 18):
                        pass
        await asyncio.sleep(1)

    # -- weight -------------------------------------------------------------------------------------------------------

    async def bombs(self) -> None:
        codec = self.pick.randrange(1, 5)
        batch = self.pick.choice(
            (
                lambda: batches.bomb(codec, BOMBS[codec]),
                lambda: batches.bomb(codec, BOMBS[codec], batches.RECORDS),
                lambda: batches.bomb(codec, 100 << 20, batches.HEADERS),
                lambda: batches.bomb(compression.ZSTD, 120 << 20, batches.RECORDS),
                lambda: batches.ascending(2_000_000),
                lambda: batches.lying(codec),
            )
        )
        made = await asyncio.to_thread(batch)
        topic = self.pick.choice(frames.TOPICS)
        async with self.connected() as (reader, writer):
            writer.write(frames.produce_to(topic, made))
            self.counts["bombs"] += 1
            async with asyncio.timeout(_PATIENCE):
                await reader.readexactly(4)
            # and what is stored is looked into by its time
            writer.write(list_offsets(topic))
            async with asyncio.timeout(_PATIENCE):
                await reader.readexactly(4)
        await asyncio.sleep(1)

    async def heavy(self) -> None:
        """Requests stuffed to the limit."""
        key = self.pick.choice(sorted({key for key, _ in corpus.pairs()}))
        version = max(version for each, version in corpus.pairs() if each == key)
        made = await asyncio.to_thread(stuffed.any_stuffed, key, version, self.pick.random())
        if made is None:
            return
        async with self.connected() as (reader, writer):
            writer.write(sized(made))
            self.counts["stuffed requests"] += 1
            async with asyncio.timeout(_PATIENCE):
                await reader.read(1 << 16)
        await asyncio.sleep(1)

    async def http(self) -> None:
        """Nonsense for the admin port."""
        pick = self.pick
        async with self.connected(self.admin) as (reader, writer):
            self.counts["HTTP requests"] += 1
            path = pick.choice(PATHS)
            if pick.random() < 0.5:
                path = path.replace(
                    pick.choice("/aeino"), pick.choice(("%00", "%ff", "//", "é", "\x00", "../", "%2f" * 9))
                )
            method = pick.choice(("GET", "GET", "PUT", "POST", "DELETE", "HEAD", "BREW", "G" * 9000))
            body = pick.choice((b"", b"{", b"3", b"[" * 100_000, pick.randbytes(50), b"1e400", b'"\xff"'))
            head = pick.choice(
                (
                    f"Content-Length: {len(body)}",
                    f"Content-Length: {pick.choice((-1, 10**9, 2**63, 'x'))}",
                    "Transfer-Encoding: chunked",
                    "X: " + "y" * 100_000,
                    "\r\n".join(f"H{n}: v" for n in range(5000)),
                    "Origin: http://elsewhere",
                )
            )
            data = f"{method} {path} HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode("utf-8", "replace") + body
            if pick.random() < 0.3:
                data = mutate.flip(pick, data, ())
            if pick.random() < 0.2:
                data = data[: pick.randrange(len(data))]
            writer.write(data)
            async with asyncio.timeout(pick.choice((0.2, 0.2, 0.2, 30))):
                await reader.read(1 << 16)

    async def sweeper(self) -> None:
        """Deletes the topics that mutated names made: the catalog is not what is proven here."""
        async with self.connected() as (reader, writer):
            writer.write(request(3, 1, b"\xff\xff\xff\xff"))
            async with asyncio.timeout(_PATIENCE):
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                answer = await reader.readexactly(size)
            from gateway.wire import codec

            found = codec.decode_response(3, 1, answer, 4)
            kept = (*frames.TOPICS, *frames.INTERNAL)
            names = [
                topic.name
                for topic in found.topics
                if topic.name not in kept and not topic.name.startswith("witness")
            ]
            if names:
                writer.write(
                    request(20, 1, messages.DeleteTopicsRequest(topic_names=names[:2000], timeout_ms=10_000))
                )
                async with asyncio.timeout(_PATIENCE):
                    await reader.readexactly(4)
                self.counts["topics made by accident"] += len(names[:2000])
        await asyncio.sleep(3)


BOMBS = {
    compression.GZIP: 1 << 30,
    compression.SNAPPY: 200 << 20,
    compression.LZ4: 1 << 30,
    compression.ZSTD: 6 << 30,
}
"""What bombs unfold to, in bytes, by codec: as much as fits the topic's max.message.bytes, more or less."""

PATHS = (
    "/",
    "/metrics",
    "/health/live",
    "/health/ready",
    "/admin/v2/clusters",
    "/admin/v2/brokers/health",
    "/admin/v2/brokers/configuration/runtime",
    "/admin/v2/tenants/public",
    "/admin/v2/namespaces/public/default/topics",
    "/admin/v2/persistent/public/default",
    "/admin/v2/persistent/public/default/fuzz/partitions",
    "/admin/v2/persistent/public/default/fuzz/stats",
    "/admin/v2/persistent/public/default/fuzz-http/partitions",
    "/admin/v2/persistent/public/default/fuzz/partitioned-internalStats",
    "/admin/v2/persistent/public/default/fuzz/properties",
    "/admin/v2/broker-stats/topics",
    "/lookup/v2/topic/persistent/public/default/fuzz",
)


def fetch_all(topic: str) -> bytes:
    """A Fetch of a topic from its beginning, version 4."""
    wanted = messages.FetchRequest.FetchTopic
    part = messages.FetchRequest.FetchPartition
    partitions = [part(partition=0, fetch_offset=0, partition_max_bytes=1 << 30)]
    return request(
        1,
        4,
        messages.FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 30, topics=[wanted(topic=topic, partitions=partitions)]
        ),
    )


def list_offsets(topic: str, timestamp: int = 1) -> bytes:
    topics = messages.ListOffsetsRequest.ListOffsetsTopic
    part = messages.ListOffsetsRequest.ListOffsetsPartition
    return request(
        2,
        1,
        messages.ListOffsetsRequest(
            replica_id=-1,
            topics=[topics(name=topic, partitions=[part(partition_index=0, timestamp=timestamp)])],
        ),
    )


CROWDS: tuple[dict[str, int], ...] = (
    {"bulk": 32, "right": 4, "sharing": 6},
    {"bulk": 32, "right": 4, "sharing": 6, "sweeper": 1},
    {
        "wrong_lengths": 2, "half_frames": 100, "left_open": 100, "slow_sender": 100, "memory_filler": 6,
        "crumbs": 2, "never_reads": 12, "flood": 1, "http": 4,
        "strangers": 60,
    },
    {"bombs": 1, "heavy": 1},
)  # fmt: skip
"""How many of each are at work, by process: what takes long to prepare must not keep the others from attacking."""


def main(
    pipe: Any,
    seconds: float,
    seed: object,
    crowd: dict[str, int],
    address: str,
    asking: str,
    admin: str,
    topic_ids: list[bytes],
) -> None:
    """Attack for so long; the counts go into the pipe every second."""
    until = time.monotonic() + seconds
    run(pipe, crowd, lambda: Attackers(address, asking, admin, until, seed, topic_ids))


class Crowd(Protocol):
    """Attackers of several kinds: each is a method."""

    counts: Counter[str]

    @property
    def going(self) -> bool: ...

    async def forever(self, attack: Callable[[], Awaitable[None]]) -> None: ...


def run(pipe: Any, crowd: dict[str, int], make: Callable[[], Crowd]) -> None:
    """So many of each, until they are done; the counts go into the pipe every second."""

    async def work() -> None:
        attackers = make()
        loop = asyncio.get_running_loop()
        tasks = {
            loop.create_task(attackers.forever(getattr(attackers, name)), name=name)
            for name, count in crowd.items()
            for _ in range(count)
        }
        while attackers.going:
            done, _ = await asyncio.wait(tasks, timeout=1, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
            pipe.send(attackers.counts)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=10)
        pipe.send(attackers.counts)

    uvloop.run(work())
