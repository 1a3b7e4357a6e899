"""OAUTHBEARER (RFC 7628, KIP-255): a token in one message, and the rest of the dance where it is refused. Pure.

A client whose token is refused is told so in JSON, answers with the byte 1, and only then the exchange fails: that is
RFC 7628, and Kafka's clients wait for it. What the JSON says is the same for every token. Extensions (KIP-342) are read
and mean nothing here.
"""

from __future__ import annotations

import re

from gateway.auth.errors import RefusedError
from gateway.auth.mechanisms import Challenge, Token, checked_name

OAUTHBEARER = "OAUTHBEARER"
INVALID = b'{"status":"invalid_token"}'
"""What a client is told whose token is refused."""

_MESSAGE = re.compile(
    r"n,(?:a=(?P<name>[^,\0\x01]+))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01", re.DOTALL
)
_BEARER = re.compile(r"bearer +(?P<token>[-_.~+/A-Za-z0-9]+=*)", re.IGNORECASE)


class OauthBearer:
    """One exchange."""

    __slots__ = ("_refused", "user")
    name = OAUTHBEARER

    def __init__(self) -> None:
        self.user = ""
        # why its token was refused, while it has not answered to that. The words alone: the error itself holds frames,
        # and they the connection
        self._refused: str | None = None

    def receive(self, data: bytes) -> Token:
        if self._refused is not None:
            raise RefusedError(self._refused)
        try:
            said = _MESSAGE.fullmatch(str(data, "utf-8"))
        except UnicodeDecodeError:
            said = None
        if said is None:
            raise RefusedError("a message that does not begin an OAUTHBEARER exchange")
        if said["name"]:
            self.user = checked_name(said["name"].replace("=2C", ",").replace("=3D", "="))
        pairs = dict(each.split("=", 1) for each in said["pairs"].split("\x01") if each)
        bearer = _BEARER.fullmatch(pairs.get("auth", "").strip())
        if bearer is None:
            raise RefusedError("an OAUTHBEARER message without a bearer's token")
        return Token(bearer["token"], name=self.user)

    def refused(self, error: RefusedError) -> Challenge:
        self._refused = error.reason
        return Challenge(INVALID)
