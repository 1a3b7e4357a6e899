"""Those who want to get in where a gateway asks who its clients are, over TLS and without: each method is one of them.

One of them is somebody: eve has a password and a token, and no rights. So whatever she asks for changes nothing. All
the others are nobody, and hear no answer to what they ask for behind their logins.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
import ssl
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

from gateway.wire import codec, messages
from gateway.wire.malformed import Malformed
from tests.gateway.auth.known import ScramClient
from tests.proofs.fuzz import attack, corpus, frames, logins, mutate
from tests.proofs.fuzz.attack import Stream
from tests.proofs.fuzz.forged import Forger
from tests.proofs.fuzz.frames import request, sized

EVE = "eve"
WITNESS = "witness"
TAKEN = "broken-in"
"""The topic that they try to make: it is never there."""
GOT_IN = "got in"
"""Their count of what must not happen."""
_PROBE = 0x0BADCAFE
_PATIENCE = 20.0
_CREATE, _CREATE_VERSION = 19, 2


class Where(NamedTuple):
    """What they know."""

    encrypted: str
    plain: str
    admin: str
    public_key: bytes
    """in PEM"""
    password: str
    """eve's"""
    token: str
    """eve's"""
    topic_ids: list[bytes]


def _probe() -> bytes:
    """What somebody asks who is in: only a super-user gets it."""
    topic = messages.CreateTopicsRequest.CreatableTopic(
        name=TAKEN, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    return request(
        _CREATE,
        _CREATE_VERSION,
        messages.CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False),
        _PROBE,
    )


PROBE = _probe()


class Intruders:
    """All of one process."""

    def __init__(self, until: float, seed: object, where: Where) -> None:
        self.until = until
        self.pick = random.Random(str(seed))
        self.counts: Counter[str] = Counter()
        self._where = where
        self._encrypted, self._plain = _address(where.encrypted), _address(where.plain)
        self._admin = _address(where.admin.removeprefix("http://"))
        self._forger = Forger(self.pick, WITNESS, where.public_key, where.token)
        # they do not mind whom they talk to
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE
        # exchanges that were right once
        self._replays: list[bytes] = []
        self._corpus = corpus.captured() + frames.plausible(self.pick.randrange(1 << 31), where.topic_ids, 2)

    @property
    def going(self) -> bool:
        return time.monotonic() < self.until

    async def forever(self, attack: Callable[[], Awaitable[None]]) -> None:
        """One after another; connections that the gateway ends are what they are for."""
        while self.going:
            try:
                await attack()
            except (OSError, EOFError, RuntimeError):
                self.counts["ended by the gateway"] += 1
                await asyncio.sleep(0.02)

    def _source(self) -> tuple[str, int]:
        """One of the addresses that they come from; the witness has another."""
        return f"127.0.0.{self.pick.randrange(2, 40)}", 0

    @contextlib.asynccontextmanager
    async def _connected(self, encrypted: bool | None = None) -> AsyncIterator[Stream]:
        """A connection over TLS, without, or one of both."""
        if encrypted is None:
            encrypted = self.pick.random() < 0.5
        where, tls = (self._encrypted, self._tls) if encrypted else (self._plain, None)
        opening = asyncio.open_connection(*where, ssl=tls, local_addr=self._source())
        reader, writer = await asyncio.wait_for(opening, _PATIENCE)
        self.counts["connections over TLS" if encrypted else "connections"] += 1
        try:
            yield reader, writer
        finally:
            writer.transport.abort() if self.pick.random() < 0.5 else writer.close()

    # -- what they hear -----------------------------------------------------------------------------------------------

    async def _hear(self, reader: asyncio.StreamReader, seconds: float) -> bytes:
        """All that comes in so long, or until the end."""
        heard = bytearray()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while data := await reader.read(1 << 16):
                    heard += data
        return bytes(heard)

    async def _knock(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, known: bool) -> None:
        """Ask for what takes a super-user. `known`: it may be eve who asks, and is answered."""
        writer.write(PROBE)
        position, heard = 0, await self._hear(reader, self.pick.choice((0.3, 0.3, 5)))
        while len(heard) - position >= 8:
            size, correlation = struct.unpack_from(">ii", heard, position)
            if correlation == _PROBE:
                self.counts["answered as eve" if known and not _made(heard[position + 4 :]) else GOT_IN] += 1
            position += 4 + max(size, 0)

    async def _ask(self, stream: Stream, frame: bytes) -> bytes:
        """The answer, without its length."""
        reader, writer = stream
        writer.write(frame)
        async with asyncio.timeout(_PATIENCE):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            return await reader.readexactly(size)

    # -- connections --------------------------------------------------------------------------------------------------

    async def half_handshakes(self) -> None:
        """A ClientHello in part, mutated, byte by byte, or with other things behind it."""
        pick = self.pick
        hello = _client_hello()
        kinds = {
            "half": hello[: pick.randrange(len(hello))],
            "mutated": mutate.flip(pick, hello, ()),
            "grown": mutate.grow(pick, hello, ()),
            "twice": hello * 2,
            "random": hello + pick.randbytes(pick.choice((1, 100, 70_000))),
            "records": b"\x16\x03\x01\x40\x00" + bytes(16_384),
            "a long one": b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + pick.randbytes(60_000),
            "alerts": b"\x15\x03\x03\x00\x02\x01\x00" * 1000,
            "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "Kafka": logins.VERSIONS,
            "nothing": b"",
        }
        opening = asyncio.open_connection(*self._encrypted, local_addr=self._source())
        reader, writer = await asyncio.wait_for(opening, _PATIENCE)
        self.counts["handshakes that are none"] += 1
        try:
            data = kinds[pick.choice(list(kinds))]
            if pick.random() < 0.1:
                for byte in data[:300]:
                    writer.write(bytes((byte,)))
                    await asyncio.sleep(0.01)
            else:
                writer.write(data)
            await self._hear(reader, pick.choice((0.1, 0.5, 15)))
        finally:
            writer.transport.abort()

    async def floods(self) -> None:
        """Many connections of one address at once, over TLS or not; they say nothing."""
        encrypted = self.pick.random() < 0.5
        source = self._source()
        where, tls = (self._encrypted, self._tls) if encrypted else (self._plain, None)

        async def one() -> asyncio.StreamWriter:
            _, writer = await asyncio.open_connection(*where, ssl=tls, local_addr=source)
            return writer

        async with asyncio.timeout(_PATIENCE):
            opened = await asyncio.gather(*(one() for _ in range(60)), return_exceptions=True)
        self.counts["connections in floods"] += len(opened)
        await asyncio.sleep(self.pick.choice((0.1, 1, 4)))
        for writer in opened:
            if isinstance(writer, asyncio.StreamWriter):
                writer.transport.abort()

    async def before_login(self) -> None:
        """A frame of 100 MB, before anybody has said who it is."""
        async with self._connected() as (reader, writer):
            if self.pick.random() < 0.5:
                writer.write(logins.VERSIONS)
            writer.write(struct.pack(">ihhih", 100_000_000, 0, 9, 1, -1))
            self.counts["large frames before a login"] += 1
            for _ in range(64):
                writer.write(bytes(1 << 16))
                await asyncio.wait_for(writer.drain(), _PATIENCE)
            await self._knock(reader, writer, known=False)

    # -- logins -------------------------------------------------------------------------------------------------------

    async def strangers(self) -> None:
        """Logins that are none."""
        async with self._connected() as (reader, writer):
            kind = self.pick.choice(logins.KINDS)
            self.counts["strangers"] += 1
            for said in kind(self.pick, self._corpus):
                writer.write(said)
            await self._knock(reader, writer, known=False)

    async def noise(self) -> None:
        """Random bytes, as they are or as tokens behind a handshake."""
        pick = self.pick
        async with self._connected() as (reader, writer):
            data = pick.randbytes(pick.choice((1, 9, 300, 70_000)))
            begin = pick.choice((b"", logins.VERSIONS, logins.handshake("PLAIN", 0)))
            mechanism = pick.choice(logins.MECHANISMS)
            said = pick.choice(
                (data, sized(data), logins.say(data), logins.handshake(mechanism, 0) + sized(data))
            )
            writer.write(begin + said)
            self.counts["noise"] += 1
            await self._knock(reader, writer, known=False)

    async def guesses(self) -> None:
        """Exchanges as they should be, and the password is another."""
        pick = self.pick
        name = pick.choice((WITNESS, WITNESS, EVE, "nobody", f"nobody-{pick.randrange(10**6)}"))
        async with self._connected() as stream:
            self.counts["guesses"] += 1
            if pick.random() < 0.5:
                mechanism = pick.choice(logins.MECHANISMS[1:3])
                machine = ScramClient(mechanism, name, "guess", f"n{pick.random()}")
                await self._ask(stream, logins.handshake(mechanism))
                told = await self._ask(stream, logins.say(machine.first))
                final = machine.final(_auth_bytes(told))
                stream[1].write(logins.say(final))
            else:
                stream[1].write(logins.handshake("PLAIN") + logins.say(f"\0{name}\0guess".encode()))
            await self._knock(*stream, known=False)

    async def tokens(self) -> None:
        """Tokens that nobody has signed, by both mechanisms that take them."""
        token = self._forger.any().encode()
        async with self._connected() as (reader, writer):
            self.counts["tokens that are none"] += 1
            if self.pick.random() < 0.5:
                name = self.pick.choice((b"public/default", b"a/b", WITNESS.encode()))
                writer.write(logins.handshake("PLAIN") + logins.say(b"\0" + name + b"\0token:" + token))
            else:
                writer.write(logins.handshake("OAUTHBEARER"))
                writer.write(logins.say(b"n,,\x01auth=Bearer " + token + b"\x01\x01") + logins.say(b"\x01"))
            await self._knock(reader, writer, known=False)

    async def mutated_exchange(self) -> None:
        """Eve's own exchange with something wrong: messages of others, again, in another order, or mutated."""
        pick = self.pick
        mechanism = pick.choice(logins.MECHANISMS[1:3])
        machine = ScramClient(mechanism, EVE, self._where.password, f"n{pick.random()}")
        async with self._connected() as stream:
            self.counts["exchanges with something wrong"] += 1
            await self._ask(stream, logins.handshake(mechanism))
            first, wrong = machine.first, pick.randrange(8)
            if wrong == 0:
                first = mutate.flip(pick, first, ())
            elif wrong == 1:
                first = first.replace(
                    b"n,,", pick.choice((b"n,a=witness,", b"y,,", b"p=tls-exporter,,", b""))
                )
            elif wrong == 2 and self._replays:
                first = pick.choice(self._replays)
            told = await self._ask(stream, logins.say(first))
            final = machine.final(_auth_bytes(told))
            if wrong == 3:
                final = mutate.flip(pick, final, ())
            elif wrong == 4 and self._replays:
                final = pick.choice(self._replays)
            elif wrong == 5:
                final = first
            elif wrong == 6:
                final = final.replace(b"c=biws", b"c=" + base64.b64encode(b"n,a=witness,"))
            elif wrong == 7:
                final = b",".join(reversed(final.split(b",")))
            self._replays = [*self._replays[-20:], first, final]
            again = pick.choice((b"", logins.say(final), logins.say(first), logins.handshake(mechanism)))
            stream[1].write(logins.say(final) + again)
            await self._knock(*stream, known=True)

    async def reauthenticates(self) -> None:
        """Eve is in, and says on the same connection that she is somebody else."""
        pick = self.pick
        async with self._connected() as stream:
            mechanism = await self._log_in(stream)
            self.counts["logins as somebody else"] += 1
            own = self._where.password.encode()
            said = pick.choice(
                (
                    b"\0witness\0" + own,
                    b"witness\0eve\0" + own,
                    b"n,a=witness,n=eve,r=x",
                    b"n,,n=witness,r=abc",
                    b"n,,\x01auth=Bearer " + self._forger.any().encode() + b"\x01\x01",
                    b"\0public/default\0token:" + self._where.token.encode(),
                    pick.randbytes(40),
                )
            )
            other = pick.choice((mechanism, *logins.MECHANISMS))
            stream[1].write(
                logins.handshake(other) + logins.say(said) + pick.choice((b"", logins.say(b"\x01")))
            )
            await self._knock(*stream, known=True)

    async def eve(self) -> None:
        """Eve is in, and asks for everything, rightly and wrongly."""
        pick = self.pick
        async with self._connected() as stream:
            await self._log_in(stream)
            for _ in range(40):
                if not self.going:
                    return
                burst = [pick.choice(self._corpus) for _ in range(8)]
                if pick.random() < 0.5:
                    burst = [mutate.mutate(pick, each, self._corpus) for each in burst]
                stream[1].write(b"".join(map(sized, burst)))
                self.counts["frames"] += len(burst)
                heard = await self._hear(stream[0], 0.05)
                if not heard and stream[0].at_eof():
                    return
            await self._knock(*stream, known=True)

    async def _log_in(self, stream: Stream) -> str:
        """As eve, as one should; the mechanism."""
        mechanism = self.pick.choice(logins.MECHANISMS[1:3])
        machine = ScramClient(mechanism, EVE, self._where.password, f"n{self.pick.random()}")
        await self._ask(stream, logins.handshake(mechanism))
        told = await self._ask(stream, logins.say(machine.first))
        await self._ask(stream, logins.say(machine.final(_auth_bytes(told))))
        self.counts["logins of eve"] += 1
        return mechanism

    # -- HTTP ---------------------------------------------------------------------------------------------------------

    async def http(self) -> None:
        """Headers that let nobody in."""
        pick = self.pick
        method, path = pick.choice(GUARDED)
        heads = [self._authorization() for _ in range(pick.choice((1, 1, 2, 30)))]
        heads += pick.choice(
            (
                [],
                ["Cookie: " + "session=x; " * 500],
                ["Cookie: JSESSIONID=" + "a" * 60_000],
                ["X-Pulsar-Auth-Method-Name: basic", "X-Original-Principal: witness"],
                ["Proxy-Authorization: Basic d2l0bmVzczp4", "X-Forwarded-User: witness"],
                ["Origin: http://elsewhere.example"],
                ["Transfer-Encoding: chunked", "Content-Length: 5"],
                ["Expect: 100-continue", "Content-Length: 1000000000"],
            )
        )
        opening = asyncio.open_connection(*self._admin, local_addr=self._source())
        reader, writer = await asyncio.wait_for(opening, _PATIENCE)
        self.counts["HTTP requests"] += 1
        try:
            head = "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *heads, "", ""])
            writer.write(head.encode("utf-8", "replace"))
            answer = await self._hear(reader, pick.choice((0.3, 0.3, 3)))
            status = answer.split(b" ", 2)[1:2]
            if status and status[0].startswith((b"2", b"3")):
                self.counts[GOT_IN] += 1
            if status:
                self.counts[f"HTTP {status[0].decode('ascii', 'replace')}"] += 1
        finally:
            writer.transport.abort()

    def _authorization(self) -> str:
        pick = self.pick
        eve = base64.b64encode(f"eve:{self._where.password}".encode()).decode()
        said = pick.choice(
            (
                "Basic " + base64.b64encode(b"witness:guess").decode(),
                "Basic " + base64.b64encode(b"witness:" + pick.randbytes(30)).decode(),
                "Basic " + base64.b64encode(b"witness").decode(),
                "Basic " + "QUFB" * 20_000,
                "Basic !!!!",
                "Basic",
                f"Basic {eve}",
                f"basic {eve}x",
                "Bearer " + self._forger.any()[:60_000],
                "Bearer",
                f"Bearer {self._where.token}",
                "Bearer " + "é" * 100,
                "Digest username=witness",
                "Negotiate AAAA",
                "",
                "x" * 7000,
            )
        )
        return f"Authorization: {said}"


GUARDED = (
    ("GET", "/metrics"),
    ("GET", "/admin/v2/magnetar/audit"),
    ("GET", "/admin/v2/brokers/configuration/runtime"),
    ("PUT", f"/admin/v2/persistent/public/default/{TAKEN}/partitions"),
    ("PUT", "/admin/v2/tenants/broken-in"),
    ("DELETE", "/admin/v2/persistent/public/default/fuzz/partitions"),
    ("GET", "/admin/v2/persistent/public/default/fuzz/partitioned-stats"),
    ("POST", "/admin/v2/brokers/configuration/max.connections/1"),
)
"""What takes a super-user, or a right that eve has not."""


def _address(text: str) -> tuple[str, int]:
    host, port = text.rsplit(":", 1)
    return host, int(port)


def _auth_bytes(answer: bytes) -> bytes:
    """Of an answer to SaslAuthenticate version 2; raises EOFError where it is none that goes on."""
    try:
        found: Any = codec.decode_response(36, 2, answer, 5)
    except (Malformed, LookupError) as error:
        raise EOFError from error
    if found.error_code or not found.auth_bytes.startswith(b"r="):
        raise EOFError
    data: bytes = found.auth_bytes
    return data


def _made(answer: bytes) -> bool:
    """Whether an answer to the probe says that it was done."""
    found: Any = codec.decode_response(_CREATE, _CREATE_VERSION, answer, 4)
    return any(not topic.error_code for topic in found.topics)


def _client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


CROWDS: tuple[dict[str, int], ...] = (
    {"half_handshakes": 60, "floods": 3, "before_login": 4, "strangers": 40, "noise": 10},
    {"guesses": 20, "tokens": 10, "mutated_exchange": 20, "reauthenticates": 10, "eve": 6, "http": 8},
)
"""How many of each are at work, by process."""


def main(pipe: Any, seconds: float, seed: object, crowd: dict[str, int], where: Where) -> None:
    """Attack for so long; the counts go into the pipe every second."""
    until = time.monotonic() + seconds
    attack.run(pipe, crowd, lambda: Intruders(until, seed, where))
