"""Tokens that clients bring: Pulsar's, signed with a key that the gateway has, and those of an issuer (OAUTHBEARER).

The key that verifies a token says which rules it is held to (`claims.py`). Of both kinds a token proves who its bearer
is, and nothing of what it may do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gateway.auth import private_files
from gateway.auth.claims import Rules, decide
from gateway.auth.errors import RefusedError
from gateway.auth.pool import Pool

if TYPE_CHECKING:
    from gateway.auth.jwks import Jwks
    from gateway.auth.token_keys import TokenKey
    from gateway.clock import Clock
    from gateway.config import Settings
    from gateway.peer import Identity

log = logging.getLogger("magnetar.auth")

LOOKED_AT_MS = 1000
"""How often a key's file is looked at whether it has changed."""
HOME = "home"
"""The claim of Pulsar's tokens that names a home, where no setting says another."""


class TokensError(ValueError):
    """A setting of tokens with which none can be verified. The text is a sentence for a person, without any key."""


class _OwnKey:
    """A key of Pulsar's tokens, read again when its file is another."""

    def __init__(self, setting: str, location: str, make: Callable[[bytes], TokenKey]) -> None:
        """Raises TokensError."""
        from gateway.auth import token_keys

        self._setting = setting
        self._location = location
        self._make = make
        self._path = token_keys.file_of(location)
        self._seen = self._stamp()
        self._looked_at: int | None = None
        try:
            self._key = make(token_keys.read(location))
        except token_keys.KeyProblem as error:
            raise TokensError(f"{setting}: {error}") from None
        if make is token_keys.of_secret and self._path is not None:
            why = private_files.warning(self._path)
            if why is not None:
                log.warning("%s: %s", setting, why)

    def get(self, now: int) -> TokenKey:
        """`now` is monotonic, in ms."""
        if self._path is None or (self._looked_at is not None and now - self._looked_at < LOOKED_AT_MS):
            return self._key
        self._looked_at = now
        stamp = self._stamp()
        if stamp != self._seen:
            from gateway.auth import token_keys

            self._seen = stamp
            try:
                self._key = self._make(token_keys.read(self._location))
                log.info("a key of tokens was read again", extra={"setting": self._setting})
            except token_keys.KeyProblem as error:
                log.warning("%s is as it was, since its file cannot be used: %s", self._setting, error)
        return self._key

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            stat = self._path.stat() if self._path is not None else None
        except OSError:
            return None
        return (stat.st_mtime_ns, stat.st_size, stat.st_ino) if stat is not None else None


class Tokens:
    """What verifies them."""

    def __init__(self, settings: Settings, clock: Clock, pool: Pool | None = None) -> None:
        """Without a setting of tokens none is taken. Raises TokensError."""
        self._clock = clock
        self._pool = pool or Pool()
        skew = settings.integer("sasl.oauthbearer.clock.skew.seconds")
        home = settings.optional_text("sasl.oauthbearer.home.claim.name")
        self._own_rules = Rules(
            "token", settings.text("token.auth.claim"), home or HOME, first_of_list=True, skew=skew
        )
        self._rules = Rules(
            "OAUTHBEARER",
            settings.text("sasl.oauthbearer.sub.claim.name"),
            home,
            settings.optional_text("sasl.oauthbearer.expected.issuer"),
            settings.strings("sasl.oauthbearer.expected.audience"),
            must_expire=True,
            skew=skew,
        )
        self._own = _own_keys(settings)
        self._jwks = _jwks(settings, clock)

    @property
    def any(self) -> bool:
        """Whether there is a key, so that some token might be taken."""
        return bool(self._own) or self._jwks is not None

    def start(self) -> None:
        """Begin to read keys of others; it does not wait for them."""
        if self._jwks is not None:
            self._jwks.start()

    async def stop(self) -> None:
        self._pool.close()
        if self._jwks is not None:
            await self._jwks.stop()

    async def verify(self, text: str) -> Identity:
        """Who the bearer of a token is. Raises RefusedError, BusyError."""
        if not self.any:
            raise RefusedError(
                "there is no key of tokens (token.secret.key, token.public.key, sasl.oauthbearer.*)"
            )
        from gateway.auth import token_keys

        head = token_keys.head_of(text)
        now = self._clock.monotonic_ms()
        for own in self._own:
            claims = await self._claims(text, own.get(now), head.algorithm)
            if claims is not None:
                return decide(claims, self._own_rules, self._clock.wall_ms())
        if self._jwks is not None:
            for key in await self._jwks.find(head.kid, head.algorithm):
                claims = await self._claims(text, key, head.algorithm)
                if claims is not None:
                    return decide(claims, self._rules, self._clock.wall_ms())
        raise RefusedError("the token is signed by nobody who is known here")

    async def _claims(self, text: str, key: TokenKey, algorithm: str) -> Mapping[str, object] | None:
        from gateway.auth import token_keys

        if algorithm not in key.algorithms:
            return None
        if algorithm.startswith("HS"):
            return token_keys.claims_of(text, key)
        # 40 to 90 µs, and more of a long key
        return await self._pool.run(lambda: token_keys.claims_of(text, key))


def _own_keys(settings: Settings) -> list[_OwnKey]:
    """Raises TokensError."""
    secret, public = settings.optional_text("token.secret.key"), settings.optional_text("token.public.key")
    if secret is None and public is None:
        return []
    from gateway.auth import token_keys

    found = []
    if secret is not None:
        found.append(_OwnKey("token.secret.key", secret, token_keys.of_secret))
    if public is not None:
        found.append(_OwnKey("token.public.key", public, token_keys.of_public))
    return found


def _jwks(settings: Settings, clock: Clock) -> Jwks | None:
    """Raises TokensError."""
    url = settings.optional_text("sasl.oauthbearer.jwks.endpoint.url")
    if url is None:
        return None
    from gateway.auth.fetches import fetch_of
    from gateway.auth.jwks import Jwks
    from gateway.auth.token_keys import KeyProblem

    try:
        fetch = fetch_of(url, settings.strings("sasl.oauthbearer.allowed.urls"))
    except KeyProblem as error:
        raise TokensError(f"sasl.oauthbearer.jwks.endpoint.url: {error}") from None
    return Jwks(fetch, settings.integer("sasl.oauthbearer.jwks.endpoint.refresh.ms"), clock.monotonic_ms)
