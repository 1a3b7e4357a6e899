"""Keys of an issuer, which may be away, change its keys, or be asked by strangers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from gateway.auth.jwks import ASKED_AGAIN_MS, RETRY_MS, Jwks
from gateway.auth.token_keys import KeyProblem
from tests.gateway.auth.jwt_making import EC_KEY, OTHER_RSA, RSA_KEY, jwk, jwks


class Issuer:
    """What answers, and a clock in the test's hand."""

    def __init__(self, refresh_ms: int = 3_600_000) -> None:
        self.answer: bytes | None = jwks(jwk(RSA_KEY, "one"))
        self.asked = 0
        self.now = 0
        self.held: asyncio.Event | None = None
        # how long the job waits, and what wakes it
        self.waits: list[int] = []
        self._wake: asyncio.Future[None] | None = None
        self.keys = Jwks(self._fetch, refresh_ms, lambda: self.now, self._sleep)

    async def _fetch(self) -> bytes:
        self.asked += 1
        if self.held is not None:
            await self.held.wait()
        if self.answer is None:
            raise KeyProblem("away")
        if self.answer == b"what nobody has thought of":
            raise ZeroDivisionError
        return self.answer

    def _sleep(self, ms: int) -> asyncio.Future[None]:
        self.waits.append(ms)
        self._wake = asyncio.get_running_loop().create_future()
        return self._wake

    async def turns(self) -> None:
        """The job has gone as far as it can."""
        for _ in range(5):
            await asyncio.sleep(0)

    async def wake(self) -> None:
        assert self._wake is not None
        self._wake.set_result(None)
        await self.turns()

    async def found(self, kid: str | None, algorithm: str = "RS256") -> list[str | None]:
        return [each.kid for each in await self.keys.find(kid, algorithm)]


def run(test: Callable[[Issuer], Coroutine[Any, Any, None]], **options: int) -> None:
    async def main() -> None:
        issuer = Issuer(**options)
        issuer.keys.start()
        await issuer.turns()
        try:
            await test(issuer)
        finally:
            await issuer.keys.stop()

    asyncio.run(main())


def test_keys_are_read_at_the_start_and_again() -> None:
    async def test(issuer: Issuer) -> None:
        assert (issuer.asked, issuer.waits) == (1, [3_600_000])
        assert await issuer.found("one") == ["one"]
        assert await issuer.found("one", "ES256") == []
        issuer.answer = jwks(jwk(OTHER_RSA, "two"))
        await issuer.wake()
        assert await issuer.found("two") == ["two"]

    run(test)


def test_keys_stay_while_the_issuer_is_away() -> None:
    async def test(issuer: Issuer) -> None:
        for answer in (
            None,
            b"<html>",
            b"what nobody has thought of",
            jwks(),
            jwks({"kty": "oct", "k": "AAAA"}),
        ):
            issuer.answer = answer
            await issuer.wake()
            assert await issuer.found("one") == ["one"]
        assert issuer.waits[1:] == [RETRY_MS] * 5
        # an issuer that is there and has other keys is believed
        issuer.answer = jwks(jwk(OTHER_RSA, "two"))
        await issuer.wake()
        issuer.now += ASKED_AGAIN_MS
        assert await issuer.found("one") == []
        assert issuer.waits[-1] == 3_600_000

    run(test)


def test_an_unknown_key_is_asked_for_once_in_a_minute() -> None:
    async def test(issuer: Issuer) -> None:
        issuer.answer = jwks(jwk(RSA_KEY, "one"), jwk(OTHER_RSA, "new"))
        # it was asked just now
        assert await issuer.found("new") == []
        issuer.now += ASKED_AGAIN_MS
        assert await issuer.found("new") == ["new"]
        assert issuer.asked == 2
        for n in range(100):
            assert await issuer.found(f"made up {n}") == []
        assert issuer.asked == 2
        issuer.now += ASKED_AGAIN_MS
        await issuer.found("made up")
        assert issuer.asked == 3

    run(test)


def test_those_who_come_while_it_is_asked_wait_for_one_answer() -> None:
    async def test(issuer: Issuer) -> None:
        issuer.now += ASKED_AGAIN_MS
        issuer.held, issuer.answer = asyncio.Event(), jwks(jwk(OTHER_RSA, "new"))
        waiting = [asyncio.ensure_future(issuer.found("new")) for _ in range(3)]
        await issuer.turns()
        # who goes away does not end it for the others
        waiting[0].cancel()
        issuer.held.set()
        assert await asyncio.gather(*waiting[1:]) == [["new"], ["new"]]
        assert issuer.asked == 2

    run(test)


def test_a_token_without_a_key_s_name_is_of_the_only_one() -> None:
    async def test(issuer: Issuer) -> None:
        issuer.answer = jwks(jwk(RSA_KEY, "r"), jwk(EC_KEY))
        await issuer.wake()
        assert await issuer.found(None) == ["r"]
        assert await issuer.found(None, "ES256") == [None]
        issuer.answer = jwks(jwk(RSA_KEY, "r"), jwk(OTHER_RSA, "s"))
        await issuer.wake()
        assert await issuer.found(None) == []

    run(test)


def test_a_short_interval_is_not_made_longer_by_a_failure() -> None:
    async def test(issuer: Issuer) -> None:
        issuer.answer = None
        await issuer.wake()
        assert issuer.waits == [1000, 1000]

    run(test, refresh_ms=1000)
