"""Certificates of a CA that clients trust, in files, and what clients of TLS need."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

from gateway.auth import issuing
from gateway.auth.issuing import Pair
from gateway.config import Settings

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


class Pki:
    """A folder with a CA and the certificate of a gateway."""

    def __init__(self, folder: Path, name: str = "a CA") -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.ca = issuing.authority(name, NOW)
        self.ca_file = self.write("ca.pem", self.ca.certificate_pem)
        self.renew()

    def renew(self, days: int = 100, host: str = "localhost") -> Pair:
        """A new certificate in the place of the gateway's."""
        pair = issuing.server(self.ca, [host, "127.0.0.1"], NOW, days)
        self.put(pair)
        return pair

    def put(self, pair: Pair) -> None:
        self.key_file = self.write("server-key.pem", pair.key_pem)
        self.certificate_file = self.write("server.pem", pair.certificate_pem)

    def write(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        # in its place at once, as tools that renew certificates do
        new = path.with_suffix(".new")
        new.write_bytes(data)
        new.chmod(0o600)
        new.replace(path)
        return path

    @property
    def flags(self) -> list[str]:
        """Settings of a gateway that shows the certificate."""
        return [f"ssl.certificate.location={self.certificate_file}", f"ssl.key.location={self.key_file}"]

    def asking(self, how: str = "required") -> list[str]:
        """Settings of one that asks its clients for theirs."""
        return [*self.flags, f"ssl.ca.location={self.ca_file}", f"ssl.client.auth={how}"]

    def client(self, name: str | None = None, ca: Pair | None = None) -> ssl.SSLContext:
        """What a client needs; with a name it has a certificate of that name, signed by the CA or another one."""
        context = ssl.create_default_context(cadata=self.ca.certificate_pem.decode())
        if name is not None:
            pair = issuing.client(ca or self.ca, name, NOW, 10)
            context.load_cert_chain(
                self.write(f"{name}.pem", pair.certificate_pem), self.write(f"{name}-key.pem", pair.key_pem)
            )
        return context


def settings(*flags: str) -> Settings:
    return Settings.load(list(flags), options={"listeners": "SSL://127.0.0.1:0", "admin.listen": ""})
