"""Configs of subscriptions to client metrics (KIP-714): checked and kept, as in a Kafka without a plugin for metrics.

Clients are told of no subscription (`apis/telemetry.py`): nobody here would read what they send.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.config.schema import (
    Described,
    Kind,
    Setting,
    Source,
    Synonym,
    between,
    complaint,
    described,
    nearest,
    quoted,
)
from semantics.patterns import Expression, PatternError

INTERVAL = "interval.ms"
MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What of a client `match` can be over."""

CONFIGS = {
    each.name: each
    for each in (
        Setting(
            INTERVAL,
            Kind.INT,
            300_000,
            "How often clients would send metrics, in ms.",
            check=between(100, 3_600_000),
        ),
        Setting(
            "match",
            Kind.LIST,
            (),
            "Which clients it is for: name=expression, ... Names are " + ", ".join(MATCHED) + ".",
        ),
        Setting("metrics", Kind.LIST, (), "How the names of the metrics begin, or * for all."),
    )
}


LONGEST_NAME = 249
"""Characters of the name of a subscription."""
_LONGEST = {"match": 4 * 1024}
"""Characters of the value of a config: the expressions of `match` are read at once."""
_LONGEST_OTHER = 64 * 1024


def unknown(name: str) -> str | None:
    """What is wrong with the name of a config, in a sentence, or None."""
    if name in CONFIGS:
        return None
    near = nearest(name, list(CONFIGS))
    hint = f' Did you mean "{near}"?' if near else ""
    return f'There is no config of client metrics "{name}".{hint}'


def outside(name: str, text: str) -> str | None:
    """What is wrong with a number that is one, in a sentence, or None."""
    setting = CONFIGS[name]
    try:
        setting.parse(text)
    except ValueError as error:
        if setting.kind is Kind.INT and text.strip().lstrip("+-").isdecimal():
            return f"{name} {complaint(error, quoted(text))}."
    return None


def unreadable(name: str, text: str) -> str | None:
    """What is wrong with how a value is written, in a sentence, or None."""
    longest = _LONGEST.get(name, _LONGEST_OTHER)
    if len(text) > longest:
        return f"{name} has at most {longest} characters; not {len(text)}."
    try:
        CONFIGS[name].parse(text)
    except ValueError as error:
        return f"{name} {complaint(error, quoted(text))}."
    if name != "match":
        return None
    for each in filter(None, (part.strip() for part in text.split(","))):
        what, equals, expression = each.partition("=")
        if not equals or "=" in expression or what.strip() not in MATCHED:
            return f"match is name=expression, ... with names of {', '.join(MATCHED)}; not {quoted(each)}."
        try:
            Expression(expression.strip())
        except PatternError as error:
            return str(error)
    return None


def describe(configs: Mapping[str, str]) -> Iterator[Described]:
    """All of them for DescribeConfigs, with where each value comes from (KIP-226)."""
    for name, setting in CONFIGS.items():
        text = configs.get(name)
        own = None if text is None else Synonym(name, text, Source.CLIENT_METRICS)
        yield described(setting, own, setting.default, ())
