"""A file of client settings as Kafka's tools take it (`--command-config client.properties`), for librdkafka.

Most settings have one name in both. What is Java's alone is put into librdkafka's words where there are some: the
module that logs in (`sasl.jaas.config`), stores of certificates in PEM or PKCS12. Serializers and such are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_JAVAS = re.compile(
    r"(?:key|value)\.(?:de)?serializer|ssl\.(?:trust|key)store\.type|ssl\.protocol|ssl\.enabled\.protocols"
    r"|sasl\.login\.(?:class|callback\.handler\.class)|ssl\.truststore\.password|ssl\.(?:key|trust)manager\.algorithm"
)
"""What only Java's clients have, and others need not know."""
_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")
"""Of a login module."""


class ClientConfigError(ValueError):
    """A file that cannot be used. The text says why, for a person."""


def parse(text: str) -> dict[str, str]:
    """`name=value` a line, as Java's Properties has it: comments, escapes, lines that go on.

    Raises ClientConfigError.
    """
    found: dict[str, str] = {}
    for line in _lines(text):
        match = re.match(r"((?:\\.|[^\\\s=:])+)\s*[=:\s]\s*(.*)\Z", line, re.DOTALL)
        if match is None:
            raise ClientConfigError(f"{line[:60]!r} is no setting: write name=value.")
        found[_plain(match[1])] = _plain(match[2])
    return found


def _lines(text: str) -> Iterator[str]:
    """Logical lines."""
    whole = ""
    for line in text.splitlines():
        bare = line.lstrip()
        if not whole and (not bare or bare[0] in "#!"):
            continue
        whole += bare
        if (len(whole) - len(whole.rstrip("\\"))) % 2:
            whole = whole[:-1]
            continue
        yield whole
        whole = ""
    if whole:
        yield whole


def _plain(text: str) -> str:
    def meant(found: re.Match[str]) -> str:
        said = found[1]
        return chr(int(said[1:], 16)) if len(said) == 5 else _ESCAPES.get(said, said)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", meant, text)


def translated(settings: dict[str, str]) -> dict[str, str]:
    """In librdkafka's words. Raises ClientConfigError for what has none."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if name == "sasl.jaas.config":
            found |= _login(value)
        elif name == "ssl.truststore.location":
            found["ssl.ca.location"] = _pem(settings, "ssl.truststore", value)
        elif name == "ssl.truststore.certificates":
            found["ssl.ca.pem"] = value
        elif name == "ssl.keystore.location":
            found |= _keystore(settings, value)
        elif name == "ssl.keystore.certificate.chain":
            found["ssl.certificate.pem"] = value
        elif name == "ssl.keystore.key":
            found["ssl.key.pem"] = value
        elif name == "ssl.endpoint.identification.algorithm":
            found[name] = value or "none"
        elif not _JAVAS.fullmatch(name):
            found[name] = value
    if "ssl.keystore.location" not in found:
        found.pop("ssl.keystore.password", None)
    return found


def _login(module: str) -> dict[str, str]:
    """Name and password of a login module of Kafka's."""
    options = {
        name: re.sub(r"\\(.)", r"\1", one or other) or bare
        for name, one, other, bare in _OPTION.findall(module)
    }
    if "username" not in options:
        if "OAuthBearerLoginModule" in module:
            return {}
        raise ClientConfigError(
            "sasl.jaas.config names no username and password: that is all that can be taken of it."
        )
    return {"sasl.username": options["username"], "sasl.password": options.get("password", "")}


def _pem(settings: dict[str, str], store: str, location: str) -> str:
    kind = settings.get(f"{store}.type", "JKS")
    if kind.upper() != "PEM":
        raise ClientConfigError(
            f"{store}.location is a {kind}, and is read in PEM here: set {store}.type=PEM, or ssl.ca.location."
        )
    return location


def _keystore(settings: dict[str, str], location: str) -> dict[str, str]:
    kind = settings.get("ssl.keystore.type", "JKS").upper()
    if kind == "PEM":
        return {"ssl.certificate.location": location, "ssl.key.location": location}
    if kind == "PKCS12":
        return {"ssl.keystore.location": location}
    raise ClientConfigError(
        "ssl.keystore.location is a JKS, which is Java's own: `keytool -importkeystore -srckeystore FILE -destkeystore "
        "FILE.p12 -deststoretype PKCS12` makes a PKCS12 of it, for ssl.keystore.type=PKCS12."
    )
