"""Findings as JSON: where each is, and how to look at it by the API and by `magnetar-admin`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from gateway.admin.exchange import iso
from semantics.command_line import line
from semantics.console.together import Several
from semantics.group_names import bare
from semantics.names import DEFAULT

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from semantics.console.attention import Finding

API = "/admin/v2"
_CONSUMERS = ("magnetar/consumers", "subscriptions consumers")
_LETTERS = ("magnetar/deadletters/groups", "dead-letters groups")
_LOOK_AT = {
    "nobody": _CONSUMERS,
    "full": _CONSUMERS,
    "idle": _CONSUMERS,
    "blocked": ("magnetar/causes", "subscriptions why"),
    "dying": ("magnetar/causes", "subscriptions why"),
    "deadLetters": _LETTERS,
    "letters": _LETTERS,
}
"""By rule where to look: below the subscription's path, and by which verb."""


def shown(broker: Broker, one: Finding | Several) -> dict[str, Any]:
    """A finding, or several that are told together: these have `findings`, how many they are, and no subscription."""
    full = broker.catalog.full(one.topic)
    domain, rest = str(full).split("://", 1)
    topic = f"{full.namespace}/{full.local}" if full.namespace != DEFAULT else full.local
    if isinstance(one, Several):
        return {
            "rule": one.rule,
            "sentence": one.sentence,
            "where": {"topic": str(full)},
            "since": iso(one.since),
            "number": one.number,
            "findings": one.findings,
            "path": f"{API}/magnetar/attention?{urlencode({'topic': str(full), 'rule': one.rule})}",
            "cli": line("attention", "-t", topic, "--rule", one.rule),
        }
    group = bare(one.group)
    where: dict[str, Any] = {"topic": str(full)}
    if one.group:
        where["subscription"] = one.group
    if one.partition is not None:
        where["partition"] = one.partition
    if one.rule == "job":
        where["job"] = int(one.about)
        path, cli = f"{API}/magnetar/jobs/{one.about}", line("jobs", "show", one.about)
    elif one.rule == "transaction":
        name = bare(one.about)
        where["transactionalId"] = name
        path = f"{API}/magnetar/transactions?{urlencode({'q': name})}"
        cli = line("transactions", "list", "-q", name)
    else:
        below, words = _LOOK_AT[one.rule]
        path = f"{API}/{domain}/{rest}/subscription/{quote(group, safe='')}/{below}"
        cli = line(*words.split(), topic, "-s", group)
    return {
        "rule": one.rule,
        "sentence": one.sentence,
        "where": where,
        "since": iso(one.since),
        "number": one.number,
        "path": path,
        "cli": cli,
    }
