"""The small CA: what it signs is taken by who trusts it, for what it is for."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from gateway.auth import certificates, issuing
from gateway.auth.context import REQUIRED, load
from tests.gateway.auth.test_context import shake
from tests.gateway.pki import DAY, NOW, Pki, settings

NOW_MS = int(NOW.timestamp() * 1000)


@pytest.mark.parametrize("host", ["kafka.example", "10.1.2.3", "fe80::1", "x" * 63 + "." + "y" * 60])
def test_a_server_is_known_by_each_of_its_names(tmp_path: Path, host: str) -> None:
    pki = Pki(tmp_path / "pki")
    pair = issuing.server(pki.ca, [host, "localhost"], NOW, 30)
    assert set(certificates.names_of(pair.certificate)) == {host, "localhost"}
    assert pair.certificate.not_valid_after_utc == (NOW + 30 * DAY).replace(microsecond=0)
    pki.put(pair)
    shake(load(settings(*pki.flags), NOW_MS).contexts["none"], pki.client())


def test_a_client_s_certificate_is_none_of_a_server(tmp_path: Path) -> None:
    pki = Pki(tmp_path / "pki")
    pki.put(issuing.client(pki.ca, "localhost", NOW, 30))
    with pytest.raises(ssl.SSLError, match="certificate purpose"):
        shake(load(settings(*pki.flags), NOW_MS).contexts["none"], pki.client())


def test_a_server_s_certificate_is_none_of_a_client(tmp_path: Path) -> None:
    pki = Pki(tmp_path / "pki")
    client = pki.client()
    client.load_cert_chain(pki.certificate_file, pki.key_file)
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shake(load(settings(*pki.asking()), NOW_MS).contexts[REQUIRED], client)


def test_what_was_signed_can_sign_nothing(tmp_path: Path) -> None:
    pki = Pki(tmp_path / "pki")
    ada = issuing.client(pki.ca, "ada", NOW, 30)
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shake(load(settings(*pki.asking()), NOW_MS).contexts[REQUIRED], pki.client("eve", ada))


def test_a_pair_is_read_as_it_was_written() -> None:
    ca = issuing.authority("a CA", NOW)
    assert issuing.read(ca.certificate_pem, ca.key_pem).certificate == ca.certificate
    with pytest.raises(ValueError, match="another certificate"):
        issuing.read(ca.certificate_pem, issuing.authority("a CA", NOW).key_pem)
