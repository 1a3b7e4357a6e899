"""Why a Kafka port lets nobody in who just connects: whether it speaks TLS, or closes on who has not logged in.

librdkafka says nothing of a connection that is closed on it, so this looks by itself, when all is lost already.
"""

from __future__ import annotations

import socket
import ssl
import struct

SECONDS = 1.0
"""How long a look may wait for an answer."""

_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_METADATA = struct.pack(">ihhihi", 14, 3, 0, 2, -1, 0)

_SAY = "Say how one gets in with --client-config FILE"


def why_closed(host: str, port: int, protocol: str) -> tuple[str, str] | None:
    """(what the port does, what to do about that) where it closes on a client that speaks `protocol`, which is Kafka's
    security.protocol; None where it does not, and where nothing can be said.
    """
    protocol = protocol.upper()
    if protocol not in ("PLAINTEXT", "SSL") or not _closes(host, port):
        return None
    if _speaks_tls(host, port):
        if protocol == "SSL":
            return (
                "it speaks TLS, and closes",
                f"{_SAY}: with security.protocol=SASL_SSL if it asks for a login.",
            )
        return "it speaks TLS", f"{_SAY}: with security.protocol=SSL, or SASL_SSL if it asks for a login."
    return (
        "it closes, as ports do that ask for a login",
        f"{_SAY}: with security.protocol=SASL_PLAINTEXT, or SASL_SSL over TLS.",
    )


def _closes(host: str, port: int) -> bool:
    """Whether it closes on who asks without TLS and without a login."""
    try:
        with socket.create_connection((host, port), SECONDS) as connection:
            connection.sendall(_API_VERSIONS + _METADATA)
            while connection.recv(65_536):
                pass
    except TimeoutError:
        return False
    except OSError:
        # a port that is closed on what it has not read resets
        return True
    return True


def _speaks_tls(host: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # nothing is told to it, and nothing believed
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:
        return False
