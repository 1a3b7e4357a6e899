"""What a token whose signature is right proves: who, at home where, until when. Pure.

| claim | of Pulsar's tokens | of OAUTHBEARER's |
|---|---|---|
| the principal | token.auth.claim; of a list the first | sasl.oauthbearer.sub.claim.name |
| home | sasl.oauthbearer.home.claim.name, or `home` | sasl.oauthbearer.home.claim.name, if that is set |
| exp | if it is there | must be there |
| nbf | if it is there | if it is there |
| iss, aud | not looked at | as expected, where something is |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from gateway.auth.credentials import LONGEST_NAME, RESERVED, UserError, check_home, principal_of
from gateway.auth.errors import RefusedError
from gateway.peer import Identity

_LATEST = 253_402_300_799
"""The last second of the year 9999: what is later is as good as for ever."""


class Rules(NamedTuple):
    """What is asked of the claims of a token."""

    mechanism: str
    """what the identity says of how it was proved"""
    principal: str
    home: str | None
    issuer: str | None = None
    audience: tuple[str, ...] = ()
    must_expire: bool = False
    first_of_list: bool = False
    """whether a principal may be the first of a list"""
    skew: int = 0
    """seconds by which the issuer's clock may differ"""


def decide(claims: Mapping[str, object], rules: Rules, now: int) -> Identity:
    """Who the claims name, `now` in ms since 1970. Raises RefusedError."""
    expires = _seconds(claims, "exp")
    if expires is None and rules.must_expire:
        raise RefusedError("the token does not say when it ends (exp)")
    if expires is not None and now >= (expires + rules.skew) * 1000:
        raise RefusedError("the token has ended (exp)")
    begins = _seconds(claims, "nbf")
    if begins is not None and now < (begins - rules.skew) * 1000:
        raise RefusedError("the token does not hold yet (nbf)")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise RefusedError("the token is of another issuer (iss)")
    if rules.audience and not _audience(claims).intersection(rules.audience):
        raise RefusedError("the token is for others (aud)")
    return Identity(
        principal_of(_name(claims, rules)),
        rules.mechanism,
        _home(claims, rules),
        None if expires is None else int((min(expires, _LATEST) + rules.skew) * 1000),
    )


def _name(claims: Mapping[str, object], rules: Rules) -> str:
    said = claims.get(rules.principal)
    if rules.first_of_list and isinstance(said, list) and said:
        said = said[0]
    if not isinstance(said, str) or not said:
        raise RefusedError(f"the token names nobody ({rules.principal})")
    if len(said) > LONGEST_NAME or not said.isprintable() or said in RESERVED:
        raise RefusedError(f"the token names what is no principal ({rules.principal})")
    return said


def _home(claims: Mapping[str, object], rules: Rules) -> str | None:
    said = claims.get(rules.home) if rules.home is not None else None
    if said is None:
        return None
    try:
        return check_home(said if isinstance(said, str) else "")
    except UserError:
        # a token that is bound to a place must not be at home anywhere else
        raise RefusedError(f"the token's home is no tenant/namespace ({rules.home})") from None


def _seconds(claims: Mapping[str, object], claim: str) -> int | float | None:
    said = claims.get(claim)
    if said is None:
        return None
    # JSON's reader knows NaN and Infinity, which are later than nothing and earlier than nothing
    if isinstance(said, bool) or not isinstance(said, int | float) or not -_LATEST < said < math.inf:
        raise RefusedError(f"the token's {claim} is no time")
    return min(said, _LATEST)


def _audience(claims: Mapping[str, object]) -> set[str]:
    said = claims.get("aud")
    return {each for each in (said if isinstance(said, list) else [said]) if isinstance(each, str)}
