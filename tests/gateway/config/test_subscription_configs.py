"""Configs of one subscription: what it may say of itself, and what that comes to over its group's."""

from __future__ import annotations

import pytest

from gateway.config import Settings
from gateway.config.group_table import GROUP_CONFIGS
from gateway.config.subscription_configs import MOST_BYTES, NAMES, as_pulsars, check, merged, of_properties

DEFAULTS = Settings.load()
NACK, ACK = "pulsar.nack.delay.ms", "pulsar.ack.timeout.ms"


def checked(properties: dict[str, str], group: dict[str, str] | None = None, **overrides: str) -> str | None:
    return check(
        properties, group or {}, {name.replace("__", "."): overrides[name] for name in overrides}, DEFAULTS
    )


def test_pulsars_configs_are_a_subscriptions_and_kafkas_are_the_groups() -> None:
    assert set(GROUP_CONFIGS) >= NAMES
    assert {name for name in GROUP_CONFIGS if name.startswith("pulsar.")} - NAMES == {
        "pulsar.retry.letter.topic",
        "pulsar.failover.priorities",
    }
    assert all(name.startswith("pulsar.") for name in NAMES)


def test_properties_win_over_what_a_subscription_was_made_with() -> None:
    properties = {"team": "blue", NACK: "2"}
    assert of_properties(properties) == {NACK: "2"}
    assert merged({NACK: "1", ACK: "0"}, properties) == {NACK: "2", ACK: "0"}


@pytest.mark.parametrize(
    ("group", "properties", "expected"),
    [
        ({}, {}, {NACK: "60000", ACK: "0"}),
        ({NACK: "5"}, {}, {ACK: "0"}),
        ({}, {"pulsar.nack.backoff.min.ms": "5"}, {ACK: "0"}),
        ({"share.record.lock.duration.ms": "15000"}, {}, {NACK: "60000"}),
        ({}, {"pulsar.ack.timeout.backoff.max.ms": "5"}, {NACK: "60000"}),
        ({ACK: "1000"}, {NACK: "5"}, {}),
        # neither is about waiting
        (
            {"share.delivery.count.limit": "3"},
            {"pulsar.subscription.type": "shared"},
            {NACK: "60000", ACK: "0"},
        ),
    ],
)
def test_a_subscription_behaves_as_pulsars_do_where_nobody_says_otherwise(
    group: dict[str, str], properties: dict[str, str], expected: dict[str, str]
) -> None:
    assert as_pulsars(group, properties) == expected


@pytest.mark.parametrize(
    "properties",
    [{}, {"team": "blue"}, {"pulsar": "x", "pulsar.qqqqqqqqqqqqqqqqq": "x"}, {NACK: "1000"}, {"ü": "\ud800"}],
)
def test_taken(properties: dict[str, str]) -> None:
    assert checked(properties) is None


def test_refused() -> None:
    assert checked({"": "x"}) == "A property has a name: write name=value."
    assert checked({"pulsar.nack.delay": "5"}) == (
        'There is no config "pulsar.nack.delay". Did you mean "pulsar.nack.delay.ms"?'
    )
    assert checked({NACK: "soon"}) == 'pulsar.nack.delay.ms must be a whole number, not "soon".'
    for name in ("share.delivery.count.limit", "pulsar.retry.letter.topic"):
        said = checked({name: "5"})
        assert said is not None
        assert said.startswith(
            f"{name} belongs to the group and not to one of its subscriptions: set it with"
        )
        assert all(each in said for each in NAMES)


def test_configs_are_checked_together_with_the_groups_and_what_it_was_made_with() -> None:
    sticky = {"pulsar.key.shared.mode": "sticky"}
    assert "needs pulsar.key.shared.ranges" in (checked(sticky) or "")
    assert checked(sticky, {"pulsar.key.shared.ranges": "a:0-65535"}) is None
    assert checked(sticky, pulsar__key__shared__ranges="a:0-65535") is None
    # what the group says does not count where the subscription says otherwise
    assert checked({"pulsar.key.shared.mode": "auto_split"}, sticky) is None


def test_properties_have_a_size_in_bytes() -> None:
    # two bytes a letter
    fits = {"n": "ü" * (MOST_BYTES // 2 - 1) + "x"}
    assert checked(fits) is None
    assert checked({**fits, "m": ""}) == (
        f"The properties of a subscription have {MOST_BYTES} bytes at most, and these have {MOST_BYTES + 1}."
    )
