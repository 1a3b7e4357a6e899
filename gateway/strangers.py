"""What a client speaks that is no Kafka, told by its first bytes: TLS, HTTP, or nothing that is known; and why the
handshake of TLS did not succeed with one.
"""

from __future__ import annotations

import ssl

_HTTP = (
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"CONNECT ",
    b"TRACE ",
    b"PRI * HTTP",
)

_TLS_HANDSHAKE, _TLS_MAJOR, _CLIENT_HELLO = 0x16, 3, 1


def not_kafka(data: bytes, position: int, size: int, key: int | None) -> str:
    """Why the bytes from `position` on are no frame that is taken, for the log. `size` is what their first four say,
    `key` the API that the next two name, None when they have not come.
    """
    if _speaks_tls(data, position):
        return "a TLS client on a listener without TLS: it needs security.protocol=PLAINTEXT"
    if data.startswith(_HTTP, position):
        return "an HTTP client on a Kafka listener: HTTP is served at admin.listen"
    named = f" for API {key}" if key is not None else ""
    most = "more than socket.request.max.bytes" if key == 0 else "too large"
    return f"a frame of {size} bytes{named}: not a Kafka request, or {most}"


def _speaks_tls(data: bytes, position: int) -> bool:
    """A ClientHello: a record of type handshake, a version 3.x, and a handshake of type 1 (RFC 8446, 4 and 5.1)."""
    head = data[position : position + 6]
    if len(head) < 6:
        return len(head) > 2 and head[0] == _TLS_HANDSHAKE and head[1] == _TLS_MAJOR
    return head[0] == _TLS_HANDSHAKE and head[1] == _TLS_MAJOR and head[5] == _CLIENT_HELLO


_REASONS = {
    "WRONG_VERSION_NUMBER": "it does not speak TLS: a client of this listener needs security.protocol=SSL or SASL_SSL",
    "HTTP_REQUEST": "it speaks HTTP without TLS, to a listener that is TLS",
    "HTTPS_PROXY_REQUEST": "it speaks HTTP without TLS, to a listener that is TLS",
    "UNSUPPORTED_PROTOCOL": "it knows only versions of TLS that are not allowed here (ssl.enabled.protocols)",
    "NO_SHARED_CIPHER": "it knows no cipher that is allowed here (ssl.cipher.suites)",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate, which ssl.client.auth=required asks for",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not good here",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know the CA of this gateway's certificate: give it that CA "
    "(ssl.ca.location, ssl.truststore.location)",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this gateway's certificate has ended by its clock",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept this gateway's certificate: its CA, its names or its dates",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept this gateway's certificate: its CA, its names or its dates",
}
"""OpenSSL's names of what a server meets."""


def shakes_no_hands(error: OSError) -> str:
    """Why a handshake failed, for the log of whoever runs the gateway."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{_REASONS['CERTIFICATE_VERIFY_FAILED']}: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        known = _REASONS.get(error.reason or "")
        return known or f"OpenSSL says {(error.reason or str(error)).lower().replace('_', ' ')}"
    if isinstance(error, ConnectionAbortedError):
        return "it takes longer than ssl.handshake.timeout.ms"
    if isinstance(error, ConnectionResetError):
        return "it went away in the middle; clients do so that do not accept the gateway's certificate"
    return str(error)
