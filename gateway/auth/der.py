"""As much of ASN.1's DER as it takes to read who a certificate is of. Pure. OpenSSL has accepted the certificate."""

from __future__ import annotations

from collections.abc import Iterator

SEQUENCE, SET, OID, INTEGER, CONTEXT_0 = 0x30, 0x31, 0x06, 0x02, 0xA0


class DerError(ValueError):
    """Bytes that are not what they should be."""


def element(data: bytes, at: int, stop: int) -> tuple[int, int, int]:
    """(tag, where its content begins, where it ends) of what stands at `at`. Raises DerError."""
    if stop - at < 2:
        raise DerError("cut off")
    tag, size, at = data[at], data[at + 1], at + 2
    if size & 0x80:
        count = size & 0x7F
        if not 0 < count <= 4 or stop - at < count:
            raise DerError("a length that is none")
        size = int.from_bytes(data[at : at + count], "big")
        at += count
    if at + size > stop:
        raise DerError("cut off")
    return tag, at, at + size


def elements(data: bytes, at: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """(tag, where it begins, where its content begins, where it ends) of all that stands there. Raises DerError."""
    while at < stop:
        tag, begin, end = element(data, at, stop)
        yield tag, at, begin, end
        at = end


def subject(certificate: bytes) -> list[list[tuple[str, bytes]]]:
    """The subject of a certificate: its relative names in the order of the certificate, each a list of (type as dotted
    numbers, value with its tag and length). Raises DerError.
    """
    _, begin, _ = element(certificate, 0, len(certificate))
    _, begin, stop = element(certificate, begin, len(certificate))
    fields = [each for each in elements(certificate, begin, stop) if each[0] != CONTEXT_0]
    # serial number, algorithm, issuer, validity, subject
    if len(fields) < 5 or fields[0][0] != INTEGER or fields[4][0] != SEQUENCE:
        raise DerError("no certificate")
    return name(certificate, fields[4][2], fields[4][3])


def name(data: bytes, begin: int, stop: int) -> list[list[tuple[str, bytes]]]:
    """The same of a name whose content stands there."""
    found = []
    for tag, _, first, last in elements(data, begin, stop):
        if tag != SET:
            raise DerError("no name")
        pairs = []
        for _, _, inner, end in elements(data, first, last):
            kind, number, after = element(data, inner, end)
            if kind != OID:
                raise DerError("no name")
            pairs.append((dotted(data[number:after]), data[after:end]))
        found.append(pairs)
    return found


def dotted(content: bytes) -> str:
    """The numbers of an object identifier."""
    numbers, value = list[int](), 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers:
        raise DerError("no object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
