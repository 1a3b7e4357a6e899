"""Files of client settings."""

from __future__ import annotations

import pytest

from gateway.cli.client_config import ClientConfigError, parse, translated

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("# a\n! b\n\n  a=b", {"a": "b"}),
        ("a = b c \nd:e\nf g", {"a": "b c ", "d": "e", "f": "g"}),
        ("a=b\\\n   c\\\\\nd=e", {"a": "bc\\", "d": "e"}),
        # a comment is not what a line goes on with
        ("a=b\\\n#c\nd=e", {"a": "b#c", "d": "e"}),
        ("a=x\\=y\\u00e9\\n", {"a": "x=yé\n"}),
        ("a\\ b=c", {"a b": "c"}),
        ("a=", {"a": ""}),
        ("a=b\\", {"a": "b"}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_lines_are_read_as_javas_properties(text: str, found: dict[str, str]) -> None:
    assert parse(text) == found


def test_what_is_no_setting_is_told() -> None:
    with pytest.raises(ClientConfigError, match="'nonsense' is no setting"):
        parse("a=b\nnonsense")


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": f'{SCRAM} username="ada" password="se\\"cret;=x";',
            },
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": "ada",
                "sasl.password": 'se"cret;=x',
            },
        ),
        (
            {"sasl.jaas.config": f"{SCRAM} username='ada' password=plain;"},
            {"sasl.username": "ada", "sasl.password": "plain"},
        ),
        ({"sasl.jaas.config": "a.b.OAuthBearerLoginModule required;"}, {}),
        (
            {"ssl.truststore.location": "/ca.pem", "ssl.truststore.type": "PEM", "ssl.truststore.password": "x"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {"ssl.keystore.location": "/k.pem", "ssl.keystore.type": "PEM", "ssl.keystore.password": "x"},
            {"ssl.certificate.location": "/k.pem", "ssl.key.location": "/k.pem"},
        ),
        (
            {"ssl.keystore.location": "/k.p12", "ssl.keystore.type": "PKCS12", "ssl.keystore.password": "x"},
            {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": "x"},
        ),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        ({"ssl.truststore.certificates": "PEM"}, {"ssl.ca.pem": "PEM"}),
        (
            {"key.serializer": "x.Y", "linger.ms": "5", "ssl.ca.location": "/c"},
            {"linger.ms": "5", "ssl.ca.location": "/c"},
        ),
    ],
)  # fmt: skip
def test_javas_words_become_librdkafkas(settings: dict[str, str], found: dict[str, str]) -> None:
    assert translated(settings) == found


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"ssl.truststore.location": "/t.jks"}, "ssl.truststore.type=PEM"),
        ({"ssl.keystore.location": "/t.jks"}, "keytool"),
        ({"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"}, "username"),
    ],
)
def test_what_has_no_words_is_told(settings: dict[str, str], word: str) -> None:
    with pytest.raises(ClientConfigError, match=word):
        translated(settings)
