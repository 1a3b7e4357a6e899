"""TLS from files, and again from files that have changed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.auth import issuing
from gateway.auth.context import NONE, REQUIRED, Tls
from gateway.errors import StartError
from tests.gateway.pki import DAY, NOW, Pki, settings

NOW_MS = int(NOW.timestamp() * 1000)
DAY_MS = 86_400_000


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path / "pki")


def tls_of(*flags: str) -> Tls:
    return Tls(settings(*flags), NOW_MS, 0.0)


def shake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends after a handshake in memory, up to where both have said what they have to say."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(there, back, server_side=True)
    theirs = client.wrap_bio(back, there, server_hostname="localhost")
    left = [theirs, ours]
    for _ in range(10):
        for end in list(left):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            left.remove(end)
        if not left:
            return ours, theirs
    raise AssertionError("no end")


def test_a_client_that_trusts_the_ca_gets_the_certificate(pki: Pki) -> None:
    ours, theirs = shake(tls_of(*pki.flags).context(NONE), pki.client())
    assert theirs.version() == "TLSv1.3"
    assert ours.compression() is None
    assert theirs.getpeercert(True) == ssl.PEM_cert_to_DER_cert(pki.certificate_file.read_text())


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1:DeprecationWarning")
def test_versions_are_those_that_are_enabled(pki: Pki) -> None:
    def version(client_most: ssl.TLSVersion, *flags: str) -> str | None:
        client = pki.client()
        client.minimum_version, client.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, client_most
        client.set_ciphers("ALL:@SECLEVEL=0")
        return shake(tls_of(*pki.flags, *flags).context(NONE), client)[1].version()

    assert version(ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
    assert version(ssl.TLSVersion.TLSv1_3, "ssl.enabled.protocols=TLSv1.2") == "TLSv1.2"
    with pytest.raises(ssl.SSLError):
        version(ssl.TLSVersion.TLSv1_1)
    with pytest.raises(ssl.SSLError):
        version(ssl.TLSVersion.TLSv1_2, "ssl.enabled.protocols=TLSv1.3")


def test_ciphers_are_those_that_are_named(pki: Pki) -> None:
    flags = (*pki.flags, "ssl.enabled.protocols=TLSv1.2", "ssl.cipher.suites=ECDHE-ECDSA-AES128-GCM-SHA256")
    _, theirs = shake(tls_of(*flags).context(NONE), pki.client())
    cipher = theirs.cipher()
    assert cipher is not None
    assert cipher[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"
    with pytest.raises(StartError, match=r"ssl\.cipher\.suites has no cipher"):
        tls_of(*pki.flags, "ssl.cipher.suites=TLS_NONSENSE")


def test_clients_are_asked_for_certificates_of_the_ca(pki: Pki) -> None:
    context = tls_of(*pki.asking()).context(REQUIRED)
    ours, _ = shake(context, pki.client("ada"))
    assert ours.getpeercert()["subject"] == ((("commonName", "ada"),),)  # type: ignore[index]
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake(context, pki.client())
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shake(context, pki.client("eve", issuing.authority("a CA", NOW)))
    ours, _ = shake(tls_of(*pki.asking("requested")).context("requested"), pki.client())
    assert ours.getpeercert(True) is None, "nobody is made to"


def test_a_session_is_not_taken_up_again_where_certificates_are_asked_for(pki: Pki) -> None:
    asked, not_asked = tls_of(*pki.asking()).context(REQUIRED), tls_of(*pki.flags).context(NONE)
    assert asked.num_tickets == 0
    assert asked.options & ssl.OP_NO_TICKET
    assert not_asked.num_tickets


def test_whoever_asks_for_certificates_must_name_cas(pki: Pki) -> None:
    with pytest.raises(StartError, match=r"The listener SSL asks clients for certificates .*--tls-ca"):
        tls_of(*pki.flags, "ssl.client.auth=required")
    with pytest.raises(StartError, match="given twice"):
        tls_of(*pki.asking(), f"ssl.truststore.location={pki.ca_file}")


def test_a_new_certificate_is_shown_from_then_on(pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
    tls = tls_of(*pki.flags)
    before = tls.context(NONE)
    assert tls.ends_in(NOW_MS) == pytest.approx(100 * DAY_MS / 1000, abs=2)
    with caplog.at_level("INFO", "magnetar.tls"):
        asyncio.run(tls.look(NOW_MS))
        assert tls.context(NONE) is before, "nothing has changed"
        assert not caplog.records
        new = pki.renew(days=200)
        asyncio.run(tls.look(NOW_MS))
    assert tls.context(NONE) is not before, "sessions of the old one are not taken up again"
    _, theirs = shake(tls.context(NONE), pki.client())
    assert ssl.DER_cert_to_PEM_cert(theirs.getpeercert(True) or b"") == new.certificate_pem.decode()
    assert tls.ends_in(NOW_MS) == pytest.approx(200 * DAY_MS / 1000, abs=2)
    (record,) = caplog.records
    assert record.getMessage() == "certificate loaded"
    assert record.__dict__["days_left"] in (199, 200)


def test_while_new_files_cannot_be_used_the_old_ones_stay(pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
    tls = tls_of(*pki.flags)
    before = tls.context(NONE)
    other = issuing.server(pki.ca, ["localhost"], NOW, 50)
    pki.write("server-key.pem", other.key_pem)
    asyncio.run(tls.look(NOW_MS))
    asyncio.run(tls.look(NOW_MS))
    assert tls.context(NONE) is before
    assert [each.levelname for each in caplog.records] == ["ERROR"], "told once"
    assert "is not of that key" in caplog.text
    # its certificate comes a little later
    pki.write("server.pem", other.certificate_pem)
    asyncio.run(tls.look(NOW_MS))
    assert tls.context(NONE) is not before
    shake(tls.context(NONE), pki.client())
    pki.certificate_file.unlink()
    before = tls.context(NONE)
    asyncio.run(tls.look(NOW_MS))
    assert tls.context(NONE) is before
    assert "No such file" in caplog.text


def test_connections_are_asked_about_when_a_ca_goes_and_not_when_one_comes(pki: Pki) -> None:
    tls = tls_of(*pki.asking())
    der = ssl.PEM_cert_to_DER_cert(issuing.client(pki.ca, "ada", NOW, 1).certificate_pem.decode())
    told: list[str] = []

    def shown() -> dict[bytes, list[Callable[[], None]]]:
        told.append("asked")
        return {der: [lambda: told.append("ended")] * 2}

    tls.shown.append(shown)
    other = issuing.authority("another", NOW)
    pki.write("ca.pem", pki.ca.certificate_pem + other.certificate_pem)
    asyncio.run(tls.look(NOW_MS))
    assert not told
    pki.write("ca.pem", pki.ca.certificate_pem)
    asyncio.run(tls.look(NOW_MS))
    assert told == ["asked"], "its own CA is still there"
    pki.write("ca.pem", other.certificate_pem)
    asyncio.run(tls.look(NOW_MS))
    assert told == ["asked", "asked", "ended", "ended"]
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shake(tls.context(REQUIRED), pki.client("bob"))


def test_a_certificate_that_begins_later_is_taken_when_it_has(
    pki: Pki, caplog: pytest.LogCaptureFixture
) -> None:
    tls = tls_of(*pki.flags)
    before = tls.context(NONE)
    pki.put(issuing.server(pki.ca, ["localhost"], NOW + issuing.BACKDATED + DAY, 200))
    for hour in (0, 1, 23):
        asyncio.run(tls.look(NOW_MS + hour * 3_600_000))
    assert tls.context(NONE) is before
    assert len(caplog.records) == 1
    assert "begins on" in caplog.text
    asyncio.run(tls.look(NOW_MS + 25 * 3_600_000))
    assert tls.context(NONE) is not before


def test_a_certificate_that_ends_soon_is_warned_of_once_a_day(
    pki: Pki, caplog: pytest.LogCaptureFixture
) -> None:
    tls = tls_of(*pki.flags)
    for day in (60, 71, 71.5, 72, 101):
        asyncio.run(tls.look(int(NOW_MS + day * DAY_MS)))
    said = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(said) == 3
    assert "ends in 28 days" in said[0]
    assert "has ended" in said[2]


def test_a_certificate_that_names_no_host_is_warned_of(pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
    pki.put(issuing.client(pki.ca, "x", NOW, 100))
    tls_of(*pki.flags)
    assert "names no host (subjectAltName)" in caplog.text


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o600])
def test_a_private_key_that_others_can_read_is_warned_of_once(
    pki: Pki, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    pki.key_file.chmod(mode)
    tls = tls_of(*pki.flags)
    asyncio.run(tls.look(NOW_MS))
    said = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    told = f"a private key: {pki.key_file} can be read by others: chmod 600 {pki.key_file}."
    assert said == ([told] if mode != 0o600 else [])


def test_a_keystore_that_others_can_read_is_warned_of(pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
    both = pki.write("both.pem", pki.key_file.read_bytes() + pki.certificate_file.read_bytes())
    both.chmod(0o644)
    tls_of(f"ssl.keystore.location={both}")
    assert f"{both} can be read by others" in caplog.text


def test_who_a_client_is(pki: Pki) -> None:
    class Shown:
        """A transport whose client has shown a certificate."""

        def __init__(self, name: str | None) -> None:
            self.end = shake(tls.context("requested"), pki.client(name))[0]

        def get_extra_info(self, name: str) -> object:
            return {"ssl_object": self.end, "sslcontext": self.end.context}[name]

    tls = tls_of(*pki.asking("requested"), r"ssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/U")
    assert tls.identity_of(Shown("ada")) == ("User:ADA", "SSL", None, None, None, False)  # type: ignore[arg-type]
    assert tls.identity_of(Shown(None)).principal == "User:ANONYMOUS"  # type: ignore[arg-type]
