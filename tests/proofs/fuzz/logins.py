"""What those send who do not log in as one does: each kind gives pieces of bytes, one after another."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator, Sequence

from gateway.wire import messages
from tests.proofs.fuzz import mutate
from tests.proofs.fuzz.frames import request, sized

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
VERSIONS = request(18, 0, b"")

Kind = Callable[[random.Random, Sequence[bytes]], Iterator[bytes]]


def handshake(mechanism: str, version: int = 1) -> bytes:
    return request(17, version, messages.SaslHandshakeRequest(mechanism=mechanism))


def say(data: bytes, version: int = 2) -> bytes:
    return request(36, version, messages.SaslAuthenticateRequest(auth_bytes=data))


def silent(pick: random.Random, corpus: Sequence[bytes]) -> Iterator[bytes]:
    yield b""


def half(pick: random.Random, corpus: Sequence[bytes]) -> Iterator[bytes]:
    """A part of a login."""
    whole = (
        VERSIONS + handshake(pick.choice(MECHANISMS)) + say(b"n,,n=ada,r=" + b"x" * pick.choice((9, 60_000)))
    )
    yield whole[: pick.randrange(len(whole))]


def unasked(pick: random.Random, corpus: Sequence[bytes]) -> Iterator[bytes]:
    """Any request, where a login should be."""
    if pick.random() < 0.5:
        yield VERSIONS
    if pick.random() < 0.5:
        yield handshake(pick.choice(MECHANISMS))
    yield b"".join(sized(each) for each in pick.choices(corpus, k=20))


def mutated(pick: random.Random, corpus: Sequence[bytes]) -> Iterator[bytes]:
    """Requests of a login, each with something wrong."""
    right = [VERSIONS[4:], handshake(pick.choice(MECHANISMS))[4:], say(b"\0ada\0secret")[4:]]
    for each in right:
        yield sized(mutate.mutate(pick, each, corpus) if pick.random() < 0.5 else each)


def guesses(pick: random.Random, corpus: Sequence[bytes]) -> Iterator[bytes]:
    """Passwords and tokens that are none."""
    said = pick.choice((b"\0ada\0guess", b"\0ada\0token:a.b.c", b"\0shop/eu\0token:a.b.c", b"\0" * 9))
    yield handshake("PLAIN", version := pick.choice((0, 1)))
    yield say(said, pick.randrange(3)) if version else sized(said)


def scram(pick: random.Random, corpus: Sequence[bytes]) -> Iterator[bytes]:
    """Exchanges with a nonce of any size, extensions, and a proof that is none."""
    nonce = b"x" * pick.choice((1, 24, 4096, 4097, 60_000, 100_000))
    name = pick.choice((b"ada", b"a=2Cb", b"\xff", b"a" * 300, b""))
    more = pick.choice((b"", b",tokenauth=true", b",m=x", b",x=y" * 2000))
    yield handshake(pick.choice(MECHANISMS[1:3]))
    yield say(
        pick.choice((b"n,,", b"y,,", b"p=tls-unique,,", b"n,a=root,")) + b"n=" + name + b",r=" + nonce + more
    )
    yield say(b"c=biws,r=" + nonce + b"x,p=" + base64.b64encode(pick.randbytes(pick.choice((32, 64, 9)))))


def tokens(pick: random.Random, corpus: Sequence[bytes]) -> Iterator[bytes]:
    """Tokens of any size."""
    yield handshake("OAUTHBEARER")
    token = b"a." * pick.choice((2, 30_000, 262_144))
    yield say(b"n,,\x01auth=Bearer " + token + b"\x01\x01")
    yield say(pick.choice((b"\x01", b"", token)))


def without_end(pick: random.Random, corpus: Sequence[bytes]) -> Iterator[bytes]:
    """The same again and again."""
    yield (
        pick.choice((request(18, 99, b""), VERSIONS, handshake("SCRAM-SHA-256"), say(b"x"), sized(b"")))
        * 10_000
    )


KINDS: tuple[Kind, ...] = (silent, half, unasked, mutated, guesses, scram, tokens, without_end)
