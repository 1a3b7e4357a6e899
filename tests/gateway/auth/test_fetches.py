"""Keys are read from a file, or from a server that is what it says, and not too large, late or elsewhere."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from aiohttp import web

from gateway.auth import fetches
from gateway.auth.fetches import LARGEST, fetch_of
from gateway.auth.token_keys import KeyProblem
from tests.gateway.auth.issuing import CA, LEAF, https


async def said(url: str, *allowed: str) -> bytes | str:
    """What is read, or why it is not."""
    try:
        return await fetch_of(url, allowed or (url,))()
    except KeyProblem as error:
        return str(error)


@pytest.mark.usefixtures("trusted")
def test_what_a_server_answers() -> None:
    seen = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.path)
        name = request.match_info["name"]
        if name == "moved":
            raise web.HTTPFound("/jwks")
        if name == "broken":
            raise web.HTTPInternalServerError
        return web.Response(body=b"x" * {"large": LARGEST + 1, "largest": LARGEST}.get(name, 3))

    async def main() -> None:
        async with https(handler, LEAF) as url:
            base = url.removesuffix("jwks")
            assert await said(url) == b"xxx"
            assert len(await said(base + "largest")) == LARGEST
            assert "more than" in str(await said(base + "large"))
            assert "500" in str(await said(base + "broken"))
            seen.clear()
            assert "302" in str(await said(base + "moved"))
            assert seen == ["/moved"]

    asyncio.run(main())


def test_a_server_that_nobody_vouches_for_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)

    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"keys")

    async def main() -> None:
        async with https(handler, LEAF) as url:
            assert "cannot be read" in str(await said(url))

    asyncio.run(main())


@pytest.mark.usefixtures("trusted")
def test_a_server_of_another_name_is_not_believed() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"keys")

    async def main() -> None:
        async with https(handler, CA.issue_cert("elsewhere.example")) as url:
            assert "cannot be read" in str(await said(url))

    asyncio.run(main())


@pytest.mark.usefixtures("trusted")
def test_a_server_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "TIMEOUT_SECONDS", 0.05)
    enough = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"{")
        await enough.wait()
        return answer

    async def main() -> None:
        async with https(handler, LEAF) as url:
            assert "has not answered" in str(await said(url))
            enough.set()

    asyncio.run(main())


def test_a_server_that_is_away() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{sock.getsockname()[1]}/jwks"
        assert "cannot be read" in str(asyncio.run(said(url)))


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    url = f"file://{file}"
    assert "No such file" in str(asyncio.run(said(url)))
    file.write_bytes(b"keys")
    # a file needs no leave
    assert asyncio.run(said(url, "https://other")) == b"keys"
    file.write_bytes(bytes(LARGEST + 1))
    assert "more than" in str(asyncio.run(said(url)))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://issuer/jwks", "allowed.urls"),
        ("https://issuer/", "allowed.urls"),
        ("http://issuer/keys", "no file"),
        ("ftp://issuer/keys", "no file"),
        ("file://issuer/keys", "no file"),
        ("https://", "no file"),
        ("https://ada:sesame@issuer/keys", "no file"),
        ("keys.json", "no file"),
    ],
)
def test_what_may_not_be_read(url: str, why: str) -> None:
    with pytest.raises(KeyProblem, match=why) as refused:
        fetch_of(url, ("https://issuer/keys", "http://issuer/keys"))
    assert "sesame" not in str(refused.value)
