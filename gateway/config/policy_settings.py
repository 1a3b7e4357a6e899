"""Policies as settings: of the broker, by the names of Pulsar's broker.conf, and configs of topics and namespaces."""

from __future__ import annotations

from gateway.config.schema import Check, Kind, Setting, at_least, between, each_of, one_of
from semantics import policies
from semantics.policies import TABLE, Policy

_KINDS = {
    policies.Kind.NUMBER: Kind.LONG,
    policies.Kind.FLAG: Kind.BOOLEAN,
    policies.Kind.NAMES: Kind.LIST,
    policies.Kind.NAME: Kind.STRING,
}


def _config(policy: Policy) -> Setting:
    doc = policy.doc.format(policy.units[0])
    return Setting(policy.name, _KINDS[policy.kind], None, doc, _check(policy, policy.most))


def _check(policy: Policy, most: int) -> Check | None:
    match policy.kind:
        case policies.Kind.NUMBER:
            return at_least(policy.least) if most == policies.MOST_LONG else between(policy.least, most)
        case policies.Kind.NAMES:
            return each_of(*policy.choices)
        case policies.Kind.NAME:
            return _open_or(one_of(*policy.choices)) if policy.default is None else one_of(*policy.choices)
        case _:
            return None


def _open_or(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _of_broker(policy: Policy) -> Setting:
    assert policy.setting is not None
    doc = policy.doc.format(policy.units[1])
    if policy.default is None and policy.kafka is not None:
        doc += f" Open: log.{policy.kafka} decides."
    # Pulsar's are of 32 bits where they are counted in larger units
    most = policy.most if policy.unit == 1 else min(policy.most, policies.MOST_INT)
    number = policy.kind is policies.Kind.NUMBER
    kind = Kind.INT if number and most == policies.MOST_INT else _KINDS[policy.kind]
    check = _check(policy, most)
    return Setting(policy.setting, kind, policy.default, doc, check, dynamic=True)


CONFIGS: dict[str, Setting] = {policy.name: _config(policy) for policy in TABLE}
"""What topics and namespaces may say, by name."""

OF_BROKER: list[Setting] = list(
    {policy.setting: _of_broker(policy) for policy in reversed(TABLE) if policy.setting is not None}.values()
)[::-1]
"""What the broker says for all; of two policies that one setting is for, the first says what it does."""

UNITS = {policy.setting: policy.unit for policy in TABLE}
"""What one of a broker's setting is, in the units of the config."""
