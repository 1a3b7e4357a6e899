"""Who issues tokens for OAUTHBEARER: a key, its public half as a JWKS in a file, and tokens signed with it (RS256)."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from joserfc import jwt
from joserfc.jwk import RSAKey

ISSUER, AUDIENCE = "https://issuer.example", "kafka"


@dataclass(frozen=True)
class Issuer:
    """`folder` gets the key, and the JWKS that servers read."""

    folder: Path

    @property
    def jwks(self) -> Path:
        return self.folder / "jwks.json"

    @property
    def _key(self) -> Path:
        return self.folder / "issuer-key.pem"

    def prepare(self) -> None:
        """Make the key, once."""
        if self.jwks.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
        self._key.write_bytes(key.as_pem(private=True))
        self.jwks.write_text(json.dumps({"keys": [key.as_dict(private=False)]}))

    def token(self, subject: str, seconds: int = 3600) -> str:
        """A token of this subject that is good for so many seconds."""
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": now, "exp": now + seconds}
        key = RSAKey.import_key(self._key.read_bytes())
        return jwt.encode({"alg": "RS256", "kid": "one"}, claims, key)
