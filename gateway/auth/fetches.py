"""Where the keys of an issuer of tokens come from: a file, or an https:// address that somebody has allowed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from urllib.parse import urlsplit

from gateway.auth.token_keys import KeyProblem, file_of

LARGEST = 1 << 20
"""Bytes of an answer."""
TIMEOUT_SECONDS = 10

Fetch = Callable[[], Awaitable[bytes]]
"""Raises KeyProblem."""


def fetch_of(url: str, allowed: Collection[str]) -> Fetch:
    """What reads an address. Raises KeyProblem for one that may not be read."""
    path = file_of(url)
    if path is not None:
        return lambda: _file(path)
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.username is not None:
        raise KeyProblem(f"{_shown(url)} is no file:// and no https:// address.")
    if url not in allowed:
        raise KeyProblem(f"{url} is not among sasl.oauthbearer.allowed.urls.")
    return lambda: _https(url)


async def _file(path: Path) -> bytes:
    def read() -> bytes:
        with path.open("rb") as file:
            return file.read(LARGEST + 1)

    try:
        found = await asyncio.to_thread(read)
    except OSError as error:
        raise KeyProblem(f"{path} cannot be read: {error.strerror}.") from None
    _check_size(len(found))
    return found


async def _https(url: str) -> bytes:
    # 160 ms, and needed by few
    import aiohttp

    limit = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    # the CAs as the system has them now: it takes some 10 ms
    context = await asyncio.to_thread(ssl.create_default_context)
    try:
        async with (
            aiohttp.ClientSession(
                timeout=limit, auto_decompress=False, connector=aiohttp.TCPConnector(ssl=context)
            ) as session,
            # a redirect would lead to where nobody has allowed
            session.get(url, allow_redirects=False, headers={"Accept-Encoding": "identity"}) as answer,
        ):
            if answer.status != 200:
                raise KeyProblem(f"{url} answers with HTTP status {answer.status}.")
            found = bytearray()
            async for piece in answer.content.iter_any():
                found += piece
                _check_size(len(found))
            return bytes(found)
    except KeyProblem:
        raise
    except TimeoutError:
        raise KeyProblem(f"{url} has not answered within {TIMEOUT_SECONDS} seconds.") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise KeyProblem(f"{url} cannot be read: {error}.") from None


def _check_size(size: int) -> None:
    if size > LARGEST:
        raise KeyProblem(f"The answer has more than {LARGEST:,} bytes.")


def _shown(url: str) -> str:
    """Without what may be a password in it."""
    return url if "@" not in url else f"An address of {url.rpartition('@')[2]}"
