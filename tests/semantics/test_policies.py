"""Which level of a policy wins."""

from __future__ import annotations

import itertools

import pytest

from semantics.policies import DISPATCH_RATE, POLICIES, QUOTA_MS_ACTION, TABLE, Found, Level, Policy, resolve

POLICY = Policy("pulsar.p", "Does something.", kafka="p", setting="defaultP")
NEAREST = [
    ("topic", "pulsar.p", Level.TOPIC),
    ("topic", "p", Level.TOPIC),
    ("namespace", "pulsar.p", Level.NAMESPACE),
    ("broker", "defaultP", Level.BROKER),
]


def nothing(name: str) -> int | None:
    return None


@pytest.mark.parametrize("said", list(itertools.product([False, True], repeat=len(NEAREST))))
def test_the_nearest_wins(said: tuple[bool, ...]) -> None:
    levels: dict[str, dict[str, int]] = {"topic": {}, "namespace": {}, "broker": {}}
    for number, (there, (where, name, _)) in enumerate(zip(said, NEAREST, strict=True)):
        if there:
            # also a value that is false says something
            levels[where][name] = number
    found = resolve(POLICY, levels["topic"].get, levels["namespace"].get, levels["broker"].get)
    if not any(said):
        assert found is None
    else:
        first = said.index(True)
        assert found == Found(first, *NEAREST[first][1:])


def test_kafkas_name_counts_only_for_topics() -> None:
    assert resolve(POLICY, nothing, {"p": 1}.get, {"p": 1, "pulsar.p": 1}.get) is None


def test_a_policy_without_names_elsewhere() -> None:
    assert resolve(Policy("pulsar.p", "Does something."), nothing, nothing, {"": 1}.get) is None


def test_names_are_their_own() -> None:
    assert len(POLICIES) == len(TABLE)
    settings = [policy.setting for policy in TABLE if policy.setting]
    # Pulsar's broker has one for the actions of both quotas
    settings.remove(str(QUOTA_MS_ACTION.setting))
    # and one for both rates of dispatching
    assert DISPATCH_RATE.relative is not None
    settings.remove(str(DISPATCH_RATE.relative.setting))
    assert len({*POLICIES, *settings}) == len([*POLICIES, *settings])
    # one of Kafka's may say two things, and is none of Pulsar's
    assert not {policy.kafka for policy in TABLE} & {*POLICIES, *settings}
