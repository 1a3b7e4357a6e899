"""Verbs of policies, of namespaces and of topics: what is set, what is in force, set it, take it back.

A policy is kept as configs are (`semantics.policies`); how Pulsar's clients write each is a row of
`semantics.policy_forms`, and here is what all rows have in common.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.admin import backlog_quota
from gateway.admin.context import CLUSTER
from gateway.admin.exchange import DONE, Call, RefusedError, Reply, done, json
from gateway.admin.topics import found_by, namespace_of
from gateway.config.topic_configs import parsed
from gateway.config.topic_table import TOPIC_CONFIGS
from semantics.backlog_quota import against_retention
from semantics.policies import (
    MOST_INT,
    MOST_LONG,
    POLICIES,
    QUOTA_BYTES,
    QUOTA_MS,
    RETENTION_BYTES,
    RETENTION_MS,
    Kind,
    Level,
)
from semantics.policy_form import Field, Form
from semantics.policy_forms import ALL, FORMS, QUOTAS, RETENTION, TTL

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.broker.catalog import Topic
    from gateway.broker.namespaces import NamespaceRow
    from semantics.policies import Policy

    Verb = Callable[[Context, Call], Awaitable[Reply]]


# -- what is said, and what is shown


def of_namespace(said: Mapping[str, str]) -> dict[str, object]:
    """What a namespace's row says, as Pulsar's Policies have it; nothing where nothing is set."""
    shown = ((form, set_of(form, said)) for form in FORMS if Level.NAMESPACE in form.levels)
    quotas = _quotas(said)
    found = {
        form.key: {CLUSTER: value} if form.by_cluster else value for form, value in shown if value is not None
    }
    return found | ({QUOTAS[0].key: quotas} if quotas else {})


def said_at_creation(policies: Mapping[str, Any]) -> dict[str, str]:
    """What Policies say that a namespace is made with. Refuses as the verbs do. What is null is not said."""
    found: dict[str, str] = {}
    for form in FORMS:
        body = policies.get(form.key)
        if form.by_cluster and isinstance(body, dict):
            body = body.get(CLUSTER)
        if Level.NAMESPACE in form.levels and body is not None:
            found |= said(form, body)
    for form, body in backlog_quota.all_of(policies.get(QUOTAS[0].key)):
        found |= said(form, backlog_quota.body_of(form, body))
    _check_conflicts(found, found)
    return found


def said(form: Form, body: object) -> dict[str, str]:
    """What a body says, as configs; of a list without names nothing, as in Pulsar. Refuses with 400 what is of another
    kind, with 412 wrong values.
    """
    values: dict[str, Any] = {}
    if form.fields[0].json:
        if not isinstance(body, dict):
            example = ", ".join(f'"{field.json}": {_EXAMPLES[field.policy.kind]}' for field in form.fields)
            raise RefusedError(400, f"The body is an object: {{{example}}}.")
        missing = next(
            (each.json for each in form.fields if each.json not in body and not each.optional), None
        )
        if missing is not None:
            # 0 may mean that nothing is kept: nobody says that by a key that is misspelt
            raise RefusedError(412, f"The body says nothing of {missing}.")
        values = {each.json: body[each.json] for each in form.fields if _says(each, body)}
    else:
        values = {"": body}
    there = [field for field in form.fields if field.json in values]
    for field in there:
        _check(form, field, values[field.json])
    wrong = form.wrong(values)
    if wrong is not None:
        raise RefusedError(400, wrong)
    # Java's client makes namespaces with whole Policies, whose lists are empty where nobody has said anything
    told = [field for field in there if values[field.json] != []]
    return {field.policy.name: _config(field, values[field.json]) for field in told}


def _says(field: Field, body: Mapping[str, Any]) -> bool:
    """Java's client sends null for what it does not say."""
    return not field.optional or body.get(field.json) is not None


_EXAMPLES = {Kind.NUMBER: "60", Kind.FLAG: "true", Kind.NAMES: "[]", Kind.NAME: '"…"'}


def _check(form: Form, field: Field, value: object) -> None:
    policy = field.policy
    if policy.kind is Kind.FLAG:
        good, expected = type(value) is bool, "true or false"
    elif policy.kind is Kind.NAMES:
        good = isinstance(value, list) and all(each in policy.choices for each in value)
        expected = f"a list of some of {', '.join(policy.choices)}"
    elif policy.kind is Kind.NAME:
        good, expected = value in policy.choices, f"one of {', '.join(policy.choices)}"
    else:
        most = policy.most if field.unit == 1 else min(policy.most // field.unit, MOST_INT)
        good = type(value) is int and policy.least <= value <= most
        none = " (no limit)" if policy.least == -1 else ""
        expected = f"a whole number from {policy.least}{none} to {most}"
    if not good:
        name = field.json or f"The {form.title}"
        given = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        raise RefusedError(412, f"{name} is {expected}, not {given[:40]!r}.")


def _config(field: Field, value: Any) -> str:
    """A value of a body as the config has it."""
    if field.policy.kind is Kind.FLAG:
        return "true" if value else "false"
    if field.policy.kind is Kind.NAMES:
        return ",".join(dict.fromkeys(value))
    if field.policy.kind is Kind.NAME:
        return str(value)
    return str(value * field.unit if value > 0 else value)


def set_of(form: Form, configs: Mapping[str, str]) -> object:
    """What is set by Pulsar's names, as bodies have it; None where nothing is."""
    found = [parsed(configs, field.policy.name) for field in form.fields]
    if all(value is None for value in found):
        return None
    # what Kafka clients set of a topic may be one of two
    values = [
        value if value is not None else _open(field) for field, value in zip(form.fields, found, strict=True)
    ]
    return _shown(form, values)


def _open(field: Field) -> object:
    said_else = field.optional or field.policy.kind in (Kind.NAME, Kind.FLAG)
    return field.policy.default if said_else else field.policy.least


def _quotas(configs: Mapping[str, str]) -> dict[str, object]:
    """The quotas that are set by Pulsar's names, by type."""
    found = {form.type: set_of(form, configs) for form in QUOTAS}
    return {
        form.type: backlog_quota.shown(form, values)
        for form in QUOTAS
        if isinstance(values := found[form.type], dict)
    }


_CONFLICTING = (QUOTA_BYTES, QUOTA_MS, RETENTION_BYTES, RETENTION_MS)


def _check_conflicts(said: Mapping[str, str], changes: Mapping[str, str | None]) -> None:
    """Whether what is changed of a topic or a namespace goes together with what is said besides. Refuses with 412."""
    if all(changes.get(policy.name) is None for policy in _CONFLICTING):
        return

    def value(policy: Policy) -> int:
        number = parsed(said, policy.name)
        return number if isinstance(number, int) else -1

    wrong = against_retention(*map(value, _CONFLICTING))
    if wrong is not None:
        raise RefusedError(412, wrong)


def _shown(form: Form, values: list[Any]) -> object:
    shown = {
        field.json: _rounded(value, field.unit) if type(value) is int else value
        for field, value in zip(form.fields, values, strict=True)
    }
    return shown.get("", shown)


def _rounded(value: int, unit: int) -> int:
    """In whole units, rounded up: a limit below one unit is not shown as none that keeps nothing."""
    most = MOST_LONG if unit == 1 else MOST_INT
    return min(-(-value // unit), most) if value > 0 else max(value, -1)


def applied_to(context: Context, form: Form, topic: Topic) -> object:
    """What is in force for a topic, whoever has set it."""
    if form.verb in _KAFKAS_COUNT:
        return _shown(form, _KAFKAS_COUNT[form.verb](context, topic))
    found = [context.broker.policy(field.policy, topic) for field in form.fields]
    return _shown(
        form,
        [
            each.value if each is not None else field.policy.default
            for each, field in zip(found, form.fields, strict=True)
        ],
    )


def _retention(context: Context, topic: Topic) -> list[Any]:
    config = context.broker.effective(topic)
    return [config.retention_ms, config.retention_bytes]


_KAFKAS_COUNT: dict[str, Callable[[Context, Topic], list[Any]]] = {
    RETENTION.verb: _retention,
    TTL.verb: lambda context, topic: [context.broker.message_ttl(topic)],
}
"""Forms of which Kafka's settings of the broker say something, too: what their policies come to."""


# -- all of a topic


async def of_topic(context: Context, call: Call) -> Reply:
    """What is in force for a topic: of each policy its value, who says it (topic, namespace, broker), and by which
    name. Magnetar's own.
    """
    return json(in_force(context, (await found_by(context.broker, call)).topic))


def in_force(context: Context, topic: Topic) -> list[dict[str, object]]:
    """The same of a topic, be it there or to be made."""
    rows: list[dict[str, object]] = []
    for form in ALL:
        if Level.TOPIC not in form.levels:
            continue
        shown = applied_to(context, form, topic)
        for field in form.fields:
            found = context.broker.policy(field.policy, topic)
            value = shown[field.json] if isinstance(shown, dict) else shown
            if found is None or (form is TTL and value and not found.value):
                # Kafka's settings of the broker, or nobody at all
                kafka = field.policy.kafka
                level, name = (
                    Level.BROKER,
                    TOPIC_CONFIGS[kafka].broker if kafka is not None else "its default",
                )
            else:
                level, name = found.level, found.name
            kind = {"type": form.type} if form.type else {}
            key = {"field": field.json} if field.json else {}
            rows.append(
                {
                    "policy": form.verb_at(Level.TOPIC),
                    **kind,
                    **key,
                    "value": value,
                    "from": level,
                    "by": name,
                }
            )
    return rows


async def remove_all(context: Context, call: Call) -> Reply:
    """What a topic's namespace says counts again, of all policies that are said by Pulsar's names."""
    topic = (await found_by(context.broker, call)).topic
    await context.broker.topics.configure(topic.name, lambda old: _changed(old, dict.fromkeys(POLICIES)))
    return DONE


# -- the verbs


async def _of_namespace(form: Form, context: Context, call: Call) -> Reply:
    namespace = namespace_of(context.broker, *call.path[1:3])
    found = set_of(form, context.broker.tenancy.namespace(namespace).policies)
    return json(form.unset if found is None else found)


async def _of_topic(form: Form, context: Context, call: Call) -> Reply:
    topic = (await found_by(context.broker, call)).topic
    return json(applied_to(context, form, topic) if call.flag("applied") else set_of(form, topic.configs))


async def _change_namespace(form: Form, context: Context, call: Call) -> Reply:
    changes = changes_of(form, call)
    namespace = namespace_of(context.broker, *call.path[1:3])

    def change(row: NamespaceRow) -> NamespaceRow:
        policies = _changed(row.policies, changes)
        _check_conflicts(policies, changes)
        return msgspec.structs.replace(row, policies=policies)

    await context.broker.tenancy.change(namespace, change)
    return DONE


async def _change_topic(form: Form, context: Context, call: Call) -> Reply:
    """What is named may be a partition, and the policy is its topic's: that is told."""
    found = await found_by(context.broker, call)
    topic = found.topic
    changes = changes_of(form, call)
    below = context.broker.catalog.namespaces.policies_of(topic.name)

    def change(old: Mapping[str, str]) -> dict[str, str]:
        configs = _changed(old, changes)
        _check_conflicts({**below, **configs}, changes)
        return configs

    await context.broker.topics.configure(topic.name, change)
    return done(topic=str(found.name.parent)) if found.index >= 0 and topic.partitioned else DONE


# -- quotas


async def _quotas_of_namespace(context: Context, call: Call) -> Reply:
    """Of both types those that are set."""
    namespace = namespace_of(context.broker, *call.path[1:3])
    return json(_quotas(context.broker.tenancy.namespace(namespace).policies))


async def _quotas_of_topic(context: Context, call: Call) -> Reply:
    """Of both types those that are set; `applied`: what is in force."""
    topic = (await found_by(context.broker, call)).topic
    if not call.flag("applied"):
        return json(_quotas(topic.configs))
    found = {form: applied_to(context, form, topic) for form in QUOTAS}
    return json(
        {form.type: backlog_quota.shown(form, each) for form, each in found.items() if isinstance(each, dict)}
    )


async def _quota_of_namespace(context: Context, call: Call) -> Reply:
    return await _change_namespace(backlog_quota.asked(call), context, call)


async def _quota_of_topic(context: Context, call: Call) -> Reply:
    return await _change_topic(backlog_quota.asked(call), context, call)


# -- what a call changes


def changes_of(form: Form, call: Call) -> Mapping[str, str | None]:
    if call.method == "DELETE":
        return {field.policy.name: None for field in form.fields}
    if form.topic_query and form.topic_query in call.query:
        return said(form, _whole(call.query[form.topic_query]))
    body = call.json()
    left = {
        field.policy.name: None for field in form.fields if field.optional or field.policy.kind is Kind.NAMES
    }
    return left | said(form, backlog_quota.body_of(form, body) if form.type else body)


def _whole(text: str) -> int | str:
    """A number of the query; what is none is refused by who gets it."""
    return int(text) if re.fullmatch(r"-?\d{1,18}", text, re.ASCII) else text


def _changed(old: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    kept = {name: value for name, value in old.items() if name not in changes}
    return kept | {name: value for name, value in changes.items() if value is not None}


def _verbs() -> dict[tuple[str, str, str], Verb]:
    found: dict[tuple[str, str, str], Verb] = {
        ("GET", "topic", "policies"): of_topic,
        ("DELETE", "topic", "policies"): remove_all,
        ("GET", "namespace", "backlogQuotaMap"): _quotas_of_namespace,
        ("GET", "topic", "backlogQuotaMap"): _quotas_of_topic,
        ("POST", "namespace", "backlogQuota"): _quota_of_namespace,
        ("DELETE", "namespace", "backlogQuota"): _quota_of_namespace,
        ("POST", "topic", "backlogQuota"): _quota_of_topic,
        ("DELETE", "topic", "backlogQuota"): _quota_of_topic,
    }
    for form in FORMS:
        for level, kind, got, change in (
            (Level.NAMESPACE, "namespace", _of_namespace, _change_namespace),
            (Level.TOPIC, "topic", _of_topic, _change_topic),
        ):
            if level in form.levels:
                segment = form.segment_at(level)
                found["GET", kind, segment] = partial(got, form)
                found[form.method_at(level), kind, segment] = partial(change, form)
                found["DELETE", kind, segment] = partial(change, form)
    return found


VERBS: dict[tuple[str, str, str], Verb] = _verbs()
"""By method, what the path names, and the policy's segment: as `routes.py` has them."""
