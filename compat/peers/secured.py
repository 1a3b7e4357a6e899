"""What a server needs to be on a network: certificates of a CA of its own, users, rights, as Kafka and Magnetar are
told, and as clients are.

    secured = Secured(folder, users={"ada": "ada-secret"}, super_users=("User:ada",))
    with KafkaPeer(secured=secured) as peer: ...
    with MagnetarPeer(secured=secured) as peer: ...

With an `issuer`, its tokens let in, too (OAUTHBEARER).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import trustme

from compat.peers.issuer import AUDIENCE, ISSUER, Issuer

Protocol = Literal["SSL", "SASL_SSL", "SASL_PLAINTEXT"]

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
BEARER = "OAUTHBEARER"
STORE_PASSWORD = "changeit"  # what Java's own stores have


@dataclass(frozen=True)
class Secured:
    """`folder` gets the certificates. With `authorizer` rights are asked for: `super_users` have all of them.

    `client_auth` is ssl.client.auth: with "required" clients show `client.pem`, whose subject is CN=<its name>.
    """

    folder: Path
    protocol: Protocol = "SASL_SSL"
    users: Mapping[str, str] = field(default_factory=dict)
    super_users: tuple[str, ...] = ()
    authorizer: bool = False
    client_auth: Literal["none", "requested", "required"] = "none"
    issuer: Issuer | None = None

    @property
    def ca(self) -> Path:
        """The certificate of the CA, in PEM."""
        return self.folder / "ca.pem"

    @property
    def certificate(self) -> Path:
        return self.folder / "server.pem"

    @property
    def key(self) -> Path:
        return self.folder / "server-key.pem"

    @property
    def client(self) -> Path:
        """A client's key and certificate in one file, as Java wants it."""
        return self.folder / "client.pem"

    @property
    def truststore(self) -> Path:
        """The CA as PKCS #12, for Java's clients before 3.0; its password is `STORE_PASSWORD`."""
        return self.folder / "truststore.p12"

    @property
    def keystore(self) -> Path:
        """A client's key and certificate, likewise."""
        return self.folder / "keystore.p12"

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return (*MECHANISMS, BEARER) if self.issuer is not None else MECHANISMS

    def prepare(self) -> None:
        """Make the certificates, once."""
        if self.issuer is not None:
            self.issuer.prepare()
        if self.client.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        authority.cert_pem.write_to_path(self.ca)
        server = authority.issue_cert("127.0.0.1", "localhost", "::1", key_type=trustme.KeyType.ECDSA)
        self.certificate.write_bytes(b"".join(each.bytes() for each in server.cert_chain_pems))
        self.key.write_bytes(pkcs8(server.private_key_pem.bytes()))
        client = authority.issue_cert("client.example", common_name="client", key_type=trustme.KeyType.ECDSA)
        chain = b"".join(each.bytes() for each in client.cert_chain_pems)
        self.client.write_bytes(pkcs8(client.private_key_pem.bytes()) + chain)
        self.truststore.write_bytes(_truststore(authority.cert_pem.bytes()))
        self.keystore.write_bytes(_keystore(client.private_key_pem.bytes(), chain))

    def kafka(self, listener: str) -> dict[str, str]:
        """Settings of a Kafka broker, whose listener of this name is secured."""
        keystore = self.folder / "server-keystore.pem"
        keystore.write_bytes(self.key.read_bytes() + self.certificate.read_bytes())
        settings = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
        settings = settings if self.authorizer else {}
        # the broker itself, and whoever prepares something by its other listener
        settings["super.users"] = ";".join((*self.super_users, "User:ANONYMOUS"))
        own = f"listener.name.{listener.lower()}."
        settings |= {
            own + "ssl.keystore.type": "PEM",
            own + "ssl.keystore.location": str(keystore),
            own + "ssl.truststore.type": "PEM",
            own + "ssl.truststore.location": str(self.ca),
            own + "ssl.client.auth": self.client_auth,
        }
        if self.sasl:
            said = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
            scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            settings |= {
                own + "sasl.enabled.mechanisms": ",".join(self.mechanisms),
                own + "plain.sasl.jaas.config": (
                    f"org.apache.kafka.common.security.plain.PlainLoginModule required {said};"
                ),
                own + "scram-sha-256.sasl.jaas.config": scram,
                own + "scram-sha-512.sasl.jaas.config": scram,
            }
            if self.issuer is not None:
                bearer = own + "oauthbearer."
                package = "org.apache.kafka.common.security.oauthbearer."
                settings |= {
                    bearer + "sasl.jaas.config": f"{package}OAuthBearerLoginModule required;",
                    bearer
                    + "sasl.server.callback.handler.class": f"{package}OAuthBearerValidatorCallbackHandler",
                    bearer + "sasl.oauthbearer.jwks.endpoint.url": self.issuer.jwks.as_uri(),
                    bearer + "sasl.oauthbearer.expected.issuer": ISSUER,
                    bearer + "sasl.oauthbearer.expected.audience": AUDIENCE,
                }
        return settings

    def kafka_options(self) -> list[str]:
        """Options of the JVM of a Kafka broker."""
        if self.issuer is None:
            return []
        return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.issuer.jwks.as_uri()}"]

    def kafka_users(self) -> list[str]:
        """Arguments of `kafka-storage format`, which makes the users of SCRAM."""
        return [
            argument
            for name, password in self.users.items()
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for argument in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
        ]

    def magnetar(self) -> dict[str, str]:
        """Settings of a gateway."""
        users = self.folder / "users"
        users.write_text("".join(f"{name}:{password}\n" for name, password in self.users.items()))
        users.chmod(0o600)
        settings = {
            "ssl.certificate.location": str(self.certificate),
            "ssl.key.location": str(self.key),
            "ssl.ca.location": str(self.ca),
            "ssl.client.auth": self.client_auth,
            "super.users": ";".join(self.super_users),
            "authorization": "true" if self.authorizer else "false",
        }
        if self.sasl:
            settings |= {"sasl.enabled.mechanisms": ",".join(self.mechanisms), "users.file": str(users)}
        if self.issuer is not None:
            settings |= {
                "sasl.oauthbearer.jwks.endpoint.url": self.issuer.jwks.as_uri(),
                "sasl.oauthbearer.expected.issuer": ISSUER,
                "sasl.oauthbearer.expected.audience": AUDIENCE,
            }
        if self.protocol == "SASL_PLAINTEXT":
            settings["sasl.plain.insecure"] = "true"
        return settings

    def librdkafka(self, user: str = "", mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
        """Properties of clients on librdkafka."""
        found: dict[str, str] = {"security.protocol": self.protocol}
        if self.protocol != "SASL_PLAINTEXT":
            found["ssl.ca.location"] = str(self.ca)
        if self.client_auth != "none":
            found |= {"ssl.certificate.location": str(self.client), "ssl.key.location": str(self.client)}
        if self.sasl:
            found |= {
                "sasl.mechanism": mechanism,
                "sasl.username": user,
                "sasl.password": self.users[user],
            }
        return found

    def java(self, user: str = "", mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
        """Properties of Java's clients and Kafka's tools."""
        found: dict[str, str] = {"security.protocol": self.protocol}
        if self.protocol != "SASL_PLAINTEXT":
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca)}
        if self.client_auth != "none":
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.client)}
        if self.sasl:
            module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
            found |= {
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": (
                    f"org.apache.kafka.common.security.{module} required "
                    f'username="{user}" password="{self.users[user]}";'
                ),
            }
        return found


def pkcs8(pem: bytes) -> bytes:
    """A private key as Java reads it."""
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(pem, None)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _truststore(pem: bytes) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    entry = pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(pem), b"ca")
    return pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(STORE_PASSWORD.encode()))


def _keystore(key: bytes, chain: bytes) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        load_pem_private_key,
        pkcs12,
    )

    private = load_pem_private_key(key, None)
    assert isinstance(private, EllipticCurvePrivateKey)
    own, *others = x509.load_pem_x509_certificates(chain)
    encryption = BestAvailableEncryption(STORE_PASSWORD.encode())
    return pkcs12.serialize_key_and_certificates(b"client", private, own, others, encryption)
