"""The settings of a running gateway: where each value comes from, and quick ways to read it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from gateway.config import consumer_groups, listener_settings, share_groups
from gateway.config.listeners import Address, Listener, is_loopback, parse, plain, resolve
from gateway.config.schema import Described, Setting, Source, Synonym, Value, complaint, quoted
from gateway.config.sources import Given, Layer, from_environment, from_file, from_flags, row_of, unknown
from gateway.config.table import SETTINGS
from semantics.homes import EVERYWHERE, Homes
from semantics.names import DEFAULT, Namespace

if TYPE_CHECKING:
    from pathlib import Path

_MINUTE_MS = 60_000
_SECURE = re.compile("tls|ssl|sasl|secure", re.IGNORECASE)
"""What names of listeners have in them that are not in plain text."""
_HOUR_MS = 3_600_000

# Kafka's coarser spellings of one thing, finest first: a client sees them as synonyms
_COARSER = {
    "log.retention.ms": ("log.retention.minutes", "log.retention.hours"),
    "log.roll.ms": ("log.roll.hours",),
}


class SettingsError(Exception):
    """Settings that cannot be used. `problems` holds one plain sentence for each thing that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Settings:
    """Settings as they are in force. Unchanging: `with_dynamic` gives a new one.

    Reading one is a look-up in a dict. The getters know their settings by type, so that a wrong name or a
    wrong type is a KeyError at once. Flags win over variables, variables over the file, the file over the
    defaults; what AlterConfigs said at run time wins over all of them.
    """

    def __init__(
        self, given: Layer | None = None, broker: Layer | None = None, cluster: Layer | None = None
    ) -> None:
        """What was given at the start, and what was altered since for this node and for all; unchecked."""
        # strongest first
        self._layers: list[tuple[Source, Layer]] = [
            (Source.DYNAMIC_BROKER, broker or {}),
            (Source.DYNAMIC_DEFAULT_BROKER, cluster or {}),
            (Source.STATIC_BROKER, given or {}),
            (Source.DEFAULT, {name: Given(row.default, "default") for name, row in SETTINGS.items()}),
        ]
        self._values: dict[str, Value] = {}
        for _, layer in reversed(self._layers):
            for name, (value, _origin) in layer.items():
                self._values[name] = value

        # one dict a type: a getter is one look-up and needs no check
        self._flags: dict[str, bool] = {}
        self._integers: dict[str, int] = {}
        self._floats: dict[str, float] = {}
        self._texts: dict[str, str] = {}
        self._strings: dict[str, tuple[str, ...]] = {}
        for name, value in self._values.items():
            if isinstance(value, bool):
                self._flags[name] = value
            elif isinstance(value, int):
                self._integers[name] = value
            elif isinstance(value, float):
                self._floats[name] = value
            elif isinstance(value, str):
                self._texts[name] = value
            elif isinstance(value, tuple):
                self._strings[name] = value

        self.retention_ms: int = self._coarse("log.retention.ms")
        """log.retention.ms, .minutes or .hours, whichever is set first in this order; -1 is for ever."""
        self.retention_ms_set = any(
            each.source is not Source.DEFAULT for each in self.synonyms("log.retention.ms")
        )
        """Whether somebody has set one of them."""
        self.roll_ms: int = self._coarse("log.roll.ms")
        """log.roll.ms or .hours."""

    @classmethod
    def load(
        cls,
        flags: Iterable[str] = (),
        file: Path | None = None,
        environ: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Settings:
        """Read and check all sources. Raises SettingsError with everything that is wrong, not just the first.

        `flags` are `name=value` as --set takes them, `options` the values of flags that have a name of their
        own (`{"listeners": "127.0.0.1:0"}` for --listen). `environ` None means no environment.
        """
        problems: list[str] = []
        layer: Layer = {}
        if file is not None:
            layer |= from_file(file, problems)
        layer |= from_environment(environ or {}, problems)
        layer |= from_flags(flags, options or {}, problems)
        settings = cls(layer)
        problems += settings._together()
        if problems:
            raise SettingsError(problems)
        return settings

    def with_dynamic(self, broker: Mapping[str, str], cluster: Mapping[str, str] | None = None) -> Settings:
        """The same with what AlterConfigs set for this node and for all nodes (Kafka's empty resource name).

        Replaces what was altered before. Rows that are no longer known or allowed are left out (an older or
        newer Magnetar wrote them): `altered` says why.
        """
        layers = []
        for rows in (broker, cluster or {}):
            layer: Layer = {}
            for name, text in rows.items():
                if self.altered(name, text) is None:
                    layer[name] = Given(SETTINGS[name].parse(text), "altered at run time")
            layers.append(layer)
        return Settings(self._layers[2][1], layers[0], layers[1])

    def altered(self, name: str, text: str | None) -> str | None:
        """What is wrong with changing a setting at run time to this (None: back to what it was), or None."""
        setting = row_of(name)
        if setting is None:
            return unknown(name)
        if not setting.dynamic:
            return f"{name} is read at the start: change it there and start the gateway again."
        if text is None:
            return None
        try:
            setting.parse(text)
        except ValueError as error:
            return f"{name} {complaint(error, quoted(text))}."
        return None

    def integer(self, name: str) -> int:
        return self._integers[name]

    def text(self, name: str) -> str:
        return self._texts[name]

    def flag(self, name: str) -> bool:
        return self._flags[name]

    def strings(self, name: str) -> tuple[str, ...]:
        return self._strings[name]

    def float(self, name: str) -> float:
        return self._floats[name]

    def optional_text(self, name: str) -> str | None:
        """For settings that are open by default, such as broker.rack."""
        return self._texts.get(name)

    def value(self, name: str) -> Value:
        """The value whatever its type. KeyError for a name that is no setting."""
        return self._values[name] if name in self._values else self.row(name).default

    @property
    def names(self) -> list[str]:
        """All settings there are: those of the table, and those of listeners that were given."""
        return [*SETTINGS, *(name for name in self._values if name not in SETTINGS)]

    @staticmethod
    def row(name: str) -> Setting:
        """What there is to know about a setting. KeyError for a name that is none."""
        found = row_of(name)
        if found is None:
            raise KeyError(name)
        return found

    def shown(self, name: str) -> str | None:
        """The value as text, as DescribeConfigs shows it; None when it is open or sensitive."""
        setting = self.row(name)
        return None if setting.sensitive else setting.render(self.value(name))

    def source(self, name: str) -> Source:
        """Where the value in force comes from, in Kafka's terms."""
        return next(source for source, layer in self._layers if name in layer)

    def origin(self, name: str) -> str:
        """Where the value in force comes from, for a person: "file magnetar.toml, line 3", "default"."""
        self.row(name)
        return next((layer[name].origin for _, layer in self._layers if name in layer), "default")

    def synonyms(self, name: str) -> tuple[Synonym, ...]:
        """Every place that gives the setting, strongest first, as DescribeConfigs lists them."""
        names = (name, *_COARSER.get(name, ()))
        return tuple(
            Synonym(
                each, None if self.row(each).sensitive else self.row(each).render(layer[each].value), source
            )
            for source, layer in self._layers
            for each in names
            if each in layer and layer[each].value is not None
        )

    def describe(self) -> Iterator[Described]:
        """All settings for DescribeConfigs of a broker, in the table's order; those of listeners behind them."""
        for name in self.names:
            setting = self.row(name)
            yield Described(
                name,
                self.shown(name),
                self.source(name),
                not setting.dynamic,
                setting.sensitive,
                self.synonyms(name),
                setting.kind,
                setting.doc,
            )

    @cached_property
    def listeners(self) -> list[Listener]:
        """Where to listen for Kafka clients, and what each listener advertises."""
        return resolve(
            self._strings["listeners"],
            self._strings["advertised.listeners"],
            listener_settings.homes(self._values),
            {
                plain(name): protocol
                for name, _, protocol in (
                    each.strip().partition(":")
                    for each in self._texts["listener.security.protocol.map"].split(",")
                )
            },
        )

    @cached_property
    def authorization(self) -> bool:
        """Whether rights are asked for."""
        said = self._texts["authorization"]
        return said == "true" or (said == "auto" and any(map(self.knows, self.listeners)))

    def knows(self, listener: Listener) -> bool:
        """Whether a listener asks its clients who they are."""
        return listener.sasl or self.client_auth(listener) != "none"

    def client_auth(self, listener: Listener) -> str:
        """Whether clients of a listener show a certificate, in the words of ssl.client.auth. Where they say otherwise
        who they are nobody is asked, unless it is said of that listener (KIP-684).
        """
        if not listener.tls:
            return "none"
        own = listener_settings.client_auths(self._values).get(plain(listener.name))
        return own or ("none" if listener.sasl else self._texts["ssl.client.auth"])

    @property
    def super_users(self) -> frozenset[str]:
        """Principals that may do everything."""
        return frozenset(filter(None, map(str.strip, self._texts["super.users"].split(";"))))

    @property
    def admin_tls(self) -> bool:
        """Whether HTTP is over TLS."""
        said, admin = self._texts["admin.security.protocol"], self.admin
        shows = "ssl.certificate.location" in self._texts or "ssl.keystore.location" in self._texts
        return said == "SSL" or (
            said == "auto" and shows and admin is not None and not is_loopback(admin.host)
        )

    @property
    def admin_authentication(self) -> bool:
        """Whether clients of HTTP must say who they are."""
        said = self._texts["admin.authentication"]
        return said == "true" or (said == "auto" and self.authorization)

    @property
    def console(self) -> str:
        """What the web pages beside the admin API are for: off, read or write. Off where there is no HTTP."""
        said, admin = self._texts["admin.console"], self.admin
        if admin is None:
            return "off"
        if said == "auto":
            return "write" if is_loopback(admin.host) or self.admin_authentication else "read"
        return said

    @property
    def homes(self) -> Homes:
        """The namespaces whose clients have groups and subscriptions of their own: all where rights are asked for."""
        return EVERYWHERE if self.authorization else self.listener_homes

    @property
    def listener_homes(self) -> frozenset[Namespace]:
        """The namespaces that have listeners of their own."""
        return frozenset(each.namespace for each in self.listeners) - {DEFAULT}

    @property
    def admin(self) -> Address | None:
        """Where to listen for HTTP, or None for nowhere."""
        text = self._texts["admin.listen"]
        return parse(text)[1] if text else None

    def _coarse(self, name: str) -> int:
        for each in (name, *_COARSER[name]):
            value = self._integers.get(each)
            if value is not None:
                unit = _MINUTE_MS if each.endswith(".minutes") else _HOUR_MS if each.endswith(".hours") else 1
                return value * unit if value >= 0 else -1
        raise AssertionError(f"{name} has no default")

    def _together(self) -> list[str]:
        """What is wrong with settings beside each other."""
        problems = []
        low, high = self.integer("group.min.session.timeout.ms"), self.integer("group.max.session.timeout.ms")
        if low > high:
            problems.append(
                f"{self._where('group.min.session.timeout.ms', 'group.max.session.timeout.ms')}: "
                f"group.min.session.timeout.ms ({low}) must not be above "
                f"group.max.session.timeout.ms ({high})."
            )
        problems += [
            f"{self._where(*names)}: {text}"
            for kind in (consumer_groups, share_groups)
            for names, text in kind.problems(self._integers)
        ]
        batch, request = self.integer("message.max.bytes"), self.integer("socket.request.max.bytes")
        if batch > request:
            problems.append(
                f"{self._where('message.max.bytes', 'socket.request.max.bytes')}: "
                f"message.max.bytes ({batch}) must not be above socket.request.max.bytes "
                f"({request}), or such a batch never gets in."
            )
        try:
            bound = self.listeners
        except ValueError as error:
            problems.append(
                f"{self._where('advertised.listeners', 'listeners')}: advertised.listeners {error}."
            )
            bound = []
        if bound:
            there = [each.name for each in bound]
            problems += [
                f"{self._where('listeners')}: the listener {each.name} speaks PLAINTEXT, and its name says otherwise: "
                f"say what it speaks, listener.security.protocol.map={each.name}:SASL_SSL, or call it SASL_SSL or SSL."
                for each in bound
                if each.protocol == "PLAINTEXT" and _SECURE.search(each.name)
            ]
            problems += [
                f"{self.origin(name)}: {name} is of a listener that there is not, or is said twice; there "
                f"{'is' if len(there) == 1 else 'are'} {', '.join(there)}."
                for name in listener_settings.of_nobody(self._values, there)
            ]
        admin = self.admin
        if admin is not None and admin.port and any((each.host, each.port) == admin for each in bound):
            problems.append(
                f"{self._where('listeners', 'admin.listen')}: {admin} cannot serve Kafka's protocol and HTTP: "
                "listen on two ports."
            )
        if not self.flag("insecure"):
            problems += self.exposed(bound)
        return problems

    def exposed(self, bound: list[Listener]) -> Iterator[str]:
        """Addresses that other machines can reach, and that are without TLS, or ask nobody who they are."""
        for listener in bound:
            safe = listener.protocol == "SASL_SSL" or (
                listener.tls and self.client_auth(listener) == "required"
            )
            if not safe and not is_loopback(listener.host):
                lacks = (
                    "nothing asks them who they are"
                    if listener.tls
                    else "what they say is read by who listens in"
                )
                yield (
                    f"{self._where('listeners')}: other machines can reach {listener}, and {lacks}: make it "
                    f"SASL_SSL://{listener} (docs/SECURITY.md), listen on 127.0.0.1, or add --insecure (or insecure = "
                    "true) if you trust all that can get there."
                )
        admin = self.admin
        if (
            admin is not None
            and not is_loopback(admin.host)
            and not (self.admin_tls and self.admin_authentication)
        ):
            yield (
                f"{self._where('admin.listen')}: other machines can reach {admin}, and HTTP there is without TLS or "
                "asks nobody who they are: set admin.security.protocol=SSL and admin.authentication=true, listen on "
                "127.0.0.1, or add --insecure (or insecure = true) if you trust all that can get there."
            )

    def _where(self, *names: str) -> str:
        origins = [self.origin(name) for name in names]
        return " and ".join(dict.fromkeys(origin for origin in origins if origin != "default")) or "defaults"
