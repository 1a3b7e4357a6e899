"""Tokens that clients bring, by the settings."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.auth.errors import BusyError, RefusedError
from gateway.auth.jwks import ASKED_AGAIN_MS
from gateway.auth.tokens import LOOKED_AT_MS, Tokens, TokensError
from gateway.config import Settings
from gateway.peer import Identity
from tests.gateway.auth.issuing import LEAF, https
from tests.gateway.auth.jwt_making import (
    EC_KEY,
    NOW,
    OTHER_EC,
    OTHER_RSA,
    RSA_KEY,
    SECRET,
    der,
    jwk,
    jwks,
    pem,
    token,
)
from tests.gateway.broker.held import Clock

IN_BASE64 = base64.b64encode(SECRET).decode()
GOOD = {"sub": "ada", "iss": "https://issuer", "aud": ["kafka"], "exp": NOW + 60}

PULSAR_S = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.MaccIhK6T-vrQSuu5-y8kKp26FYfQjI220tNmXnzy08"
"""What `pulsar tokens create --subject ada` of Pulsar 4.2.4 printed, by the key of bytes 0 to 31."""


class World:
    def __init__(self, *settings: str) -> None:
        self.clock = Clock(NOW * 1000)
        self.tokens = Tokens(Settings.load(list(settings), None, {}), self.clock)

    async def who(self, text: str) -> Identity | str:
        """Or why not."""
        try:
            return await self.tokens.verify(text)
        except RefusedError as error:
            return "the token itself" if text in error.reason else error.reason
        except BusyError as error:
            return str(error)


def run(test: Callable[[World], Coroutine[Any, Any, None]], *settings: str) -> None:
    async def main() -> None:
        world = World(*settings)
        world.tokens.start()
        try:
            await test(world)
        finally:
            await world.tokens.stop()

    asyncio.run(main())


def own(algorithm: str, claims: Any, key: Any) -> str:
    return token({"alg": algorithm}, claims, key)


def test_without_a_key_no_token_is_taken() -> None:
    async def test(world: World) -> None:
        assert not world.tokens.any
        assert "no key" in str(await world.who(own("HS256", GOOD, SECRET)))
        assert "no key" in str(await world.who(own("none", GOOD, None)))

    run(test)


def test_pulsar_s_tokens_by_a_secret_key() -> None:
    async def test(world: World) -> None:
        assert await world.who(PULSAR_S) == Identity("User:ada", "token")
        bound = own("HS256", {"sub": "ada", "home": "shop/eu", "exp": NOW + 60}, SECRET)
        assert await world.who(bound) == Identity("User:ada", "token", "shop/eu", (NOW + 90) * 1000)
        world.clock.now += 90_000
        assert "ended" in str(await world.who(bound))
        for forged in (
            own("HS256", {"sub": "root"}, bytes(32)),
            own("none", {"sub": "root"}, None),
            own("RS256", {"sub": "root"}, RSA_KEY),
            PULSAR_S.rpartition(".")[0] + ".",
        ):
            assert "nobody who is known" in str(await world.who(forged))

    run(test, f"token.secret.key={IN_BASE64}")


def test_the_claims_that_settings_name() -> None:
    async def test(world: World) -> None:
        said = own("HS256", {"role": "ada", "at": "shop/eu", "sub": "x", "home": "a/b"}, SECRET)
        assert await world.who(said) == Identity("User:ada", "token", "shop/eu")

    run(test, f"token.secret.key={IN_BASE64}", "token.auth.claim=role", "sasl.oauthbearer.home.claim.name=at")


@pytest.mark.parametrize(
    ("algorithm", "key", "other"), [("RS256", RSA_KEY, OTHER_RSA), ("ES256", EC_KEY, OTHER_EC)]
)
def test_pulsar_s_tokens_by_a_public_key(algorithm: str, key: Any, other: Any, tmp_path: Path) -> None:
    for number, raw in enumerate((pem(key), der(key))):
        file = tmp_path / str(number)
        file.write_bytes(raw)

        async def test(world: World, raw: bytes = raw) -> None:
            assert await world.who(own(algorithm, {"sub": "ada"}, key)) == Identity("User:ada", "token")
            for forged in (
                own(algorithm, {"sub": "root"}, other),
                own("HS256", {"sub": "root"}, raw),
                own("HS256", {"sub": "root"}, SECRET),
            ):
                assert "nobody who is known" in str(await world.who(forged))

        run(test, f"token.public.key=file://{file}")


def test_a_key_s_file_is_read_again_when_it_is_another(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(SECRET)
    new = bytes(48)

    async def test(world: World) -> None:
        old_token, new_token = own("HS256", {"sub": "ada"}, SECRET), own("HS256", {"sub": "ada"}, new)
        assert isinstance(await world.who(old_token), Identity)
        # what is no key does not take the place of one that is
        for raw, good, bad in ((b"short", old_token, new_token), (new, new_token, old_token)):
            file.write_bytes(raw)
            world.clock.now += LOOKED_AT_MS
            assert isinstance(await world.who(good), Identity)
            assert isinstance(await world.who(bad), str)
        file.unlink()
        world.clock.now += LOOKED_AT_MS
        assert isinstance(await world.who(new_token), Identity)

    run(test, f"token.secret.key=file://{file}")


@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_a_secret_key_that_others_can_read_is_warned_of(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "key"
    file.write_bytes(SECRET)
    file.chmod(mode)

    async def test(world: World) -> None:
        assert isinstance(await world.who(own("HS256", {"sub": "ada"}, SECRET)), Identity)

    run(test, f"token.secret.key=file://{file}")
    told = f"token.secret.key: {file} can be read by others: chmod 600 {file}."
    assert [each.getMessage() for each in caplog.records] == ([told] if mode == 0o644 else [])


def test_tokens_of_an_issuer(tmp_path: Path) -> None:
    file = tmp_path / "jwks"
    file.write_bytes(jwks(jwk(RSA_KEY, "r"), jwk(EC_KEY, "e")))

    async def test(world: World) -> None:
        ada = Identity("User:ada", "OAUTHBEARER", None, (NOW + 90) * 1000)
        for algorithm, kid, key in (("RS256", "r", RSA_KEY), ("ES256", "e", EC_KEY)):
            assert await world.who(token({"alg": algorithm, "kid": kid}, GOOD, key)) == ada
            assert await world.who(token({"alg": algorithm}, GOOD, key)) == ada
        for claims, why in (
            ({**GOOD, "exp": None}, "exp"),
            ({**GOOD, "exp": NOW - 30}, "ended"),
            ({**GOOD, "aud": "others"}, "aud"),
            ({**GOOD, "iss": "https://other"}, "iss"),
        ):
            assert why in str(await world.who(token({"alg": "RS256", "kid": "r"}, claims, RSA_KEY)))
        unknown = token({"alg": "RS256", "kid": "new"}, GOOD, OTHER_RSA)
        assert "nobody who is known" in str(await world.who(unknown))
        # of one kid another's key
        assert "nobody who is known" in str(
            await world.who(token({"alg": "RS256", "kid": "r"}, GOOD, OTHER_RSA))
        )
        assert "nobody who is known" in str(
            await world.who(token({"alg": "HS256", "kid": "r"}, GOOD, pem(RSA_KEY)))
        )
        file.write_bytes(jwks(jwk(OTHER_RSA, "new")))
        assert "nobody who is known" in str(await world.who(unknown))
        world.clock.now += ASKED_AGAIN_MS
        assert await world.who(unknown) == ada

    run(
        test,
        f"sasl.oauthbearer.jwks.endpoint.url=file://{file}",
        "sasl.oauthbearer.expected.issuer=https://issuer",
        "sasl.oauthbearer.expected.audience=kafka,other",
    )


@pytest.mark.usefixtures("trusted")
def test_an_issuer_behind_https_that_changes_its_keys_and_goes_away() -> None:
    answers = [jwks(jwk(RSA_KEY, "one"))]

    async def handler(request: web.Request) -> web.StreamResponse:
        if not answers:
            raise web.HTTPServiceUnavailable
        return web.Response(body=answers[-1])

    async def main() -> None:
        async with https(handler, LEAF) as url:
            world = World(
                f"sasl.oauthbearer.jwks.endpoint.url={url}",
                f"sasl.oauthbearer.allowed.urls=https://issuer/jwks,{url}",
                "sasl.oauthbearer.sub.claim.name=user",
                "sasl.oauthbearer.home.claim.name=place",
            )
            try:
                claims = {"user": "ada", "place": "shop/eu", "exp": NOW + 1000, "sub": "42"}
                one = token({"alg": "RS256", "kid": "one"}, claims, RSA_KEY)
                two = token({"alg": "ES256", "kid": "two"}, claims, EC_KEY)
                ada = Identity("User:ada", "OAUTHBEARER", "shop/eu", (NOW + 1030) * 1000)
                # who comes first waits for the keys
                assert await world.who(one) == ada
                assert "nobody who is known" in str(await world.who(two))
                answers.append(jwks(jwk(EC_KEY, "two")))
                world.clock.now += ASKED_AGAIN_MS
                assert await world.who(two) == ada
                assert "nobody who is known" in str(await world.who(one))
                answers.clear()
                world.clock.now += ASKED_AGAIN_MS
                assert "nobody who is known" in str(await world.who(one))
                assert await world.who(two) == ada
            finally:
                await world.tokens.stop()

    asyncio.run(main())


def test_both_kinds_beside_each_other(tmp_path: Path) -> None:
    """The key says which rules hold, whatever else a token says."""
    file = tmp_path / "jwks"
    file.write_bytes(jwks(jwk(RSA_KEY, "r")))

    async def test(world: World) -> None:
        assert await world.who(own("HS256", {"sub": "ada"}, SECRET)) == Identity("User:ada", "token")
        of_issuer = token({"alg": "RS256", "kid": "r"}, {"sub": "ada"}, RSA_KEY)
        assert "exp" in str(await world.who(of_issuer))

    run(test, f"sasl.oauthbearer.jwks.endpoint.url=file://{file}", f"token.secret.key={IN_BASE64}")


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("token.secret.key=sesame!", "token.secret.key: A key is a file"),
        ("token.secret.key=c2VzYW1l", "token.secret.key: A secret key has 32 bytes"),
        ("token.secret.key=file:///nowhere/key", "No such file"),
        ("token.public.key=c2VzYW1l", "token.public.key: This is no public key"),
        ("sasl.oauthbearer.jwks.endpoint.url=https://issuer/jwks", "allowed.urls"),
        ("sasl.oauthbearer.jwks.endpoint.url=http://issuer/jwks", "no file"),
    ],
)
def test_settings_with_which_no_token_can_be_verified(setting: str, why: str) -> None:
    with pytest.raises(TokensError, match=why) as refused:
        World(setting)
    assert "sesame" not in str(refused.value)
    assert "c2VzYW1l" not in str(refused.value)


def test_too_many_signatures_at_once(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(pem(RSA_KEY))

    async def test(world: World) -> None:
        text = own("RS256", {"sub": "ada"}, RSA_KEY)
        found = await asyncio.gather(*(world.who(text) for _ in range(400)))
        assert "too many logins at once" in found
        assert Identity("User:ada", "token") in found

    run(test, f"token.public.key=file://{file}")
