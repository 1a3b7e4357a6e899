"""TLS at one listener: what its acceptor asks for each connection, and what is told of handshakes that fail."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.strangers import shakes_no_hands

if TYPE_CHECKING:
    import asyncio

    from gateway.auth.context import Tls
    from gateway.handshakes import Handshakes

log = logging.getLogger("magnetar.tls")


class Entrance:
    """For an `Acceptor`."""

    def __init__(
        self,
        tls: Tls,
        client_auth: str,
        *,
        crowded: Callable[[str, int], bool] = lambda address, coming: False,
        refused: Callable[[], None],
        failed: Callable[[], None],
    ) -> None:
        """`client_auth` is what this listener asks of clients. `crowded`: whether an address has as many connections as
        it may when so many more are under way. `refused` and `failed` count.
        """
        self._tls = tls
        self._client_auth = client_auth
        self._crowded = crowded
        self._refused = refused
        self._failed = failed

    @property
    def handshakes(self) -> Handshakes:
        return self._tls.handshakes

    @property
    def timeout(self) -> float:
        return self._tls.timeout

    def context(self) -> ssl.SSLContext:
        return self._tls.context(self._client_auth)

    def crowded(self, address: str) -> bool:
        return self._crowded(address, self.handshakes.under_way[address])

    def refused(self, address: str) -> None:
        self._refused()
        log.info("too many connections or handshakes from one address", extra={"client": f"/{address}"})

    def failed(self, address: str, error: OSError) -> None:
        self._failed()
        log.info("a TLS handshake failed", extra={"client": f"/{address}", "reason": shakes_no_hands(error)})


def certificate_of(transport: asyncio.BaseTransport) -> bytes | None:
    """What the client of a connection has shown (DER), None if nothing."""
    tls = transport.get_extra_info("ssl_object")
    return tls.getpeercert(True) if tls is not None else None
