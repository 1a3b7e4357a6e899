"""Whether there is a user is not told by the time that a refusal takes: a user with a wrong password and names that
nobody has are tried in turn, and the ranks of their times are compared (Mann and Whitney).

Of SCRAM the answer to the first message counts as well: it comes at once. By chance a proof fails once in some
thousands of runs.
"""

from __future__ import annotations

import random
import secrets
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from compat.peers.magnetar import MagnetarPeer
from compat.peers.secured import Secured
from tests.gateway.auth.known import ScramClient
from tests.proofs.fuzz import logins

USER = "ada"
TRIES = 300
"""Of each kind: a difference of a third of what times vary by is seen nearly always."""
MOST_Z = 4.0
"""In standard deviations of what chance does."""


def z_of(ones: Sequence[float], others: Sequence[float]) -> float:
    """How far the ranks of the first are above those of the others, in standard deviations of what chance does."""
    ranked = sorted([(each, 0) for each in ones] + [(each, 1) for each in others])
    rank_sum = sum(rank for rank, (_, kind) in enumerate(ranked, 1) if not kind)
    n, m = len(ones), len(others)
    expected, spread = n * (n + m + 1) / 2, (n * m * (n + m + 1) / 12) ** 0.5
    return float((rank_sum - expected) / spread)


def plain(address: tuple[str, int], name: str) -> dict[str, float]:
    with socket.create_connection(address, 30) as sock:
        _ask(sock, logins.handshake("PLAIN"))
        return {"PLAIN": _timed(sock, logins.say(f"\0{name}\0guess".encode()))}


def scram(address: tuple[str, int], name: str) -> dict[str, float]:
    with socket.create_connection(address, 30) as sock:
        _ask(sock, logins.handshake("SCRAM-SHA-256"))
        machine = ScramClient("SCRAM-SHA-256", name, "guess", secrets.token_urlsafe(18))
        began = time.perf_counter()
        told = _ask(sock, logins.say(machine.first))
        first = time.perf_counter() - began
        # behind the correlation id, no tagged fields, no error and no text: a length, and the message
        final = machine.final(told[told.index(b"r=") :].split(b"\0")[0])
        return {"SCRAM, first": first, "SCRAM, proof": _timed(sock, logins.say(final))}


def _timed(sock: socket.socket, frame: bytes) -> float:
    began = time.perf_counter()
    _ask(sock, frame)
    return time.perf_counter() - began


def _ask(sock: socket.socket, frame: bytes) -> bytes:
    sock.sendall(frame)
    (size,) = struct.unpack(">i", _exactly(sock, 4))
    return _exactly(sock, size)


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise ConnectionError("the gateway has closed")
        data += more
    return data


def run(seed: object, tries: int = TRIES) -> bool:
    """Try, print what was seen; True when nobody is told."""
    with tempfile.TemporaryDirectory(prefix="magnetar-times-") as folder:
        told = compared(Path(folder), seed, tries)
    for what, z in told.items():
        print(f"times: {what:<14} users are {z:+.1f} standard deviations above nobody ({tries} of each)")
    return all(abs(z) < MOST_Z for z in told.values())


def compared(folder: Path, seed: object, tries: int) -> dict[str, float]:
    """By what was asked, how far a user's times are above nobody's: see `z_of`."""
    pick = random.Random(str(seed))
    users = {name: secrets.token_urlsafe(12) for name in (USER, "bob", "carol")}
    secured = Secured(folder / "tls", "SASL_PLAINTEXT", users=users, super_users=("User:x",))
    times: dict[str, tuple[list[float], list[float]]] = {}
    kinds: tuple[Callable[[tuple[str, int], str], dict[str, float]], ...] = (plain, scram)
    with MagnetarPeer(directory=folder, secured=secured) as gateway:
        host, port = gateway.bootstrap.rsplit(":", 1)
        for _ in range(tries):
            turns = [(kind, somebody) for kind in kinds for somebody in (True, False)]
            pick.shuffle(turns)
            for kind, somebody in turns:
                # a name of the same length, that was never tried before
                name = USER if somebody else secrets.token_hex(2)[:3]
                for what, seconds in kind((host, int(port)), name).items():
                    times.setdefault(what, ([], []))[0 if somebody else 1].append(seconds)
    return {what: z_of(*both) for what, both in times.items()}
