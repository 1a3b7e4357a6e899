"""Settings of one listener: `listener.name.<listener>.pulsar.namespace` and `listener.name.<listener>.ssl.client.auth`,
with its name in lower case, as Kafka has it.

They are no rows of the table, for their names hold what the user calls a listener.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gateway.config.listeners import plain
from gateway.config.schema import Kind, Setting, Value, one_of
from semantics.names import DEFAULT, Namespace, NamingError

NAMESPACE, CLIENT_AUTH = "pulsar.namespace", "ssl.client.auth"

_NAME = re.compile(r"listener\.name\.([A-Za-z0-9_.-]+)\.(pulsar\.namespace|ssl\.client\.auth)")
_BEGIN = re.compile(r"listener\.name\.([A-Za-z0-9_-]+)\.")
_VARIABLE = re.compile(r"MAGNETAR_LISTENER_NAME_([A-Z0-9_]+)_(PULSAR_NAMESPACE|SSL_CLIENT_AUTH)")

EXAMPLE = "listener.name.plaintext.pulsar.namespace"
"""Of a listener that was given no name."""
DOC = (
    "The namespace that clients of this listener are in, as tenant/namespace: they call its topics by bare names, and "
    "see no others. Their groups are its own, too. Made with: magnetar-admin namespaces create."
)
CLIENT_AUTH_DOC = (
    "Whether clients of this listener show a certificate (ssl.client.auth). Without it listeners of SSL have that "
    "setting, and those of SASL_SSL ask nobody."
)


def check_namespace(value: Value) -> str | None:
    """Whether a namespace can be called so."""
    assert isinstance(value, str)
    try:
        Namespace.parse(value)
    except NamingError:
        return "must be tenant/namespace, of letters, digits, '_' and '-'"
    return None


def row(name: str) -> Setting | None:
    """The setting of this name; None where it is of no listener."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    written = f"listener.name.{match[1].lower()}.{match[2]}"
    if match[2] == CLIENT_AUTH:
        return Setting(written, Kind.STRING, None, CLIENT_AUTH_DOC, one_of("none", "requested", "required"))
    return Setting(written, Kind.STRING, str(DEFAULT), DOC, check_namespace)


def names_like(name: str) -> list[str] | None:
    """The settings that the listener has of which a name is; None for a name that is of no listener."""
    match = _BEGIN.match(name)
    return (
        [f"listener.name.{match[1].lower()}.{each}" for each in (NAMESPACE, CLIENT_AUTH)] if match else None
    )


def of_variable(variable: str) -> Setting | None:
    """The setting that an environment variable sets; None for any other."""
    match = _VARIABLE.fullmatch(variable)
    if match is None:
        return None
    return row(f"listener.name.{match[1].lower()}.{match[2].lower().replace('_', '.')}")


def homes(values: Mapping[str, Value]) -> dict[str, Namespace]:
    """Where the clients of listeners are at home: by `plain` of the listener's name."""
    return {name: Namespace.parse(value) for name, value in _said(values, NAMESPACE).items()}


def client_auths(values: Mapping[str, Value]) -> dict[str, str]:
    """What listeners ask of clients over TLS: by `plain` of the listener's name."""
    return _said(values, CLIENT_AUTH)


def _said(values: Mapping[str, Value], what: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in values.items():
        match = _NAME.fullmatch(name)
        if match is not None and match[2] == what and isinstance(value, str):
            found[plain(match[1])] = value
    return found


def of_nobody(names: Iterable[str], listeners: Iterable[str]) -> list[str]:
    """Those of the names that are settings of a listener that there is not, or that another one says as well."""
    known = {plain(name) for name in listeners}
    seen: set[tuple[str, str]] = set()
    wrong = []
    for name in names:
        match = _NAME.fullmatch(name)
        if match is not None:
            said = plain(match[1]), match[2]
            if said[0] not in known or said in seen:
                wrong.append(name)
            seen.add(said)
    return wrong
