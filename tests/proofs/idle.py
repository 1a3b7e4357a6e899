"""Ten thousand clients that have logged in over TLS and say nothing: what each of them costs, and that one among them
that works does not notice.

`make idle`. Prints the memory (resident) for each step; ends with 1 where a client costs more than it may, the witness
complains, or memory and files do not come back. Linux only. Times are shown and not judged.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import secrets
import ssl
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import uvloop

from compat.peers.magnetar import MagnetarPeer
from compat.peers.secured import Secured
from compat.stopping import stoppable
from tests.gateway.auth.jwt_making import token
from tests.proofs.fuzz import logins, witness
from tests.proofs.topics import resident

KIB_EACH = 96
"""Memory that an idle client may cost."""
MIB_LEFT = 120
"""Memory that may stay when all have gone: glibc keeps what is free between what is not."""
AT_ONCE = 20
"""Clients that come at a time, each from one of many addresses: one may begin so many handshakes in a second."""
FILES = 1_000
"""Files that a process needs beside connections."""


def hold(pipe: Connection, address: str, bearer: str, count: int, plain: bool) -> None:
    """In a process of its own: so many clients come, log in and stay, until something comes by the pipe."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    host, port = address.rsplit(":", 1)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    said = logins.handshake("OAUTHBEARER") + logins.say(
        b"n,,\x01auth=Bearer " + bearer.encode() + b"\x01\x01"
    )

    async def come(number: int, gate: asyncio.Semaphore) -> asyncio.StreamWriter:
        async with gate:
            source = f"127.0.{1 + number % 50}.{2 + number // 50 % 200}", 0
            reader, writer = await asyncio.open_connection(
                host, int(port), ssl=None if plain else tls, local_addr=source, limit=1024
            )
            writer.write(said)
            for _ in range(2):
                size = int.from_bytes(await reader.readexactly(4), "big")
                answer = await reader.readexactly(size)
            # the error of SaslAuthenticate, behind the correlation id and no tagged fields
            if answer[5:7] != b"\0\0":
                raise ConnectionError(f"a login was answered {answer!r}")
            return writer

    async def work() -> None:
        gate = asyncio.Semaphore(AT_ONCE)
        held: list[asyncio.StreamWriter] = []
        for begin in range(0, count, 1000):
            held += await asyncio.gather(*(come(n, gate) for n in range(begin, min(begin + 1000, count))))
            pipe.send(len(held))
        await asyncio.to_thread(pipe.recv)
        ended = sum(writer.transport.is_closing() for writer in held)
        pipe.send(ended)
        for writer in held:
            writer.transport.abort()

    uvloop.run(work())


def sockets(pid: int) -> int:
    """Files of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def prove(folder: Path, count: int, plain: bool) -> list[str]:
    """What was wrong."""
    secured = Secured(
        folder / "tls",
        "SASL_PLAINTEXT" if plain else "SASL_SSL",
        users={"witness": secrets.token_urlsafe(16)},
        super_users=("User:witness",),
        authorizer=True,
    )
    key = secrets.token_bytes(32)
    (folder / "secret.key").write_bytes(key)
    settings: dict[str, str | int] = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,OAUTHBEARER",
        "token.secret.key": f"file://{folder}/secret.key",
        "connections.max.idle.ms": 3_600_000,
        "store.tail.cache.bytes": 16 << 20,
    }
    wrong: list[str] = []
    spawning = multiprocessing.get_context("spawn")
    with MagnetarPeer(directory=folder, settings=settings, secured=secured) as gateway:
        clients = {"bootstrap.servers": gateway.bootstrap, **secured.librdkafka("witness")}
        before, files = resident(gateway.pid), sockets(gateway.pid)
        began = time.monotonic()

        def say(what: str) -> None:
            passed = time.monotonic() - began
            print(f"{what:<52} {passed:7.1f} s  {resident(gateway.pid):7.0f} MiB", flush=True)

        say("nobody is there")
        own, other = spawning.Pipe()
        bearer = token({"alg": "HS256"}, {"sub": "idle"}, key)
        holding = spawning.Process(target=hold, args=(other, gateway.bootstrap, bearer, count, plain))
        watching = None
        holding.start()
        try:
            there = 0
            while there < count:
                if not own.poll(300):
                    return ["the clients do not come in"]
                there = own.recv()
                say(f"{there:,} clients have logged in and are idle")
            each = (resident(gateway.pid) - before) * 1024 / count
            print(f"an idle client costs {each:.1f} KiB", flush=True)
            if each > KIB_EACH:
                wrong.append(f"an idle client costs {each:.1f} KiB, more than {KIB_EACH}")
            pipe, end = spawning.Pipe()
            watching = spawning.Process(target=witness.main, args=(end, clients, "witness-idle", 10.0))
            watching.start()
            # that it is ready, and what it saw
            for _ in range(2):
                if not pipe.poll(180):
                    return [*wrong, "the witness hangs"]
                account = pipe.recv()
            say(f"a client among them: {account.produced:,} messages, there and back")
            print(
                "  slowest: " + ", ".join(f"{what} {s * 1000:.0f} ms" for what, s in account.slowest.items())
            )
            wrong += account.complaints
            if not account.consumed:
                wrong.append("the witness did nothing")
            own.send("go")
            if ended := own.recv():
                wrong.append(f"{ended} idle clients were ended")
        finally:
            for process in (holding, watching):
                if process is not None:
                    process.join(60)
                    if process.is_alive():
                        process.kill()
        deadline = time.monotonic() + 60
        while sockets(gateway.pid) > files + 20 and time.monotonic() < deadline:
            time.sleep(0.2)
        say("all have gone")
        if (left := sockets(gateway.pid)) > files + 20:
            wrong.append(f"{left} files are open, {files} were before")
        if (more := resident(gateway.pid) - before) > MIB_LEFT + count * KIB_EACH / 1024 / 2:
            wrong.append(f"{more:.0f} MiB are left of them")
        if "Traceback" in gateway.log():
            wrong.append("a traceback is in the log")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs.idle",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--clients", type=int, default=10_000, help="default: %(default)s")
    parser.add_argument("--plain", action="store_true", help="without TLS")
    arguments = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if arguments.clients > most - FILES:
        parser.error(f"a process may have {most} files here: raise the hard limit (ulimit -Hn)")
    with tempfile.TemporaryDirectory(prefix="magnetar-idle-") as folder:
        wrong = prove(Path(folder), arguments.clients, arguments.plain)
    for each in wrong:
        print(f"WRONG: {each}")
    return 1 if wrong else 0


if __name__ == "__main__":
    with stoppable():
        sys.exit(main())
