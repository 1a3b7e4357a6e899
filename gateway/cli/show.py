"""Settings as text for `magnetar config`: a table, TOML, an example file."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable

from gateway.config import SETTINGS, Kind, Setting, Settings, listener_settings
from semantics.names import DEFAULT

# what an example file shows for settings that are open by default
_EXAMPLES: dict[str, int | str] = {
    "allowAutoTopicCreation": True,
    "allowAutoTopicCreationType": "non-partitioned",
    "defaultNumPartitions": 1,
    "broker.rack": "rack-1",
    "defaultRetentionTimeInMinutes": 10_080,
    "defaultRetentionSizeInMB": 10_240,
    "log.retention.ms": 604_800_000,
    "log.retention.minutes": 10_080,
    "log.roll.ms": 604_800_000,
    "ssl.certificate.location": "tls/server.pem",
    "ssl.key.location": "tls/server-key.pem",
    "ssl.ca.location": "tls/ca.pem",
    "ssl.keystore.location": "tls/server.p12",
    "ssl.keystore.password": "changeit",
    "ssl.key.password": "changeit",
    "ssl.truststore.location": "tls/clients.p12",
    "ssl.truststore.password": "changeit",
    "sasl.oauthbearer.jwks.endpoint.url": "https://login.example/keys",
    "sasl.oauthbearer.expected.issuer": "https://login.example",
    "sasl.oauthbearer.home.claim.name": "namespace",
    "token.secret.key": "file:///etc/magnetar/token.key",
    "token.public.key": "file:///etc/magnetar/token.pem",
    "users.file": "/etc/magnetar/users",
}

_KINDS = {
    Kind.BOOLEAN: "true or false",
    Kind.STRING: "text",
    Kind.INT: "whole number",
    Kind.LONG: "whole number",
    Kind.DOUBLE: "number",
    Kind.LIST: "list",
    Kind.PASSWORD: "text that is never shown",
}


def table(settings: Settings, names: Iterable[str]) -> str:
    """Aligned columns: name, value, where it comes from."""
    rows = [(name, _value(settings, name), settings.origin(name)) for name in names]
    if not rows:
        return "Every setting has its default.\n"
    rows.insert(0, ("SETTING", "VALUE", "FROM"))
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "".join(
        f"{name:<{first}}  {value:<{second}}  {origin}".rstrip() + "\n" for name, value, origin in rows
    )


def explained(settings: Settings, names: Iterable[str]) -> str:
    """Each setting with what it does and how to give it."""
    blocks = []
    for name in names:
        setting = settings.row(name)
        default = setting.render(setting.default)
        ways = [f"--set {name}=...", setting.variable]
        if setting.flag:
            ways.insert(0, setting.flag)
        blocks.append(
            f"{name} = {_value(settings, name)}  ({settings.origin(name)})\n"
            + textwrap.indent(textwrap.fill(setting.doc, 96), "  ")
            + f"\n  {_KINDS[setting.kind]}, default {_open(default)}; "
            + ("may be altered while the gateway runs" if setting.dynamic else "read at the start")
            + f"\n  {', '.join(ways)}\n"
        )
    return "\n".join(blocks)


def toml(settings: Settings, names: Iterable[str]) -> str:
    """A file that gives the same settings again. Open and sensitive ones are left out."""
    lines = []
    for name in names:
        setting, value = settings.row(name), settings.value(name)
        if value is not None and not setting.sensitive:
            lines.append(f"{_key(setting)} = {_toml_value(value)}\n")
    return "".join(lines)


def example() -> str:
    """A TOML file with every setting as a comment: what it does, its default, and how to write it."""
    blocks = [
        "# Settings of a Magnetar gateway: magnetar serve --config THIS_FILE\n"
        "# Take the # away from a line to change it. Flags and MAGNETAR_* variables win over this file.\n"
    ]
    for setting in SETTINGS.values():
        doc = "".join(f"# {line}\n" for line in textwrap.wrap(setting.doc, 98))
        value = setting.default
        if value is None:
            value = _EXAMPLES[setting.name]
            doc += "# Open by default; for example:\n"
        blocks.append(f"{doc}#{_key(setting)} = {_toml_value(value)}\n")
    doc = "".join(f"# {line}\n" for line in textwrap.wrap(listener_settings.DOC, 98))
    blocks.append(
        f"{doc}# Of the listener PLAINTEXT, as one without a name is called:\n"
        f'#{listener_settings.EXAMPLE} = "{DEFAULT}"\n'
    )
    return "\n".join(blocks)


def _value(settings: Settings, name: str) -> str:
    if settings.row(name).sensitive:
        return "(hidden)"
    return _open(settings.shown(name))


def _open(text: str | None) -> str:
    return "(open)" if text is None else text or "(empty)"


def _key(setting: Setting) -> str:
    """The name as a TOML key: in quotes where it goes on behind another setting's name (max.connections)."""
    parts = setting.name.split(".")
    inside = any(".".join(parts[:length]) in SETTINGS for length in range(1, len(parts)))
    return f'"{setting.name}"' if inside else setting.name


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml_value(each) for each in value) + "]"
    if isinstance(value, str):
        # TOML's basic strings are JSON's, but for DEL and for escapes in pairs
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)
