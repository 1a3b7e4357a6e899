"""Addresses: how listeners are written, named and advertised, and which of them other machines can reach."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gateway.config.schema import Value
from semantics.names import DEFAULT, Namespace

_ADDRESS = re.compile(
    r"(?:(?P<name>[A-Za-z0-9_.-]+)://)?(?:\[(?P<v6>[^\]]*)\]|(?P<host>[^:\[\]/\s]*)):(?P<port>\d{1,5})"
)

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""What a listener may speak, in Kafka's words."""

EVERYWHERE = frozenset({"", "0.0.0.0", "::"})
"""Hosts that mean every interface of this machine."""


class Address(NamedTuple):
    """A host (IPv6 without brackets; empty for every interface) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Listener(NamedTuple):
    """An address to listen on, its name, and what clients are told. A port 0 means the one that was bound."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    # whose topics have bare names there
    namespace: Namespace = DEFAULT
    # what it speaks, one of `security.PROTOCOLS`
    protocol: str = "PLAINTEXT"

    @property
    def tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    def __str__(self) -> str:
        return str(Address(self.host, self.port))


def parse(text: str) -> tuple[str | None, Address]:
    """(name or None, address) of `host:port`, `[v6]:port`, `:port`, `NAME://host:port`. Raises ValueError."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError(f'must be host:port, [IPv6]:port or NAME://host:port, and "{text}" is not')
    port = int(match["port"])
    if port > 65535:
        raise ValueError(f'must have a port from 0 to 65535, and "{text}" has not')
    if match["v6"] is not None and not _is_v6(match["v6"]):
        raise ValueError(f'must have an IPv6 address in the brackets, and "{text}" has not')
    return match["name"], Address(match["v6"] if match["v6"] is not None else match["host"], port)


def named(texts: Sequence[str]) -> dict[str, Address]:
    """Addresses by name; those without one are PLAINTEXT, PLAINTEXT2, ... by position. Raises ValueError."""
    addresses: dict[str, Address] = {}
    for position, text in enumerate(texts, 1):
        name, address = parse(text)
        name = name or ("PLAINTEXT" if position == 1 else f"PLAINTEXT{position}")
        if name in addresses:
            raise ValueError(f"must have different names, and {name} is there twice")
        addresses[name] = address
    return addresses


def plain(name: str) -> str:
    """A listener's name as settings of one listener have it: in lower case, and as variables can say it."""
    return name.lower().replace("-", "_").replace(".", "_")


def resolve(
    listeners: Sequence[str],
    advertised: Sequence[str],
    homes: Mapping[str, Namespace] | None = None,
    protocols: Mapping[str, str] | None = None,
) -> list[Listener]:
    """The listeners with what each advertises. Raises ValueError when the two lists do not go together. `homes`: by
    `plain` of a listener's name, the namespace that its clients are in. `protocols`: by `plain` of the name, what it
    speaks; one that is called after a protocol speaks that, any other PLAINTEXT.

    A listener on every interface that advertises nothing gives the name of this machine, as Kafka does.
    """
    told = named(advertised)
    bound = named(listeners)
    for name in told:
        if name not in bound:
            raise ValueError(f"advertises {name}, and there is no listener of that name ({', '.join(bound)})")
    result = []
    for name, (host, port) in bound.items():
        if name in told:
            advertised_host, advertised_port = told[name]
        else:
            advertised_host = socket.gethostname() if host in EVERYWHERE else host
            advertised_port = port
        home = (homes or {}).get(plain(name), DEFAULT)
        own = name.upper() if name.upper() in PROTOCOLS else PROTOCOLS[0]
        protocol = (protocols or {}).get(plain(name), own)
        result.append(Listener(name, host, port, advertised_host, advertised_port, home, protocol))
    return result


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host. A name other than localhost counts as reachable."""
    if host == "localhost" or host == "::1":
        return True
    try:
        return socket.inet_pton(socket.AF_INET, host)[0] == 127
    except OSError:
        pass
    try:
        return socket.inet_pton(socket.AF_INET6, host) == b"\0" * 15 + b"\1"
    except OSError:
        return False


def _is_v6(host: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    except OSError:
        return False
    return True


def check_listeners(value: Value) -> str | None:
    """For the table: one address or more, all well written, with different names and ports."""
    assert isinstance(value, tuple)
    if not value:
        return "must name one address at least"
    try:
        addresses = list(named(value).values())
    except ValueError as error:
        return str(error)
    fixed = [address for address in addresses if address.port]
    return "must name each address once" if len(set(fixed)) < len(fixed) else None


def check_advertised(value: Value) -> str | None:
    """For the table: addresses that a client can use, so not "every interface"."""
    assert isinstance(value, tuple)
    try:
        addresses = named(value)
    except ValueError as error:
        return str(error)
    for address in addresses.values():
        if address.host in EVERYWHERE:
            return f"must hold names that clients can reach, and {address} means every interface"
    return None


def check_listener(value: Value) -> str | None:
    """For the table: one address, or nothing."""
    assert isinstance(value, str)
    if not value:
        return None
    try:
        name, _ = parse(value)
    except ValueError as error:
        return str(error)
    return "must be host:port without a name" if name else None
