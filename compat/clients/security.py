"""What the Python programs are told of TLS and logins, as each library takes it.

The variable COMPAT_SECURITY holds it, as JSON; without it every client connects in the clear. README.md lists its
fields.
"""

from __future__ import annotations

import json
import os
import ssl
from pathlib import Path
from typing import Any

TOLD: dict[str, str] = json.loads(os.environ.get("COMPAT_SECURITY") or "{}")
MECHANISM = TOLD.get("mechanism", "")


def token() -> str:
    """The token of whoever logs in by one."""
    return Path(TOLD["token_file"]).read_text()


def librdkafka(bootstrap: str) -> dict[str, Any]:
    """The properties of a client of this server."""
    found: dict[str, Any] = {"bootstrap.servers": bootstrap}
    if not TOLD:
        return found
    found |= {"security.protocol": TOLD["protocol"], "ssl.ca.location": TOLD["ca"]}
    if "certificate" in TOLD:
        found |= {"ssl.certificate.location": TOLD["certificate"], "ssl.key.location": TOLD["key"]}
    if MECHANISM:
        found["sasl.mechanisms"] = MECHANISM
    if MECHANISM == "OAUTHBEARER":
        found |= {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": TOLD["token_endpoint"],
            "sasl.oauthbearer.client.id": TOLD["user"],
            "sasl.oauthbearer.client.secret": TOLD["password"],
        }
    elif MECHANISM:
        found |= {"sasl.username": TOLD["user"], "sasl.password": TOLD["password"]}
    return found


def kafka_python(bootstrap: str) -> dict[str, Any]:
    """The arguments of a client of this server."""
    found: dict[str, Any] = {"bootstrap_servers": bootstrap}
    if not TOLD:
        return found
    found |= {"security_protocol": TOLD["protocol"], "ssl_cafile": TOLD["ca"]}
    if "certificate" in TOLD:
        found |= {"ssl_certfile": TOLD["certificate"], "ssl_keyfile": TOLD["key"]}
    if MECHANISM == "OAUTHBEARER":
        from kafka.net.sasl.oauth import AbstractTokenProvider

        class Provider(AbstractTokenProvider):
            def token(self) -> str:
                return token()

        found |= {"sasl_mechanism": MECHANISM, "sasl_oauth_token_provider": Provider()}
    elif MECHANISM:
        found |= {"sasl_mechanism": MECHANISM, **_plain()}
    return found


def aiokafka(bootstrap: str) -> dict[str, Any]:
    """The arguments of a client of this server."""
    found: dict[str, Any] = {"bootstrap_servers": bootstrap}
    if not TOLD:
        return found
    context = ssl.create_default_context(cafile=TOLD["ca"])
    if "certificate" in TOLD:
        context.load_cert_chain(TOLD["certificate"], TOLD["key"])
    found |= {"security_protocol": TOLD["protocol"], "ssl_context": context}
    if MECHANISM == "OAUTHBEARER":
        from aiokafka.abc import AbstractTokenProvider

        class Provider(AbstractTokenProvider):
            async def token(self) -> str:
                return token()

        found |= {"sasl_mechanism": MECHANISM, "sasl_oauth_token_provider": Provider()}
    elif MECHANISM:
        found |= {"sasl_mechanism": MECHANISM, **_plain()}
    return found


def java() -> dict[str, str]:
    """The properties of a Java client, as a tool or a framework takes them."""
    if not TOLD:
        return {}
    found = {
        "security.protocol": TOLD["protocol"],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": TOLD["ca"],
    }
    if "certificate" in TOLD:
        found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": TOLD["key"]}
    if MECHANISM:
        package = "org.apache.kafka.common.security."
        module = {"PLAIN": "plain.PlainLoginModule", "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule"}.get(
            MECHANISM, "scram.ScramLoginModule"
        )
        said = (
            "" if MECHANISM == "OAUTHBEARER" else f' username="{TOLD["user"]}" password="{TOLD["password"]}"'
        )
        found |= {
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f"{package}{module} required{said};",
        }
        if MECHANISM == "OAUTHBEARER":
            found |= {
                "sasl.login.callback.handler.class": f"{package}oauthbearer.OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": token_url(),
            }
    return found


def java_options() -> list[str]:
    """Options of the JVM of such a client: from where it may read its token."""
    if MECHANISM != "OAUTHBEARER":
        return []
    return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={token_url()}"]


def token_url() -> str:
    return Path(TOLD["token_file"]).as_uri()


def _plain() -> dict[str, str]:
    return {"sasl_plain_username": TOLD["user"], "sasl_plain_password": TOLD["password"]}
