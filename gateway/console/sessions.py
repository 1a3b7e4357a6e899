"""Who has logged in from which browser, and the tokens that forms bear.

A session is a random text in a cookie. It stands for what its user showed to log in, which is asked again of the same
code as the admin API's at each request: a password that was changed, a user that was deleted or a token that has ended
ends it. The store knows cookies by their hash, so none can be read back from it.

A token says that a form was made for the browser, and the session, that sends it. It is made of both by a key that is
made at the start and is nowhere else, so nothing is kept for it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable
from typing import NamedTuple

from semantics.shares import crowded

LONGEST_SECONDS = 12 * 3600.0
"""A session ends so long after its login,"""
IDLE_SECONDS = 3600.0
"""or after so long without a request."""
MOST = 1_000
"""Sessions at once; of the owner with most, the one that was used least lately makes room."""
MOST_OF_ONE = 200
"""Of one owner, such as a tenant: above that its own make room."""


class _Session(NamedTuple):
    authorization: str
    # whose room it takes
    owner: str
    began: float
    used: float


class Sessions:
    """Those of one server. `monotonic` tells seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        # by the hash of the cookie, the one used last at the end
        self._open: dict[bytes, _Session] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, authorization: str, owner: str) -> str:
        """The cookie of a new one, for who has logged in by this Authorization header; `owner`: whose room it takes."""
        cookie, now = secrets.token_urlsafe(32), self._monotonic()
        new = _hash(cookie)
        self._open[new] = _Session(authorization, owner, now, now)
        kept = [(key, each.owner, 1) for key, each in self._open.items()]
        for key in crowded(kept, MOST_OF_ONE, MOST, {new}):
            del self._open[key]
        return cookie

    def authorization(self, cookie: str, *, used: bool = True) -> str | None:
        """What its user showed; None when there is no such session (any more).

        `used` is false for what a page asks by itself: that nobody does anything ends a session all the same.
        """
        key, now = _hash(cookie), self._monotonic()
        found = self._open.get(key)
        if found is None or now - found.began >= LONGEST_SECONDS or now - found.used >= IDLE_SECONDS:
            self._open.pop(key, None)
            return None
        if used:
            del self._open[key]
            self._open[key] = found._replace(used=now)
        return found.authorization

    def close(self, cookie: str) -> None:
        """Its user has logged out, or is not known any more."""
        self._open.pop(_hash(cookie), None)


def _hash(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "surrogateescape")).digest()


class Tokens:
    """Those of the forms of one server."""

    def __init__(self) -> None:
        self._key = os.urandom(32)

    @staticmethod
    def browser() -> str:
        """A new name for a browser, for its cookie."""
        return secrets.token_urlsafe(24)

    def of(self, browser: str, session: str) -> str:
        """The token of forms for this browser and session; "" for none."""
        said = f"{len(browser)}:{browser}{session}".encode("utf-8", "surrogateescape")
        return hmac.new(self._key, said, hashlib.sha256).hexdigest()

    def good(self, token: str, browser: str, session: str) -> bool:
        """Whether a form was made for these."""
        right = self.of(browser, session).encode()
        return bool(browser) and hmac.compare_digest(token.encode("utf-8", "surrogateescape"), right)
