"""A small CA for trying TLS out, and for a few machines: certificates on P-256, signed by it.

Pure but for the keys, which are random. Times are handed in.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_DAYS = 3650
BACKDATED = datetime.timedelta(hours=1)
"""By which a certificate begins earlier: clocks of clients differ."""


class Pair(NamedTuple):
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """PKCS#8, which Java reads, too; not locked."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def authority(name: str, now: datetime.datetime) -> Pair:
    """A new CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        _builder(subject, subject, key, now, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return Pair(builder.sign(key, hashes.SHA256()), key)


def server(ca: Pair, hosts: Sequence[str], now: datetime.datetime, days: int) -> Pair:
    """For a server that clients reach by these names and addresses. ValueError for one that is none."""
    # 64 characters are what X.509 gives a CN; clients look at the names behind it
    return _leaf(
        ca, hosts[0][:64], now, days, ExtendedKeyUsageOID.SERVER_AUTH, [_name(each) for each in hosts]
    )


def client(ca: Pair, name: str, now: datetime.datetime, days: int) -> Pair:
    """For a client whose subject is CN=name. ValueError for a name that cannot be."""
    return _leaf(ca, name, now, days, ExtendedKeyUsageOID.CLIENT_AUTH, [])


def read(certificate: bytes, key: bytes) -> Pair:
    """A pair from PEM. ValueError where it is none of those that are made here."""
    found = load_pem_private_key(key, None)
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is not on an elliptic curve")
    pair = Pair(x509.load_pem_x509_certificate(certificate), found)
    if pair.certificate.public_key() != found.public_key():
        raise ValueError("the key is of another certificate")
    return pair


def _leaf(
    ca: Pair,
    name: str,
    now: datetime.datetime,
    days: int,
    purpose: x509.ObjectIdentifier,
    names: Sequence[x509.GeneralName],
) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        _builder(subject, ca.certificate.subject, key, now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.key.public_key()), critical=False
        )
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Pair(builder.sign(ca.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
