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

from gateway.admin.exchange import DONE, Call, RefusedError, Reply, json
from gateway.admin.topics import found_by, namespace_of
from gateway.config.policy_settings import CONFIGS
from semantics.policies import MOST_INT, POLICIES, Kind, Level
from semantics.policy_forms import FORMS, RETENTION, TTL, Field, Form

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.broker.catalog import Topic

    Verb = Callable[[Context, Call], Awaitable[Reply]]


# -- what is said, and what is shown


def of_namespace(said: Mapping[str, str]) -> dict[str, object]:
    """What a namespace's row says, as Pulsar's Policies have it; nothing where nothing is set."""
    shown = ((form.key, _set(form, said)) for form in FORMS if Level.NAMESPACE in form.levels)
    return {key: value for key, value in shown if value is not None}


def said_at_creation(policies: Mapping[str, Any]) -> dict[str, str]:
    """What Policies say that a namespace is made with. Refuses as the verbs do. What is null is not said."""
    found: dict[str, str] = {}
    for form in FORMS:
        body = policies.get(form.key)
        if Level.NAMESPACE in form.levels and body is not None:
            found |= said(form, body)
    return found


def said(form: Form, body: object) -> dict[str, str]:
    """What a body says, as configs. Refuses with 400 what is of another kind, with 412 wrong values."""
    values: dict[str, Any] = {}
    if form.fields[0].json:
        if not isinstance(body, dict):
            example = ", ".join(f'"{field.json}": {_EXAMPLES[field.policy.kind]}' for field in form.fields)
            raise RefusedError(400, f"The body is an object: {{{example}}}.")
        missing = next((field.json for field in form.fields if field.json not in body), None)
        if missing is not None:
            # 0 may mean that nothing is kept: nobody says that by a key that is misspelt
            raise RefusedError(412, f"The body says nothing of {missing}.")
        values = {field.json: body[field.json] for field in form.fields}
    else:
        values = {"": body}
    for field in form.fields:
        _check(form, field, values[field.json])
    wrong = form.wrong(values)
    if wrong is not None:
        raise RefusedError(400, wrong)
    return {field.policy.name: _config(field, values[field.json]) for field in form.fields}


_EXAMPLES = {Kind.NUMBER: "60", Kind.FLAG: "true", Kind.NAMES: "[]"}


def _check(form: Form, field: Field, value: object) -> None:
    policy = field.policy
    if policy.kind is Kind.FLAG:
        good, expected = type(value) is bool, "true or false"
    elif policy.kind is Kind.NAMES:
        good = isinstance(value, list) and all(each in policy.choices for each in value)
        expected = f"a list of some of {', '.join(policy.choices)}"
    else:
        most = min(policy.most // field.unit, MOST_INT)
        good = type(value) is int and policy.least <= value <= most
        none = " (no limit)" if policy.least == -1 else ""
        expected = f"a whole number from {policy.least}{none} to {most}"
    if not good:
        name = field.json or f"The {form.title}"
        raise RefusedError(412, f"{name} is {expected}, not {str(value)[:40]!r}.")


def _config(field: Field, value: Any) -> str:
    """A value of a body as the config has it."""
    if field.policy.kind is Kind.FLAG:
        return "true" if value else "false"
    if field.policy.kind is Kind.NAMES:
        return ",".join(dict.fromkeys(value))
    return str(value * field.unit if value > 0 else value)


def _set(form: Form, configs: Mapping[str, str]) -> object:
    """What is set by Pulsar's names, as bodies have it; None where nothing is."""
    found = [configs.get(field.policy.name) for field in form.fields]
    if all(text is None for text in found):
        return None
    # what Kafka clients set of a topic may be one of two
    values = [
        CONFIGS[field.policy.name].parse(text) if text is not None else field.policy.least
        for field, text in zip(form.fields, found, strict=True)
    ]
    return _shown(form, values)


def _shown(form: Form, values: list[Any]) -> object:
    shown = {
        field.json: _rounded(value, field.unit) if field.policy.kind is Kind.NUMBER else value
        for field, value in zip(form.fields, values, strict=True)
    }
    return shown.get("", shown)


def _rounded(value: int, unit: int) -> int:
    """In whole units, rounded up: a limit below one unit is not shown as none that keeps nothing."""
    return min(-(-value // unit), MOST_INT) if value > 0 else max(value, -1)


def _applied(context: Context, form: Form, topic: Topic) -> object:
    """What is in force for a topic, whoever has set it."""
    if form is RETENTION:
        # Kafka's settings of the broker count, too
        config = context.broker.effective(topic)
        return _shown(form, [config.retention_ms, config.retention_bytes])
    if form is TTL:
        return _shown(form, [context.broker.message_ttl(topic)])
    found = [context.broker.policy(field.policy, topic) for field in form.fields]
    return _shown(form, [each.value if each is not None else 0 for each in found])


# -- all of a topic


async def of_topic(context: Context, call: Call) -> Reply:
    """What is in force for a topic: of each policy its value, who says it (topic, namespace, broker), and by which
    name. Magnetar's own.
    """
    topic = (await found_by(context.broker, call)).topic
    rows: list[dict[str, object]] = []
    for form in FORMS:
        if Level.TOPIC not in form.levels:
            continue
        shown = _applied(context, form, topic)
        for field in form.fields:
            found = context.broker.policy(field.policy, topic)
            value = shown[field.json] if isinstance(shown, dict) else shown
            if found is None or (form is TTL and value and not found.value):
                # Kafka's settings of the broker
                level, name = Level.BROKER, f"log.{field.policy.kafka}"
            else:
                level, name = found.level, found.name
            key = {"field": field.json} if field.json else {}
            rows.append(
                {"policy": form.verb_at(Level.TOPIC), **key, "value": value, "from": level, "by": name}
            )
    return json(rows)


async def remove_all(context: Context, call: Call) -> Reply:
    """What a topic's namespace says counts again, of all policies that are said by Pulsar's names."""
    topic = (await found_by(context.broker, call)).topic
    await context.broker.topics.configure(topic.name, lambda old: _changed(old, dict.fromkeys(POLICIES)))
    return DONE


# -- the verbs


async def _of_namespace(form: Form, context: Context, call: Call) -> Reply:
    namespace = namespace_of(context.broker, *call.path[1:3])
    return json(_set(form, context.broker.tenancy.namespace(namespace).policies))


async def _of_topic(form: Form, context: Context, call: Call) -> Reply:
    topic = (await found_by(context.broker, call)).topic
    return json(_applied(context, form, topic) if call.flag("applied") else _set(form, topic.configs))


async def _change_namespace(form: Form, context: Context, call: Call) -> Reply:
    changes = _changes(form, call)
    namespace = namespace_of(context.broker, *call.path[1:3])
    await context.broker.tenancy.change(
        namespace, lambda row: msgspec.structs.replace(row, policies=_changed(row.policies, changes))
    )
    return DONE


async def _change_topic(form: Form, context: Context, call: Call) -> Reply:
    topic = (await found_by(context.broker, call)).topic
    changes = _changes(form, call)
    await context.broker.topics.configure(topic.name, lambda old: _changed(old, changes))
    return DONE


def _changes(form: Form, call: Call) -> Mapping[str, str | None]:
    if call.method == "DELETE":
        return {field.policy.name: None for field in form.fields}
    if form.topic_query and form.topic_query in call.query:
        return said(form, _whole(call.query[form.topic_query]))
    return said(form, call.json())


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
    }
    for form in FORMS:
        for level, kind, got, change in (
            (Level.NAMESPACE, "namespace", _of_namespace, _change_namespace),
            (Level.TOPIC, "topic", _of_topic, _change_topic),
        ):
            if level in form.levels:
                segment = form.segment_at(level)
                found["GET", kind, segment] = partial(got, form)
                found["POST", kind, segment] = found["DELETE", kind, segment] = partial(change, form)
    return found


VERBS: dict[tuple[str, str, str], Verb] = _verbs()
"""By method, what the path names, and the policy's segment: as `routes.py` has them."""
