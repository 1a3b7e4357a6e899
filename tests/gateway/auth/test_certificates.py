"""Certificates and keys from files: what can be used, and a sentence for each thing that cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from gateway.auth import certificates, issuing
from gateway.errors import StartError
from tests.gateway.pki import DAY, NOW, Pki, settings

NOW_MS = int(NOW.timestamp() * 1000)
LOCK = BestAvailableEncryption(b"secret")


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path / "pki")


def refusal(*flags: str) -> str:
    """The sentence."""
    with pytest.raises(StartError) as caught:
        certificates.own(settings(*flags), NOW_MS)
    text = str(caught.value)
    assert text.endswith(".")
    assert "\n" not in text
    return text


def pair_in(pki: Pki) -> issuing.Pair:
    return issuing.read(pki.certificate_file.read_bytes(), pki.key_file.read_bytes())


def test_a_certificate_and_its_key_in_two_files(pki: Pki) -> None:
    found = certificates.own(settings(*pki.flags), NOW_MS)
    assert found.leaf == pair_in(pki).certificate
    assert certificates.names_of(found.leaf) == ["localhost", "127.0.0.1"]


@pytest.mark.parametrize(
    "form", [PrivateFormat.TraditionalOpenSSL, PrivateFormat.PKCS8], ids=["traditional", "pkcs8"]
)
def test_keys_may_be_locked_and_of_any_form_of_pem(pki: Pki, form: PrivateFormat) -> None:
    key = pair_in(pki).key
    pki.write("server-key.pem", key.private_bytes(Encoding.PEM, form, LOCK))
    assert (
        b"BEGIN PRIVATE KEY" in certificates.own(settings(*pki.flags, "ssl.key.password=secret"), NOW_MS).key
    )
    assert "is locked: give its password (ssl.key.password)" in refusal(*pki.flags)
    assert "ssl.key.password is not its password" in refusal(*pki.flags, "ssl.key.password=other")


def test_a_keystore_in_one_file_of_pem(pki: Pki) -> None:
    pair = pair_in(pki)
    store = pki.write("store.pem", pair.certificate_pem + pki.ca.certificate_pem + pair.key_pem)
    found = certificates.own(settings(f"ssl.keystore.location={store}"), NOW_MS)
    assert found.chain == pair.certificate_pem + pki.ca.certificate_pem


def test_a_keystore_and_a_truststore_in_pkcs12(pki: Pki) -> None:
    pair = pair_in(pki)
    store = pki.write(
        "store.p12",
        pkcs12.serialize_key_and_certificates(b"x", pair.key, pair.certificate, [pki.ca.certificate], LOCK),
    )
    trust = pki.write(
        "trust.p12", pkcs12.serialize_key_and_certificates(None, None, None, [pki.ca.certificate], LOCK)
    )
    flags = ["ssl.keystore.type=PKCS12", f"ssl.keystore.location={store}"]
    found = certificates.own(settings(*flags, "ssl.keystore.password=secret"), NOW_MS)
    assert found.leaf == pair.certificate
    assert "ssl.keystore.password is not its password" in refusal(*flags, "ssl.keystore.password=other")
    trusting = settings(
        "ssl.truststore.type=PKCS12", f"ssl.truststore.location={trust}", "ssl.truststore.password=secret"
    )
    assert certificates.authorities(trusting, NOW_MS) == [pki.ca.certificate]


def test_what_is_missing_is_told(pki: Pki, tmp_path: Path) -> None:
    assert '"magnetar tls self-signed tls"' in refusal()
    assert "there is a key" in refusal(pki.flags[1]).lower()
    assert "give ssl.key.location" in refusal(pki.flags[0])
    assert f"{tmp_path / 'none.pem'} cannot be read: No such file" in refusal(
        f"ssl.certificate.location={tmp_path / 'none.pem'}"
    )
    assert "given twice" in refusal(*pki.flags, f"ssl.keystore.location={pki.key_file}")
    assert "no certificate in PEM" in refusal(f"ssl.certificate.location={pki.key_file}", pki.flags[1])


def test_a_key_of_another_certificate_is_told(pki: Pki) -> None:
    other = issuing.server(pki.ca, ["localhost"], NOW, 10)
    pki.write("server-key.pem", other.key_pem)
    assert "is not of that key" in refusal(*pki.flags)
    pki.write("server.pem", pki.ca.certificate_pem + other.certificate_pem)
    assert "the certificate of the key must come first" in refusal(*pki.flags)
    key = rsa.generate_private_key(65537, 2048)
    pki.write("server-key.pem", key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert "is not of that key" in refusal(*pki.flags)


def test_certificates_that_have_ended_or_not_begun_are_told(pki: Pki) -> None:
    pki.put(issuing.server(pki.ca, ["localhost"], NOW - 20 * DAY, 10))
    assert f"ended on {NOW - 10 * DAY:%Y-%m-%d}" in refusal(*pki.flags)
    pki.put(issuing.server(pki.ca, ["localhost"], NOW + 20 * DAY, 10))
    assert f"begins on {NOW + 20 * DAY - issuing.BACKDATED:%Y-%m-%d}" in refusal(*pki.flags)


def test_java_s_own_keystores_are_told_how_to_become_others(pki: Pki) -> None:
    store = pki.write("old.jks", bytes.fromhex("feedfeed00000002") + bytes(100))
    said = refusal("ssl.keystore.type=PKCS12", f"ssl.keystore.location={store}")
    assert f"keytool -importkeystore -srckeystore {store} -destkeystore old.p12 -deststoretype PKCS12" in said


def test_damaged_files_are_told(pki: Pki) -> None:
    whole = pki.certificate_file.read_bytes()
    pki.write("server.pem", whole.replace(b"MII", b"AAA", 1))
    assert "has a certificate that cannot be read" in refusal(*pki.flags)
    pki.write("server.pem", whole[:-30])
    assert "no certificate in PEM" in refusal(*pki.flags)
    pki.write("server.pem", bytes(certificates.LARGEST + 1))
    assert "no file of certificates" in refusal(*pki.flags)
    pki.write("server.pem", whole)
    pki.write("server-key.pem", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    assert "cannot be read" in refusal(*pki.flags)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda key: b"", "it is empty"),
        (lambda key: key[:-30], "a key begins in it and does not end"),
        (lambda key: b"some text", "nothing in it begins with -----BEGIN PRIVATE KEY-----"),
        (lambda key: b"0\x82\x04\x00", "it is DER or PKCS12"),
        (
            lambda key: b"-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n",
            "it holds CERTIFICATE and",
        ),
    ],
    ids=["empty", "cut", "text", "der", "certificate"],
)
def test_a_file_without_its_key_is_named_and_no_other(
    pki: Pki, made: Callable[[bytes], bytes], why: str
) -> None:
    pki.write("server-key.pem", made(pki.key_file.read_bytes()))
    said = refusal(*pki.flags)
    assert said.startswith(f"{pki.key_file} (ssl.key.location) has no private key in PEM: ")
    assert why in said
    assert "server.pem" not in said


def test_cas_that_have_all_ended_are_told(pki: Pki) -> None:
    old = issuing.authority("old", NOW - (issuing.CA_DAYS + 1) * DAY)
    pki.write("ca.pem", old.certificate_pem)
    with pytest.raises(StartError, match=r"No CA in .* is valid any more"):
        certificates.authorities(settings(f"ssl.ca.location={pki.ca_file}"), NOW_MS)
    pki.write("ca.pem", old.certificate_pem + pki.ca.certificate_pem)
    assert len(certificates.authorities(settings(f"ssl.ca.location={pki.ca_file}"), NOW_MS)) == 2


def test_who_has_signed_a_certificate(pki: Pki, tmp_path: Path) -> None:
    other = issuing.authority("a CA", NOW)
    shown = issuing.client(pki.ca, "ada", NOW, 1).certificate.public_bytes(Encoding.DER)
    assert certificates.issued_by(shown, [other.certificate, pki.ca.certificate])
    assert not certificates.issued_by(shown, [other.certificate]), "a CA of that name, and another key"
    assert not certificates.issued_by(shown, [])
