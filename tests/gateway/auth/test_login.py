"""A login from the choice of its mechanism to the client's identity."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from gateway.auth.errors import RefusedError
from gateway.auth.login import Known, Login, Step, at_home
from gateway.peer import Identity
from semantics.names import Namespace
from tests.gateway.auth.known import MemoryTokens, MemoryUsers, ScramClient, Verifier

EU = Namespace("shop", "eu")
ADA = Identity("User:ada", "token", None, 5000)


def step(login: Login, data: bytes) -> Step:
    async def whole() -> Step:
        found = login.step(data)
        return await found if isinstance(found, Awaitable) else found

    return asyncio.run(whole())


def known(users: MemoryUsers | None = None, *, choose: bool = True, **tokens: Identity) -> Known:
    return Known(users or MemoryUsers(), MemoryTokens(**tokens), choose)


def test_plain() -> None:
    users = MemoryUsers(ada="secret")
    users.put("bob", "secret", home="shop/eu")
    assert step(Login("PLAIN", known(users)), b"\0ada\0secret") == Step(
        b"", Identity("User:ada", "PLAIN", None, None, "ada")
    )
    assert step(Login("PLAIN", known(users)), b"\0bob\0secret").identity == Identity(
        "User:bob", "PLAIN", "shop/eu", None, "bob"
    )
    for wrong in (b"\0ada\0wrong", b"\0eve\0secret", b"nonsense"):
        with pytest.raises(RefusedError):
            step(Login("PLAIN", known(users)), wrong)


def test_a_token_as_a_password() -> None:
    doors = known(abc=ADA, bound=ADA._replace(home="shop/us"))
    assert step(Login("PLAIN", doors), b"\0any\0token:abc") == Step(b"", ADA._replace(mechanism="PLAIN"))
    # Pulsar's clients of Kafka's protocol: the user says where they are at home
    found = step(Login("PLAIN", doors), b"\0shop/eu\0token:abc").identity
    assert found == ADA._replace(mechanism="PLAIN", home="shop/eu", chosen=True)
    found = step(Login("PLAIN", doors), b"\0shop/us\0token:bound").identity
    assert found == ADA._replace(mechanism="PLAIN", home="shop/us")
    with pytest.raises(RefusedError, match="binds it to shop/us"):
        step(Login("PLAIN", doors), b"\0shop/eu\0token:bound")
    with pytest.raises(RefusedError, match="signed"):
        step(Login("PLAIN", doors), b"\0any\0token:forged")


def test_a_home_is_chosen_only_where_one_may_choose() -> None:
    assert at_home(ADA, None, False) == ADA
    assert at_home(ADA, EU, True).home == "shop/eu"
    with pytest.raises(RefusedError, match="does not bind it"):
        at_home(ADA, EU, False)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram(mechanism: str) -> None:
    users = MemoryUsers()
    users.put("ada", "secret", home="shop/eu")
    login, client = Login(mechanism, known(users)), ScramClient(mechanism, "ada", "secret")
    assert (login.mechanism, login.user) == (mechanism, "")
    told = step(login, client.first)
    assert told.identity is None
    assert login.user == "ada"
    done = step(login, client.final(told.data))
    assert done.identity == Identity("User:ada", mechanism, "shop/eu", None, "ada")
    assert done.data == b"v=" + client.server_signature


@pytest.mark.parametrize("name", ["ada", "eve"])
def test_for_nobody_as_much_is_done_as_for_somebody(name: str) -> None:
    """A verifier of nobody takes some 30 µs to make, which is seen in the answer to the first message."""

    class Counting(MemoryUsers):
        made = 0

        def decoy(self, name: str, mechanism: str, /) -> Verifier:
            self.made += 1
            return super().decoy(name, mechanism)

    users = Counting(ada="secret")
    step(Login("SCRAM-SHA-256", known(users)), ScramClient("SCRAM-SHA-256", name, "guess").first)
    assert users.made == 1


def test_two_exchanges_have_two_nonces() -> None:
    users, client = MemoryUsers(ada="secret"), ScramClient("SCRAM-SHA-256", "ada", "secret")
    told = {step(Login("SCRAM-SHA-256", known(users)), client.first).data for _ in range(10)}
    assert len(told) == 10
    assert all(len(each.split(b",")[0]) - len(client.nonce) >= 26 for each in told)


@pytest.mark.parametrize("change", ["password", "gone"])
def test_a_user_that_is_changed_within_the_exchange_is_refused(change: str) -> None:
    users, client = MemoryUsers(ada="secret"), ScramClient("SCRAM-SHA-256", "ada", "secret")
    login = Login("SCRAM-SHA-256", known(users))
    told = step(login, client.first)
    if change == "gone":
        users.delete("ada")
    else:
        users.put("ada", "better")
    with pytest.raises(RefusedError, match="changed meanwhile"):
        step(login, client.final(told.data))


def test_a_user_without_a_verifier_of_the_mechanism_is_refused_at_the_end() -> None:
    users, client = MemoryUsers(ada="secret"), ScramClient("SCRAM-SHA-512", "ada", "secret")
    del users.rows["ada"].verifiers["SCRAM-SHA-512"]
    login = Login("SCRAM-SHA-512", known(users))
    told = step(login, client.first)
    with pytest.raises(RefusedError, match="no password for SCRAM-SHA-512"):
        step(login, client.final(told.data))


def test_oauthbearer() -> None:
    doors = known(abc=ADA)
    login = Login("OAUTHBEARER", doors)
    assert step(login, b"n,,\x01auth=Bearer abc\x01\x01").identity == ADA._replace(mechanism="OAUTHBEARER")
    login = Login("OAUTHBEARER", doors)
    assert step(login, b"n,a=ada,\x01auth=Bearer abc\x01\x01").identity is not None
    for said in (b"n,a=bob,\x01auth=Bearer abc\x01\x01", b"n,,\x01auth=Bearer forged\x01\x01"):
        login = Login("OAUTHBEARER", doors)
        assert step(login, said) == Step(b'{"status":"invalid_token"}')
        with pytest.raises(RefusedError):
            step(login, b"\x01")


def test_where_nothing_is_known_nobody_gets_in() -> None:
    nothing = known()
    for said in (b"\0ada\0secret", b"\0ada\0token:abc"):
        with pytest.raises(RefusedError):
            step(Login("PLAIN", nothing), said)
    assert step(Login("OAUTHBEARER", nothing), b"n,,\x01auth=Bearer abc\x01\x01").identity is None
