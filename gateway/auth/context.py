"""TLS from the settings and the files they name, and from these files again when they change.

What is loaded is one value (`Loaded`) that takes the place of the one before as a whole, or not at all. A connection
keeps what it began with. Each change makes new contexts: on an old one a client could resume a session that began when
its certificate was still good, and would not be asked for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from cryptography.hazmat.primitives.serialization import Encoding

from gateway.auth import certificates, private_files
from gateway.auth.entrance import certificate_of
from gateway.auth.errors import RefusedError
from gateway.auth.principals import Mapping, subject
from gateway.errors import StartError
from gateway.handshakes import Handshakes
from gateway.peer import NOBODY, Identity

if TYPE_CHECKING:
    from cryptography import x509

    from gateway.config import Settings

log = logging.getLogger("magnetar.tls")

NONE, REQUESTED, REQUIRED = "none", "requested", "required"
"""Of ssl.client.auth."""

SOON_DAYS = 30
"""A certificate that ends sooner is warned of, once a day."""
_DAY_MS = 86_400_000

_VERIFY = {NONE: ssl.CERT_NONE, REQUESTED: ssl.CERT_OPTIONAL, REQUIRED: ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class Loaded(NamedTuple):
    """What the files held."""

    contexts: dict[str, ssl.SSLContext]
    """by what is asked of clients; without CAs only NONE is there"""
    ends_at: int
    """when the certificate does, ms since 1970"""
    where: str
    """its file"""
    names: list[str]
    """hosts and addresses that it is for"""
    authorities: list[x509.Certificate]
    """the CAs of clients"""


def load(settings: Settings, now_ms: int) -> Loaded:
    """Read the files and make contexts. Raises StartError."""
    own = certificates.own(settings, now_ms)
    trusted = certificates.authorities(settings, now_ms)
    if not trusted and (
        asking := [each for each in settings.listeners if settings.client_auth(each) != NONE]
    ):
        raise StartError(
            f"The listener {asking[0].name} asks clients for certificates (ssl.client.auth), and needs the CAs that "
            "sign them: give ssl.ca.location (--tls-ca) or ssl.truststore.location."
        )
    modes = (NONE, REQUESTED, REQUIRED) if trusted else (NONE,)
    contexts = {mode: _context(settings, own, trusted, mode) for mode in modes}
    leaf = own.leaf
    return Loaded(contexts, certificates.ends_at(leaf), own.where, certificates.names_of(leaf), trusted)


def _context(
    settings: Settings, own: certificates.Own, trusted: list[x509.Certificate], mode: str
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [_VERSIONS[each] for each in settings.strings("ssl.enabled.protocols")]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    # clients that just go away are no news
    context.options |= getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
    if ciphers := settings.strings("ssl.cipher.suites"):
        try:
            context.set_ciphers(":".join(ciphers))
        except ssl.SSLError as error:
            raise StartError(
                "ssl.cipher.suites has no cipher that OpenSSL knows: use its names, such as "
                "ECDHE-RSA-AES256-GCM-SHA384 (openssl ciphers -v), or leave it out."
            ) from error
    try:
        with _file(own.chain) as chain, _file(own.key) as key:
            context.load_cert_chain(chain, key)
        if mode != NONE:
            context.load_verify_locations(
                cadata="".join(each.public_bytes(Encoding.PEM).decode() for each in trusted)
            )
            # a session that is taken up again would not show its certificate
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
    except (ssl.SSLError, ValueError) as error:
        raise StartError(f"OpenSSL does not take the certificate in {own.where}: {error}.") from error
    context.verify_mode = _VERIFY[mode]
    return context


@contextlib.contextmanager
def _file(data: bytes) -> Iterator[str]:
    """A path to these bytes: OpenSSL reads keys from files only. Nothing of it comes to a disk where there is Linux."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("magnetar-tls")
    else:
        number, name = tempfile.mkstemp()
        os.unlink(name)
    with open(number, "wb") as file:
        file.write(data)
        file.flush()
        os.lseek(number, 0, os.SEEK_SET)
        yield f"/dev/fd/{number}"


class Tls:
    """Of one gateway, over all listeners."""

    def __init__(self, settings: Settings, now_ms: int, loop_seconds: float) -> None:
        """`now_ms` since 1970, `loop_seconds` of the clock that handshakes are counted by. Raises StartError."""
        self._settings = settings
        self._seen = self._state()
        self.loaded = load(settings, now_ms)
        self.handshakes = Handshakes(
            settings.integer("ssl.handshakes.per.second"),
            settings.integer("ssl.handshakes.per.ip.per.second"),
            loop_seconds,
        )
        self.timeout = settings.integer("ssl.handshake.timeout.ms") / 1000
        """seconds that a handshake may take"""
        self.asks = any(settings.client_auth(each) != NONE for each in settings.listeners)
        """whether a listener asks clients for certificates"""
        self._mapping = Mapping(settings.text("ssl.principal.mapping.rules"))
        self.shown: list[Callable[[], dict[bytes, list[Callable[[], None]]]]] = []
        """Each tells which certificates (DER) clients have shown, and how to end their connections."""
        self._warned_at = 0
        if (file := certificates.private_of(settings)) is not None and (why := private_files.warning(file)):
            log.warning("a private key: %s", why)
        # why the files as they are cannot be used
        self._problem = ""
        self._tell(now_ms)

    def context(self, mode: str) -> ssl.SSLContext:
        """For the next connection. `mode`: what is asked of clients. KeyError for more than NONE without CAs."""
        return self.loaded.contexts[mode]

    def ends_in(self, now_ms: int) -> float:
        """Seconds that the certificate is still valid."""
        return (self.loaded.ends_at - now_ms) / 1000

    def identity_of(self, transport: asyncio.BaseTransport) -> Identity:
        """Who a client is by the certificate that it has shown; nobody if none. Raises RefusedError."""
        shown = certificate_of(transport)
        if shown is None:
            return NOBODY
        began = transport.get_extra_info("sslcontext")
        if began not in self.loaded.contexts.values() and not certificates.issued_by(
            shown, self.loaded.authorities
        ):
            # they changed while it shook hands
            raise RefusedError("the CA of its certificate is not trusted any more")
        return Identity(f"User:{self._mapping.name(subject(shown))}", "SSL")

    async def look(self, now_ms: int) -> None:
        """Read the files again if one has changed. While they cannot be used, what was there before stays."""
        loop = asyncio.get_running_loop()
        seen = await loop.run_in_executor(None, self._state)
        # what could not be used may be good later: a certificate may begin in a minute
        if seen != self._seen or self._problem:
            self._seen = seen
            try:
                loaded = await loop.run_in_executor(None, load, self._settings, now_ms)
            except StartError as error:
                if str(error) != self._problem:
                    log.error("new certificates cannot be used, the old ones stay: %s", error)
                self._problem = str(error)
            else:
                self._problem = ""
                before, self.loaded = self.loaded, loaded
                self._tell(now_ms)
                if set(before.authorities) - set(loaded.authorities):
                    await self._end_untrusted()
        if self.loaded.ends_at - now_ms < SOON_DAYS * _DAY_MS and now_ms - self._warned_at >= _DAY_MS:
            self._warn(now_ms)

    async def _end_untrusted(self) -> None:
        """CAs of clients have gone: so do the clients that they vouch for."""
        trusted = self.loaded.authorities
        shown: dict[bytes, list[Callable[[], None]]] = {}
        for each in self.shown:
            for certificate, ends in each().items():
                shown.setdefault(certificate, []).extend(ends)

        def untrusted() -> list[bytes]:
            return [each for each in shown if not certificates.issued_by(each, trusted)]

        # 0.1 ms for each
        gone = await asyncio.get_running_loop().run_in_executor(None, untrusted)
        log.info("CAs of clients have changed", extra={"clients": len(shown), "ended": len(gone)})
        for certificate in gone:
            for end in shown[certificate]:
                end()

    def _tell(self, now_ms: int) -> None:
        loaded = self.loaded
        days = (loaded.ends_at - now_ms) // _DAY_MS
        log.info(
            "certificate loaded",
            extra={"file": loaded.where, "names": ",".join(loaded.names), "days_left": days},
        )
        if not loaded.names:
            log.warning(
                "the certificate in %s names no host (subjectAltName): clients refuse it unless they are told not to "
                "look",
                loaded.where,
            )
        if days < SOON_DAYS:
            self._warn(now_ms)

    def _warn(self, now_ms: int) -> None:
        self._warned_at = now_ms
        days = (self.loaded.ends_at - now_ms) // _DAY_MS
        log.warning(
            "the certificate in %s %s: put a new one there, no restart is needed",
            self.loaded.where,
            f"ends in {days} days" if days >= 0 else "has ended, and clients refuse it",
        )

    def _state(self) -> list[tuple[int, int, int] | None]:
        """What tells that a file has changed: also a link that leads to another one now."""
        found: list[tuple[int, int, int] | None] = []
        for path in certificates.files_of(self._settings):
            try:
                status = path.stat()
            except OSError:
                found.append(None)
            else:
                found.append((status.st_mtime_ns, status.st_size, status.st_ino))
        return found
