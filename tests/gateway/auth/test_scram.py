"""The server's side of SCRAM: against the RFC's own example, two clients, and whoever lies."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
import scramp
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.errors import RefusedError
from gateway.auth.mechanisms import Challenge, Proved
from gateway.auth.scram import LONGEST_NONCE, Found, Scram
from tests.gateway.auth.known import MemoryUsers, ScramClient, Verifier, made

MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
NONCE = "gateway"


def exchange(mechanism: str = MECHANISMS[0], *, password: str = "pencil", known: str = "ada") -> Scram:
    """One with a user that there is: `known`."""
    users = MemoryUsers()

    def find(name: str) -> Found:
        if name == known:
            return Found(made(mechanism, password), 7)
        return Found(users.decoy(name, mechanism), None)

    return Scram(mechanism, find, NONCE)


def first(scram: Scram, data: bytes) -> bytes:
    outcome = scram.receive(data)
    assert isinstance(outcome, Challenge)
    return outcome.data


def test_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    client = hmac.digest(salted, b"Client Key", "sha256")
    verifier = Verifier(
        salt, 4096, hashlib.sha256(client).digest(), hmac.digest(salted, b"Server Key", "sha256")
    )
    scram = Scram("SCRAM-SHA-256", lambda name: Found(verifier, 1), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert first(scram, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert scram.receive(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    ) == Proved("user", 1, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("password", ["pencil", "two words", "pässwörd", "=,%"])
def test_a_client_that_knows_the_password(mechanism: str, password: str) -> None:
    scram, client = exchange(mechanism, password=password), ScramClient(mechanism, "ada", password)
    proved = scram.receive(client.final(first(scram, client.first)))
    assert isinstance(proved, Proved)
    assert (proved.name, proved.epoch) == ("ada", 7)
    assert proved.data == b"v=" + client.server_signature


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_another_implementation_agrees(mechanism: str) -> None:
    scram, client = exchange(mechanism), scramp.ScramClient([mechanism], "ada", "pencil")
    client.set_server_first(first(scram, client.get_client_first().encode()).decode())
    proved = scram.receive(client.get_client_final().encode())
    assert isinstance(proved, Proved)
    # it checks that the gateway knows the verifier
    client.set_server_final(proved.data.decode())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_is_not_there_is_told_as_much_as_who_has_the_wrong_password(mechanism: str) -> None:
    told = []
    for name in ("ada", "bob"):
        scram, client = exchange(mechanism), ScramClient(mechanism, name, "wrong")
        answer = first(scram, client.first)
        told.append((len(answer), answer.rsplit(b",", 1)[1]))
        with pytest.raises(RefusedError):
            scram.receive(client.final(answer))
    assert told[0] == told[1]


def test_who_is_not_there_does_not_get_in_with_the_decoys_keys() -> None:
    """Whoever knew the secret of decoys could prove that it has one's password."""
    scram = Scram("SCRAM-SHA-256", lambda name: Found(made("SCRAM-SHA-256", "pencil"), None), NONCE)
    client = ScramClient("SCRAM-SHA-256", "bob", "pencil")
    with pytest.raises(RefusedError, match="no such user"):
        scram.receive(client.final(first(scram, client.first)))


def test_a_client_that_could_bind_channels_may_come_and_one_that_does_may_not() -> None:
    scram, client = exchange(), ScramClient("SCRAM-SHA-256", "ada", "pencil")
    answer = first(scram, b"y,," + client.bare.encode())
    assert isinstance(scram.receive(client.final(answer, binding=base64.b64encode(b"y,,").decode())), Proved)
    # somebody has changed the first message on its way
    scram = exchange()
    answer = first(scram, b"n,," + client.bare.encode())
    with pytest.raises(RefusedError, match="channel binding"):
        scram.receive(client.final(answer, binding=base64.b64encode(b"y,,").decode()))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", "does not begin"),
        (b"n,,n=ada", "does not begin"),
        (b"n,,n=ada,r=", "does not begin"),
        (b"n,,n=,r=abc", "does not begin"),
        (b"n,,r=abc,n=ada", "does not begin"),
        (b"n,,n=ada,r=ab\x00c", "does not begin"),
        (b"n,,n=ada,r=abc,", "does not begin"),
        (b"n,,n=ada,r=abc\n", "does not begin"),
        (b"n,,n=\xff,r=abc", "no text"),
        (b"n,,n=a\nda,r=abc", "do not print"),
        (b"n,,n=" + b"a" * 257 + b",r=abc", "257 characters"),
        (b"p=tls-unique,,n=ada,r=abc", "channel binding"),
        (b"n,a=root,n=ada,r=abc", "somebody else"),
        (b"n,,m=x,n=ada,r=abc", "extension"),
        (b"n,,n=a=2Cb,r=abc", "equals sign"),
        (b"n,,n=a=3Db,r=abc", "equals sign"),
        (b"n,,n=ada,r=abc,tokenauth=true", "delegation token"),
        (b"n,,n=ada,r=abc,x=y,TokenAuth=TRUE", "delegation token"),
        (b"n,,n=ada,r=" + b"a" * (LONGEST_NONCE + 1), "4097 bytes"),
        (b"n,,n=ada,r=" + b"a" * 100_000, "bytes"),
    ],
)
def test_a_first_message_that_is_refused(said: bytes, reason: str) -> None:
    with pytest.raises(RefusedError, match=reason):
        exchange().receive(said)


@pytest.mark.parametrize("more", [b",tokenauth=false", b",x=y", b""])
def test_extensions_that_need_not_be_known_are_read_over(more: bytes) -> None:
    assert first(exchange(), b"n,,n=ada,r=abc" + more).startswith(b"r=abcgateway,s=")


def test_the_longest_nonce() -> None:
    assert first(exchange(), b"n,,n=ada,r=" + b"a" * LONGEST_NONCE)


def test_a_proof_that_is_refused() -> None:
    client = ScramClient("SCRAM-SHA-256", "ada", "pencil")

    def refused(change: object, reason: str) -> None:
        scram = exchange()
        answer = first(scram, client.first)
        right = client.final(answer)
        assert callable(change)
        with pytest.raises(RefusedError, match=reason):
            scram.receive(change(right, answer))

    refused(lambda right, answer: b"", "does not prove")
    refused(lambda right, answer: right[:-8], "base64|proof of")
    refused(lambda right, answer: right.replace(b"r=", b"r=x"), "another exchange")
    refused(lambda right, answer: client.final(answer, nonce=client.nonce), "another exchange")
    refused(lambda right, answer: right.replace(b"c=biws", b"c=!"), "does not prove")
    refused(lambda right, answer: right.replace(b"c=biws", b"c=bi"), "base64|channel")
    refused(
        lambda right, answer: right.split(b",p=")[0] + b",p=" + base64.b64encode(bytes(32)), "wrong password"
    )
    refused(lambda right, answer: right.split(b",p=")[0] + b",p=" + base64.b64encode(bytes(64)), "64 bytes")
    refused(lambda right, answer: right + b"\0", "does not prove")
    refused(lambda right, answer: right[:20] + bytes(9000), "9020 bytes")
    refused(lambda right, answer: right.replace(b",p=", b",m=x,p="), "wrong password")


def test_a_proof_is_written_in_one_way() -> None:
    """The last letter of its base64 has bits that mean nothing."""
    scram, client = exchange(), ScramClient("SCRAM-SHA-256", "ada", "pencil")
    right = client.final(first(scram, client.first))
    assert right.endswith(b"=")
    other = right[:-2] + bytes((right[-2] + 1,)) + b"="
    assert base64.b64decode(other[-44:]) == base64.b64decode(right[-44:])
    with pytest.raises(RefusedError, match="base64"):
        scram.receive(other)


def test_the_proof_of_another_exchange_does_not_do() -> None:
    client = ScramClient("SCRAM-SHA-256", "ada", "pencil")
    scram = exchange()
    old = client.final(first(scram, client.first))
    scram = Scram("SCRAM-SHA-256", lambda name: Found(made("SCRAM-SHA-256", "pencil"), 7), "another")
    first(scram, client.first)
    with pytest.raises(RefusedError, match="another exchange"):
        scram.receive(old)


@given(
    st.lists(
        st.binary(max_size=60) | st.from_regex(r"[nyp],[a-z=]*,[nmr]=[a-z]{0,3},r=\w{0,9}").map(str.encode),
        max_size=3,
    )
)
def test_no_bytes_do_anything_else(messages: list[bytes]) -> None:
    scram = exchange()
    for each in messages:
        try:
            assert isinstance(scram.receive(each), Challenge), "nobody guesses a proof"
        except RefusedError:
            return


@given(st.data())
def test_a_proof_with_one_byte_changed_is_none(data: st.DataObject) -> None:
    scram, client = exchange(), ScramClient("SCRAM-SHA-256", "ada", "pencil")
    right = bytearray(client.final(first(scram, client.first)))
    place = data.draw(st.integers(0, len(right) - 1))
    right[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RefusedError):
        scram.receive(bytes(right))
