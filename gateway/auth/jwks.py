"""The keys of an issuer of tokens, read again and again.

Keys that are known stay while the issuer cannot be asked. A token that names a key which is not known has it asked at
once, but not twice in a minute: anybody can make such tokens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gateway.auth.fetches import Fetch
from gateway.auth.token_keys import KeyProblem, TokenKey, of_jwks

log = logging.getLogger("magnetar.auth")

ASKED_AGAIN_MS = 60_000
"""How long after it was asked the issuer is not asked for an unknown key."""
RETRY_MS = 10_000
"""How long after a failure it is asked again."""


class Jwks:
    """Those of one issuer. `monotonic_ms` is a clock; `sleep` waits for so many ms."""

    def __init__(
        self,
        fetch: Fetch,
        refresh_ms: int,
        monotonic_ms: Callable[[], int],
        sleep: Callable[[int], asyncio.Future[None]] | None = None,
    ) -> None:
        self._fetch = fetch
        self._refresh_ms = refresh_ms
        self._now = monotonic_ms
        self._sleep = sleep or _sleep
        self.keys: tuple[TokenKey, ...] = ()
        self._asked_at: int | None = None
        self._asking: asyncio.Task[bool] | None = None
        self._job: asyncio.Task[None] | None = None
        # told once, until it goes well again
        self._failing = False

    def start(self) -> None:
        """Read them now, and again as long as the gateway runs."""
        self._job = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        for task in (self._job, self._asking):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def find(self, kid: str | None, algorithm: str) -> list[TokenKey]:
        """The keys that a token may be signed with which says this of itself. A token without a `kid` is of the only
        key for its algorithm.
        """
        found = self._known(kid, algorithm)
        if not found and self._may_ask():
            await self.refresh()
            found = self._known(kid, algorithm)
        return found

    async def refresh(self) -> bool:
        """Read them now, or wait for who does. False if that failed: then those that are known stay."""
        if self._asking is None or self._asking.done():
            self._asked_at = self._now()
            self._asking = asyncio.ensure_future(self._read())
        return await asyncio.shield(self._asking)

    def _known(self, kid: str | None, algorithm: str) -> list[TokenKey]:
        fitting = [each for each in self.keys if algorithm in each.algorithms]
        if kid is None:
            return fitting if len(fitting) == 1 else []
        return [each for each in fitting if each.kid == kid]

    def _may_ask(self) -> bool:
        if self._asking is not None and not self._asking.done():
            return True
        return self._asked_at is None or self._now() - self._asked_at >= ASKED_AGAIN_MS

    async def _read(self) -> bool:
        try:
            keys = of_jwks(await self._fetch())
            if not keys:
                raise KeyProblem("It has no keys that verify signatures.")
        except KeyProblem as error:
            if not self._failing:
                log.warning("keys of tokens cannot be read; those that are known stay: %s", error)
            self._failing = True
            return False
        except Exception:
            # whatever an issuer says, those that are known stay, and it is asked again
            log.exception("keys of tokens could not be read")
            return False
        if self._failing or {each.kid for each in keys} != {each.kid for each in self.keys}:
            log.info("keys of tokens were read", extra={"keys": len(keys)})
        self._failing, self.keys = False, keys
        return True

    async def _run(self) -> None:
        while True:
            read = await self.refresh()
            await self._sleep(self._refresh_ms if read else min(RETRY_MS, self._refresh_ms))


def _sleep(ms: int) -> asyncio.Future[None]:
    return asyncio.ensure_future(asyncio.sleep(ms / 1000))
