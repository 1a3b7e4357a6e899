"""What the claims of a token prove."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.claims import Rules, decide
from gateway.auth.errors import RefusedError
from gateway.peer import Identity

NOW = 1_700_000_000
OWN = Rules("token", "sub", "home", first_of_list=True, skew=30)
ISSUER = Rules("OAUTHBEARER", "sub", None, "https://issuer", ("kafka", "all"), must_expire=True, skew=30)
GOOD = {"sub": "ada", "iss": "https://issuer", "aud": "kafka", "exp": NOW + 60}


def at(claims: dict[str, Any], rules: Rules = OWN, now: int = NOW) -> Identity:
    return decide(claims, rules, now * 1000)


def test_a_name_is_enough_for_a_token_of_pulsar_s() -> None:
    assert at({"sub": "ada"}) == Identity("User:ada", "token", None, None, None)
    assert at({"sub": ["ada", "bob"]}).principal == "User:ada"
    assert at({"sub": "ada", "home": "shop/eu"}).home == "shop/eu"
    assert at({"sub": "ada", "iss": 7, "aud": {}}).principal == "User:ada"


def test_a_token_of_an_issuer() -> None:
    assert at(GOOD, ISSUER) == Identity("User:ada", "OAUTHBEARER", None, (NOW + 90) * 1000, None)
    assert at(GOOD | {"aud": ["x", "all"]}, ISSUER).principal == "User:ada"
    # no setting names a claim that is a home
    assert at(GOOD | {"home": "shop/eu"}, ISSUER).home is None
    assert at(GOOD | {"at": "shop/eu"}, ISSUER._replace(home="at")).home == "shop/eu"
    assert at(GOOD | {"user": "bob"}, ISSUER._replace(principal="user")).principal == "User:bob"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"exp": None}, "exp"),
        ({"exp": NOW - 30}, "ended"),
        ({"exp": 0}, "ended"),
        ({"exp": -1}, "ended"),
        ({"exp": True}, "no time"),
        ({"exp": str(NOW + 60)}, "no time"),
        ({"exp": float("nan")}, "no time"),
        ({"exp": float("inf")}, "no time"),
        ({"exp": [NOW + 60]}, "no time"),
        ({"nbf": NOW + 31}, "nbf"),
        ({"nbf": "later"}, "no time"),
        ({"nbf": float("-inf")}, "no time"),
        ({"iss": None}, "issuer"),
        ({"iss": "https://issuer/"}, "issuer"),
        ({"iss": ["https://issuer"]}, "issuer"),
        ({"aud": None}, "others"),
        ({"aud": "Kafka"}, "others"),
        ({"aud": []}, "others"),
        ({"aud": [["kafka"]]}, "others"),
        ({"aud": {"kafka": 1}}, "others"),
        ({"sub": None}, "nobody"),
        ({"sub": ""}, "nobody"),
        ({"sub": 7}, "nobody"),
        ({"sub": ["ada"]}, "nobody"),
        ({"sub": "a\nb"}, "no principal"),
        ({"sub": "x" * 129}, "no principal"),
        ({"sub": "ANONYMOUS"}, "no principal"),
        ({"sub": "*"}, "no principal"),
    ],
)
def test_what_an_issuer_s_token_must_say(change: dict[str, Any], why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        at(GOOD | change, ISSUER)


@pytest.mark.parametrize(
    "change", [{"exp": NOW - 29}, {"nbf": NOW + 30}, {"exp": NOW + 0.5}, {"exp": 10**30}, {"nbf": -5}]
)
def test_clocks_may_differ_a_little(change: dict[str, Any]) -> None:
    assert at(GOOD | change, ISSUER).principal == "User:ada"


def test_an_end_that_is_kept_is_one_that_a_program_can_count_with() -> None:
    expires = at(GOOD | {"exp": 10**30}, ISSUER).expires_at
    assert expires is not None
    assert expires < 2**63


@pytest.mark.parametrize("home", ["shop", "a/b/c", "", 7, ["shop/eu"], "shop/../x", "shop/eu\n"])
def test_a_home_that_is_none_lets_nobody_in_elsewhere(home: Any) -> None:
    with pytest.raises(RefusedError, match="home"):
        at({"sub": "ada", "home": home})


@pytest.mark.parametrize("claims", [{}, {"sub": []}, {"sub": [7]}, {"sub": {"a": 1}}, {"role": "ada"}])
def test_a_token_that_names_nobody(claims: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match="nobody"):
        at(claims)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.dictionaries(st.sampled_from(["sub", "exp", "nbf", "iss", "aud", "home", "iat"]), anything),
    st.sampled_from([OWN, ISSUER, ISSUER._replace(home="home")]),
)
def test_whatever_is_said_somebody_is_named_or_it_is_refused(claims: dict[str, Any], rules: Rules) -> None:
    said = json.loads(json.dumps(claims))
    try:
        found = decide(said, rules, NOW * 1000)
    except RefusedError:
        return
    assert found.principal.removeprefix("User:").isprintable()
    assert found.expires_at is None or found.expires_at > NOW * 1000
    assert found.expires_at is not None or not rules.must_expire
