"""Settings of one listener: `listener.name.<listener>.pulsar.namespace`, with its name in lower case, as Kafka has it.

They are no rows of the table, for their names hold what the user calls a listener.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gateway.config.listeners import plain
from gateway.config.schema import Kind, Setting, Value
from semantics.names import DEFAULT, Namespace, NamingError

_NAMESPACE = re.compile(r"listener\.name\.([A-Za-z0-9_.-]+)\.pulsar\.namespace")
_VARIABLE = re.compile(r"MAGNETAR_LISTENER_NAME_([A-Z0-9_]+)_PULSAR_NAMESPACE")

EXAMPLE = "listener.name.plaintext.pulsar.namespace"
"""Of a listener that was given no name."""
DOC = (
    "The namespace that clients of this listener are in, as tenant/namespace: they call its topics by bare names, and "
    "see no others. Their groups are its own, too. Made with: magnetar-admin namespaces create."
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
    match = _NAMESPACE.fullmatch(name)
    if match is None:
        return None
    written = f"listener.name.{match[1].lower()}.pulsar.namespace"
    return Setting(written, Kind.STRING, str(DEFAULT), DOC, check_namespace)


def of_variable(variable: str) -> Setting | None:
    """The setting that an environment variable sets; None for any other."""
    match = _VARIABLE.fullmatch(variable)
    return row(f"listener.name.{match[1].lower()}.pulsar.namespace") if match is not None else None


def homes(values: Mapping[str, Value]) -> dict[str, Namespace]:
    """Where the clients of listeners are at home: by `plain` of the listener's name."""
    found: dict[str, Namespace] = {}
    for name, value in values.items():
        match = _NAMESPACE.fullmatch(name)
        if match is not None and isinstance(value, str):
            found[plain(match[1])] = Namespace.parse(value)
    return found


def of_nobody(names: Iterable[str], listeners: Iterable[str]) -> list[str]:
    """Those of the names that are settings of a listener that there is not, or that another one says as well."""
    known = {plain(name) for name in listeners}
    seen: set[str] = set()
    wrong = []
    for name in names:
        match = _NAMESPACE.fullmatch(name)
        if match is not None:
            if plain(match[1]) not in known or plain(match[1]) in seen:
                wrong.append(name)
            seen.add(plain(match[1]))
    return wrong
