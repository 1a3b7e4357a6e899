"""Tokens that nobody should believe: each is made out of what a stranger can have.

That is the public key, which is no secret; a token of somebody else's, whose signature is right; and keys of one's own.
"""

from __future__ import annotations

import random
from typing import Any

from cryptography.hazmat.primitives.serialization import load_pem_public_key

from tests.gateway.auth.jwt_making import EC_KEY, RSA_KEY, der, jwk, part, pem, token

NEVER_ENDS = 4_000_000_000
"""Seconds since 1970."""
HUGE = 512 * 1024


class Forger:
    """Makes tokens that say that their bearer is `victim`."""

    def __init__(self, pick: random.Random, victim: str, public_pem: bytes, known: str) -> None:
        """`public_pem`: the key that the gateway verifies tokens with. `known`: a good token, of somebody else."""
        self._pick = pick
        self._claims = {"sub": victim, "exp": NEVER_ENDS}
        public: Any = load_pem_public_key(public_pem)
        # whoever takes the public key for a secret one takes it in one of these forms
        self._public = (public_pem, public_pem.strip(), der(_Holder(public)), pem(_Holder(public)))
        self._known = known

    def any(self) -> str:
        """One of them."""
        pick, claims = self._pick, self._claims
        head, body, signature = self._known.split(".")
        kid = f"key-{pick.randrange(1000)}"
        makers = (
            lambda: token({"alg": pick.choice(("none", "None", "NONE", "nOnE", ""))}, claims, None),
            lambda: token({}, claims, None),
            lambda: token({"alg": pick.choice(("HS256", "HS512"))}, claims, pick.choice(self._public)),
            lambda: token({"alg": "HS256"}, claims, b""),
            lambda: token({"alg": "RS256"}, claims, pick.choice(self._public)),
            lambda: token({"alg": "RS256"}, claims, RSA_KEY),
            lambda: token({"alg": "RS256", "kid": kid}, claims, RSA_KEY),
            lambda: token({"alg": "RS256", "kid": "k", "jwk": jwk(RSA_KEY, "k")}, claims, RSA_KEY),
            lambda: token({"alg": "RS256", "jku": "https://127.0.0.1/keys"}, claims, RSA_KEY),
            lambda: token({"alg": "ES256"}, claims, EC_KEY),
            # a signature of zeros, which some verifiers of ECDSA took for a good one
            lambda: f"{part({'alg': 'ES256'})}.{part(claims)}.{'A' * 86}",
            lambda: token({"alg": "HS256", "crit": ["exp"], "exp": 1}, claims, b"secret"),
            lambda: token({"alg": ["RS256"]}, claims, RSA_KEY),
            lambda: token({"alg": "RS256", "kid": {"a": [1]}}, claims, RSA_KEY),
            lambda: token({"alg": "RS256", "x": "y" * HUGE}, claims, RSA_KEY),
            lambda: token({"alg": "HS256"}, {**claims, "x": "y" * HUGE}, b"secret"),
            # the good one, about somebody else
            lambda: f"{head}.{part(claims)}.{signature}",
            lambda: f"{part({'alg': 'none'})}.{body}.",
            lambda: f"{head}.{body}.{signature[: pick.randrange(len(signature))]}",
            lambda: f"{head}.{body}",
            lambda: "a." * pick.choice((2, 30_000, HUGE // 2)),
            lambda: "." * pick.choice((1, 2, 5, 60_000)),
            lambda: f"{'[' * 20_000}.{body}.{signature}",
            lambda: f"{_deep()}.{part(claims)}.{signature}",
        )
        return pick.choice(makers)()


class _Holder:
    """A public key where a private one is asked for its own."""

    def __init__(self, public: Any) -> None:
        self._public = public

    def public_key(self) -> Any:
        return self._public


def _deep() -> str:
    """A head of JSON that is very deep."""
    from tests.gateway.auth.jwt_making import b64

    return b64(b'{"alg":' + b"[" * 20_000 + b"]" * 20_000 + b"}")
