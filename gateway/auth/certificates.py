"""Certificates and keys from files: PEM or PKCS12, looked at before anything is made of them.

What is wrong with them is said in a sentence that tells what to do. Importing this module imports `cryptography`, which
takes 30 ms: only a gateway that speaks TLS does.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    pkcs12,
)

from gateway.errors import StartError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes

    from gateway.config import Settings

LARGEST = 4 << 20
"""Bytes of a file of certificates: a bundle of all public CAs has a twentieth of it."""

_JKS = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"
_BEGIN, _END = b"-----BEGIN ", b"-----END "


class Own(NamedTuple):
    """What the gateway shows, and proves."""

    chain: bytes
    """PEM: its certificate, and those that lead to its CA"""
    key: bytes
    """PEM, not locked"""
    leaf: x509.Certificate
    where: str
    """the file, for people"""


def files_of(settings: Settings) -> list[Path]:
    """All files that settings of TLS name."""
    names = (
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.keystore.location",
        "ssl.ca.location",
        "ssl.truststore.location",
    )
    return [Path(text) for name in names if (text := settings.optional_text(name))]


def private_of(settings: Settings) -> Path | None:
    """The file that has the private key."""
    names = ("ssl.keystore.location", "ssl.key.location", "ssl.certificate.location")
    return next((Path(text) for name in names if (text := settings.optional_text(name))), None)


def own(settings: Settings, now_ms: int) -> Own:
    """The certificate of the gateway and its key. `now_ms` since 1970. Raises StartError."""
    certificate, key = (settings.optional_text(f"ssl.{each}.location") for each in ("certificate", "key"))
    store = settings.optional_text("ssl.keystore.location")
    if store and (certificate or key):
        raise StartError(
            "The certificate is given twice: by ssl.keystore.location, and by ssl.certificate.location or "
            "ssl.key.location. Leave one out."
        )
    if store:
        where = store
        found = _stored(settings, "keystore", store)
        private, chain = found.key, found.certificates
    elif certificate:
        where = certificate
        data = _read(certificate)
        chain = _certificates(certificate, data)
        private = _key(
            key or certificate, _read(key) if key else data, _password(settings, "ssl.key.password")
        )
    elif key:
        raise StartError(
            f"There is a key ({key}) and no certificate: give ssl.certificate.location (--tls-cert)."
        )
    else:
        raise StartError(
            "A listener that speaks TLS needs a certificate: give --tls-cert and --tls-key. To try it out, "
            '"magnetar tls self-signed tls" makes both in the folder tls, with a CA for clients to trust.'
        )
    if private is None and key:
        raise StartError(f"{key} (ssl.key.location) has no private key in PEM: {_instead(_read(key))}.")
    if private is None:
        raise StartError(
            f"{where} has no private key: give ssl.key.location (--tls-key)."
            if not store
            else f"{where} has no private key: it must hold the key and its certificates."
        )
    _belong(where, chain, private)
    leaf = chain[0]
    _in_force(where, leaf, now_ms)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Own(b"".join(each.public_bytes(Encoding.PEM) for each in chain), pem, leaf, where)


def authorities(settings: Settings, now_ms: int) -> list[x509.Certificate]:
    """The CAs of clients; none if none are named. Raises StartError."""
    file, store = settings.optional_text("ssl.ca.location"), settings.optional_text("ssl.truststore.location")
    if file and store:
        raise StartError(
            "The CAs of clients are given twice: leave ssl.ca.location or ssl.truststore.location out."
        )
    where = file or store
    if not where:
        return []
    found = (
        _certificates(where, _read(where)) if file else _stored(settings, "truststore", where).certificates
    )
    if all(ends_at(each) <= now_ms for each in found):
        raise StartError(
            f"No CA in {where} is valid any more: put those in that are, and leave out the others."
        )
    return found


def ends_at(certificate: x509.Certificate) -> int:
    """ms since 1970."""
    return int(certificate.not_valid_after_utc.timestamp() * 1000)


def names_of(certificate: x509.Certificate) -> list[str]:
    """Hosts and addresses that it is for; clients look at nothing else."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [
        *found.get_values_for_type(x509.DNSName),
        *map(str, found.get_values_for_type(x509.IPAddress)),
    ]


def issued_by(der: bytes, authorities: Sequence[x509.Certificate]) -> bool:
    """Whether one of these CAs has signed a client's certificate. One that a CA below it has signed counts as not."""
    certificate = x509.load_der_x509_certificate(der)
    for each in authorities:
        if certificate == each:
            return True
        try:
            certificate.verify_directly_issued_by(each)
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            continue
        return True
    return False


class _Stored(NamedTuple):
    key: PrivateKeyTypes | None
    certificates: list[x509.Certificate]


def _stored(settings: Settings, kind: str, where: str) -> _Stored:
    """A keystore or truststore, as Kafka has them."""
    data = _read(where)
    password = _password(settings, f"ssl.{kind}.password")
    if settings.text(f"ssl.{kind}.type") == "PKCS12":
        return _pkcs12(where, data, password, kind)
    key = None
    if kind == "keystore":
        own = _password(settings, "ssl.key.password")
        key = _key(where, data, password if own is None else own)
    return _Stored(key, _certificates(where, data))


def _pkcs12(where: str, data: bytes, password: bytes | None, kind: str) -> _Stored:
    if data.lstrip().startswith(_BEGIN):
        raise StartError(f"{where} is PEM: set ssl.{kind}.type=PEM.")
    try:
        found = pkcs12.load_pkcs12(data, password)
    except ValueError as error:
        raise StartError(
            f"{where} cannot be opened: it is no PKCS12, or ssl.{kind}.password is not its password."
        ) from error
    others = [each.certificate for each in found.additional_certs]
    return _Stored(found.key, [found.cert.certificate, *others] if found.cert is not None else others)


def _password(settings: Settings, name: str) -> bytes | None:
    text = settings.optional_text(name)
    return text.encode() if text else None


def _read(where: str) -> bytes:
    try:
        with open(where, "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise StartError(f"{where} cannot be read: {error.strerror}.") from error
    if len(data) > LARGEST:
        raise StartError(f"{where} is no file of certificates: it has more than {LARGEST >> 20} MiB.")
    if data.startswith(_JKS):
        raise StartError(
            f"{where} is a keystore of Java's own kind (JKS). Make PKCS12 of it (keytool -importkeystore -srckeystore "
            f"{where} -destkeystore {Path(where).stem}.p12 -deststoretype PKCS12), and set the type to PKCS12."
        )
    return data


def _blocks(data: bytes) -> Iterator[tuple[str, bytes]]:
    """(label, bytes from BEGIN to END) of each block of PEM."""
    at = 0
    while (begin := data.find(_BEGIN, at)) >= 0:
        label = data[begin + len(_BEGIN) :].split(b"-----", 1)[0]
        end = data.find(_END + label + b"-----", begin)
        if end < 0:
            return
        at = end + len(_END + label + b"-----")
        yield label.decode("ascii", "replace"), data[begin:at]


def _certificates(where: str, data: bytes) -> list[x509.Certificate]:
    blocks = [pem for label, pem in _blocks(data) if label in ("CERTIFICATE", "X509 CERTIFICATE")]
    if not blocks:
        # all of PKCS12 and DER is in a sequence of ASN.1
        other = (
            "; PKCS12 needs ssl.keystore.location or ssl.truststore.location and its type"
            if data[:1] == b"0"
            else ""
        )
        raise StartError(f"{where} has no certificate in PEM (BEGIN CERTIFICATE){other}.")
    try:
        return [x509.load_pem_x509_certificate(pem) for pem in blocks]
    except ValueError as error:
        raise StartError(f"{where} has a certificate that cannot be read: {error}.") from error


def _key(where: str, data: bytes, password: bytes | None) -> PrivateKeyTypes | None:
    """The private key of a file, None if it has none."""
    pem = next((pem for label, pem in _blocks(data) if label.endswith("PRIVATE KEY")), None)
    if pem is None:
        return None
    locked = b"ENCRYPTED" in pem
    if locked and password is None:
        raise StartError(f"The key in {where} is locked: give its password (ssl.key.password).")
    try:
        return load_pem_private_key(pem, password if locked else None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise StartError(
            f"The key in {where} cannot be read: "
            + ("ssl.key.password is not its password." if locked else f"{error}.")
        ) from error


def _instead(data: bytes) -> str:
    """What a file has in which there is no private key."""
    labels = [label for label, _ in _blocks(data)]
    if not data.strip():
        return "it is empty"
    if b"PRIVATE KEY-----" in data:
        return "a part of the file is missing, for a key begins in it and does not end"
    if labels:
        return f"it holds {', '.join(dict.fromkeys(labels))} and nothing else"
    if data[:1] == b"0":
        return (
            "it is DER or PKCS12; `openssl pkey -inform DER -in FILE -out FILE.pem` makes PEM of a key in DER"
        )
    return "nothing in it begins with -----BEGIN PRIVATE KEY-----"


def _public(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _belong(where: str, chain: Sequence[x509.Certificate], key: PrivateKeyTypes) -> None:
    """The key and the first certificate are a pair."""
    if not chain:
        raise StartError(f"{where} has no certificate.")
    wanted = _public(key.public_key())
    if _public(chain[0].public_key()) == wanted:
        return
    if any(_public(each.public_key()) == wanted for each in chain):
        raise StartError(
            f"{where}: the certificate of the key must come first, those that lead to its CA behind it."
        )
    raise StartError(f"The certificate in {where} is not of that key: both must be of one pair.")


def _in_force(where: str, leaf: x509.Certificate, now_ms: int) -> None:
    def day(at: datetime.datetime) -> str:
        return f"{at:%Y-%m-%d %H:%M} UTC"

    if ends_at(leaf) <= now_ms:
        raise StartError(
            f"The certificate in {where} ended on {day(leaf.not_valid_after_utc)}: put a new one there."
        )
    if leaf.not_valid_before_utc.timestamp() * 1000 > now_ms:
        raise StartError(
            f"The certificate in {where} begins on {day(leaf.not_valid_before_utc)}: wait, or set this machine's clock."
        )
