"""Names of certificates as Java and Kafka have them.

The expected names are what X500Principal.getName() of OpenJDK 17 gives for these bytes, and what SslPrincipalMapper of
Kafka 4.3 makes of them.
"""

from __future__ import annotations

import pytest

from gateway.auth import der
from gateway.auth.errors import RefusedError
from gateway.auth.principals import Mapping, distinguished, parse, subject
from gateway.errors import StartError

CN, COUNTRY, CITY, STATE, STREET, ORG, OU = (f"2.5.4.{number}" for number in (3, 6, 7, 8, 9, 10, 11))
SERIAL, TITLE, GIVEN, SURNAME = "2.5.4.5", "2.5.4.12", "2.5.4.42", "2.5.4.4"
DC, UID = "0.9.2342.19200300.100.1.25", "0.9.2342.19200300.100.1.1"
EMAIL = "1.2.840.113549.1.9.1"

UTF8, NUMERIC, PRINTABLE, T61, IA5, VISIBLE, GENERAL, UNIVERSAL, BMP = (
    0x0C, 0x12, 0x13, 0x14, 0x16, 0x1A, 0x1B, 0x1C, 0x1E,
)  # fmt: skip


def tlv(tag: int, content: bytes) -> bytes:
    size = len(content)
    return bytes([tag, size] if size < 128 else [tag, 0x82, size >> 8, size & 0xFF]) + content


def oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    content = b""
    for number in (40 * first + second, *rest):
        septets = [number & 0x7F]
        while number := number >> 7:
            septets.insert(0, number & 0x7F | 0x80)
        content += bytes(septets)
    return tlv(6, content)


def pair(kind: str, value: str | bytes, tag: int = UTF8) -> bytes:
    if isinstance(value, str):
        coding = {BMP: "utf-16-be", UNIVERSAL: "utf-32-be", T61: "latin-1"}.get(tag, "utf-8")
        value = value.encode(coding)
    return tlv(0x30, oid(kind) + tlv(tag, value))


def name(*parts: list[bytes]) -> bytes:
    return tlv(0x30, b"".join(tlv(0x31, b"".join(each)) for each in parts))


def cn(value: str | bytes, tag: int = UTF8) -> bytes:
    return name([pair(CN, value, tag)])


JAVA = [
    (cn("ada"), "CN=ada"),
    (
        name([pair(COUNTRY, "DE", PRINTABLE)], [pair(STATE, "Bavaria")], [pair(CITY, "Munich")], [pair(ORG, "Big, Co")],
             [pair(OU, "R&D")], [pair(CN, "kafka.example.com")]),
        r"CN=kafka.example.com,OU=R&D,O=Big\, Co,L=Munich,ST=Bavaria,C=DE",
    ),
    (
        name([pair(DC, "com", IA5)], [pair(DC, "example", IA5)], [pair(UID, "u1")], [pair(STREET, "Main 1")],
             [pair(CN, "x")]),
        "CN=x,STREET=Main 1,UID=u1,DC=example,DC=com",
    ),
    (name([pair(CN, "x"), pair(OU, "y")]), "CN=x+OU=y"),
    (name([pair(OU, "y"), pair(CN, "x")], [pair(ORG, "z")]), "O=z,OU=y+CN=x"),
    (name([pair(CN, "m")], [pair(EMAIL, "a@b.c", IA5)]), "1.2.840.113549.1.9.1=#16056140622e63,CN=m"),
    (name([pair(SERIAL, "123", PRINTABLE)], [pair(CN, "s")]), "CN=s,2.5.4.5=#1303313233"),
    (
        name([pair(TITLE, "Dr")], [pair(GIVEN, "G")], [pair(SURNAME, "S")]),
        "2.5.4.4=#0c0153,2.5.4.42=#0c0147,2.5.4.12=#0c024472",
    ),
    (name([pair("1.3.6.1.4.1.99999.1.2", "v")]), "1.3.6.1.4.1.99999.1.2=#0c0176"),
    (name([pair(OU, "b"), pair(CN, "a"), pair(EMAIL, "e@f", IA5)]), "OU=b+CN=a+1.2.840.113549.1.9.1=#1603654066"),
    (cn(" lead"), r"CN=\ lead"),
    (cn("trail "), r"CN=trail\ "),
    (cn("  two  "), r"CN=\ \ two\ \ "),
    (cn(" "), r"CN=\ "),
    (cn("\rcr\r"), "CN=\\\rcr\\\r"),
    (cn("cr\rx"), "CN=cr\rx"),
    (cn("new\nline"), "CN=new\nline"),
    (cn("#hash"), r"CN=\#hash"),
    (cn("in#ner"), r"CN=in\#ner"),
    (cn("a=b"), r"CN=a\=b"),
    (cn("a+b"), r"CN=a\+b"),
    (cn("a,b;c<d>e"), r"CN=a\,b\;c\<d\>e"),
    (cn('q"uo\\te'), r"CN=q\"uo\\te"),
    (cn("nul\0x"), r"CN=nul\00x"),
    (cn("tab\tx"), "CN=tab\tx"),
    (cn("ü€😀"), "CN=ü€😀"),
    (cn("\u00a0nb\u00a0"), "CN=\u00a0nb\u00a0"),
    (cn("@_*&!$%^{}|~`"), "CN=@_*&!$%^{}|~`"),
    (cn(b"\xff\xfe bad"), "CN=\ufffd\ufffd bad"),
    (cn(""), "CN="),
    (cn("gen", GENERAL), "CN=gen"),
    (cn("bmp", BMP), r"CN=\00b\00m\00p"),
    (cn("t61ü", T61), "CN=t61\ufffd"),
    (cn("uni", UNIVERSAL), "CN=#1c0c000000750000006e00000069"),
    (cn("num 1", NUMERIC), "CN=#12056e756d2031"),
    (cn("vis", VISIBLE), "CN=#1a03766973"),
    (cn(b"\x05", 0x02), "CN=#020105"),
    (name(), ""),
    (name([pair(CN, "first")], [pair(CN, "second")]), "CN=second,CN=first"),
    (cn("x" * 200), f"CN={'x' * 200}"),
]  # fmt: skip


@pytest.mark.parametrize(("encoded", "expected"), JAVA)
def test_a_name_is_written_as_java_does(encoded: bytes, expected: str) -> None:
    _, begin, stop = der.element(encoded, 0, len(encoded))
    assert distinguished(der.name(encoded, begin, stop)) == expected


def test_what_is_no_certificate_is_refused() -> None:
    for junk in (b"", b"\x30\x03\x02\x01\x01", b"\x30\x84\xff\xff\xff\xff", cn("ada")):
        with pytest.raises(RefusedError):
            subject(junk)


DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"
KAFKA = [
    ("DEFAULT", DUKE, DUKE),
    (" DEFAULT ", DUKE, DUKE),
    ("DEFAULT,,DEFAULT", DUKE, DUKE),
    (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DUKE, "Duke"),
    (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", DUKE, "duke"),
    (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/U", DUKE, "DUKE"),
    (r"RULE:^CN=(.*?), *OU=(.*?), *O=(.*?), *C=(.*?)$/$1@$2/L, DEFAULT", DUKE, "duke@serviceusers"),
    (r"RULE:^CN=nobody$/x/,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT", DUKE, "duke"),
    (r"RULE:Duke/x/,DEFAULT", DUKE, DUKE),
    (r"RULE:.*/x/", DUKE, "xx"),
    (r"RULE:(.*)/$1-$1/", "abc", "abc-abc-"),
    (r"RULE:^CN=(\w+),.*$/$1$2/", DUKE, "Duke$2"),
    (r"RULE:^CN=(\w+),.*$/$11/", DUKE, "Duke1"),
    (r"RULE:^CN=(\w+),.*$/$0/", "CN=Duke,O=x", "CN=Duke,O=x"),
    (r"RULE:^CN=(\w+),.*$/a\/b$1/", DUKE, "a/bDuke"),
    (r"RULE:^CN=(\w+),.*$/a\$1/", DUKE, "a$1"),
    (r"RULE:^CN=(?<who>\w+),.*$/${who}/", DUKE, "Duke"),
    (r"RULE:^CN=(\w+),OU=(.*?),O=.*$/$2,$1/,DEFAULT", DUKE, "ServiceUsers,Duke"),
    (r"RULE:^CN=(\w+),OU=(.*?),O=.*$/$2\,$1/", DUKE, "ServiceUsers,Duke"),
    (r"RULE:^CN=(.*?\\,.*?),.*$/$1/", r"CN=a\,b,O=x", r"a\,b"),
    (r"RULE:^CN=([^,]*),.*$/$1/ , DEFAULT", DUKE, "Duke"),
    (r"RULE:^CN=(.*?)$/$1/U", "CN=straße", "STRASSE"),
]


@pytest.mark.parametrize(("rules", "subject", "expected"), KAFKA)
def test_rules_give_the_names_that_kafka_gives(rules: str, subject: str, expected: str) -> None:
    assert Mapping(rules).name(subject) == expected


@pytest.mark.parametrize("rules", ["", r"RULE:^CN=nobody$/x/", r"RULE:^cn=(.*)$/$1/", r"RULE:CN=Duke/$1/"])
def test_whom_no_rule_fits_does_not_get_in(rules: str) -> None:
    with pytest.raises(RefusedError, match="no rule"):
        Mapping(rules).name(DUKE)


def test_nobody_is_called_nothing() -> None:
    with pytest.raises(RefusedError, match="leaves nothing"):
        Mapping(r"RULE:^CN=(\w+),.*$//").name(DUKE)


@pytest.mark.parametrize(
    "rules",
    [
        r"RULE:^CN=(\w+),.*$/$1/X",
        r"RULE:^CN=(\w+),.*$/$1/LU",
        r"RULE:^CN=(\w+),.*$/$1/LDEFAULT",
        r"RULE:^CN=(\w+),.*$/$1",
        r"RULE:^CN=(\w+),.*$",
        "default",
        "DEFAULT,nonsense",
        "RULE:(/x/",
    ],
)
def test_what_kafka_takes_for_no_rules_is_refused_in_a_sentence(rules: str) -> None:
    with pytest.raises(StartError, match=r"^ssl\.principal\.mapping\.rules has .*\.$"):
        parse(rules)
