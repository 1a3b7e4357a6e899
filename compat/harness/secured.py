"""Over TLS and logins: what servers and programs are told, and the token endpoint of clients that ask for one.

A program finds what it is told in its environment, as JSON in `VARIABLE`: {"protocol", "ca", "truststore",
"store_password"}, and {"mechanism", "user", "password"}; with OAUTHBEARER {"token_file", "token_endpoint"}, too; with a
certificate of its own {"certificate", "key", "keystore"}, of which the first two are one file. All of them are texts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from compat.harness import catalogue
from compat.harness.catalogue import Client
from compat.peers.issuer import Issuer
from compat.peers.secured import BEARER, STORE_PASSWORD, Secured

VARIABLE = "COMPAT_SECURITY"
USER, PASSWORD = "ada", "ada-secret"
MECHANISMS = {
    "scram-256": "SCRAM-SHA-256",
    "scram-512": "SCRAM-SHA-512",
    "plain": "PLAIN",
    "oauthbearer": BEARER,
}
"""Way -> mechanism of SASL. That of a client's certificate has none."""
LASTS = 24 * 3600
"""Seconds that tokens are good for: longer than all programs run."""


def server(way: str, folder: Path) -> Secured:
    """What a server is to ask of its clients; its certificates go to `folder`."""
    if way not in MECHANISMS:
        return Secured(folder, protocol="SSL", client_auth="required")
    issuer = Issuer(folder / "issuer") if MECHANISMS[way] == BEARER else None
    return Secured(folder, users={USER: PASSWORD}, issuer=issuer)


def lacking(client: Client, way: str) -> str:
    """Why this client cannot log in so; "" when it can."""
    return client.ways_lacked.get(way, "")


def able(clients: Sequence[Client], way: str) -> list[Client]:
    """Those that can log in so and have a case of the script."""
    cases = set(catalogue.script())
    return [client for client in clients if not lacking(client, way) and cases & set(client.cases)]


@contextmanager
def environment(way: str, secured: Secured) -> Iterator[dict[str, str]]:
    """What programs are told, for as long as the token endpoint serves. The certificates must be there."""
    told = {
        "protocol": secured.protocol,
        "ca": str(secured.ca),
        "truststore": str(secured.truststore),
        "store_password": STORE_PASSWORD,
    }
    if way not in MECHANISMS:
        told |= {
            "certificate": str(secured.client),
            "key": str(secured.client),
            "keystore": str(secured.keystore),
        }
    else:
        told |= {"mechanism": MECHANISMS[way], "user": USER, "password": PASSWORD}
    if secured.issuer is None:
        yield _variable(told)
        return
    token = secured.issuer.token(USER, LASTS)
    file = secured.folder / "token"
    file.write_text(token)
    with _endpoint(token) as url:
        yield _variable(told | {"token_file": str(file), "token_endpoint": url})


def _variable(told: Mapping[str, str]) -> dict[str, str]:
    return {VARIABLE: json.dumps(told)}


@contextmanager
def _endpoint(token: str) -> Iterator[str]:
    """Serves this token to whoever asks (OAuth's grant of client credentials), and gives its address."""
    answer = json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": LASTS}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/token"
        finally:
            server.shutdown()
