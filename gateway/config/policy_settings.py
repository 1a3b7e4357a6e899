"""Policies as settings: of the broker, by the names of Pulsar's broker.conf, and configs of topics and namespaces."""

from __future__ import annotations

from gateway.config.schema import Kind, Setting, at_least, between
from semantics import policies
from semantics.policies import TABLE, Policy

_KINDS = {policies.Kind.NUMBER: Kind.LONG, policies.Kind.FLAG: Kind.BOOLEAN}


def _config(policy: Policy) -> Setting:
    check = None
    if policy.kind is policies.Kind.NUMBER:
        low, high = policy.least, policy.most
        check = at_least(low) if high == policies.MOST_LONG else between(low, high)
    return Setting(policy.name, _KINDS[policy.kind], None, policy.doc.format(policy.units[0]), check)


def _of_broker(policy: Policy) -> Setting:
    assert policy.setting is not None
    doc = policy.doc.format(policy.units[1])
    if policy.default is None:
        doc += f" Open: log.{policy.kafka} decides."
    number = policy.kind is policies.Kind.NUMBER
    return Setting(
        policy.setting,
        Kind.INT if number else Kind.BOOLEAN,
        policy.default,
        doc,
        between(policy.least, policies.MOST_INT) if number else None,
        dynamic=True,
    )


CONFIGS: dict[str, Setting] = {policy.name: _config(policy) for policy in TABLE}
"""What topics and namespaces may say, by name."""

OF_BROKER: list[Setting] = [_of_broker(policy) for policy in TABLE if policy.setting is not None]
"""What the broker says for all."""

UNITS = {policy.setting: policy.unit for policy in TABLE}
"""What one of a broker's setting is, in the units of the config."""
