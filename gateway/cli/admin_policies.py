"""`magnetar-admin namespaces|topics|topicPolicies get-, set- and remove-…`: the verbs of all policies, from FORMS."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from gateway.cli.admin_client import Misused, namespace_path, topic_path
from gateway.cli.admin_options import HELP, Options, common, pass_options
from gateway.cli.admin_output import columns
from semantics.policies import MOST_INT, Kind, Level
from semantics.policy_forms import FORMS, RETENTION, Field, Form, Reads

_TIMES = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_AMOUNT = re.compile(r"(-?\d{1,18})\s*([a-zA-Z]?)\Z")
_EXAMPLES = {Level.NAMESPACE: "shop/eu", Level.TOPIC: "orders"}
_ARGUMENTS = {Level.NAMESPACE: "namespace", Level.TOPIC: "topic"}


# -- values


def seconds(text: str) -> int:
    """`90m` in seconds; a bare number is seconds, and -1 is no limit. Raises AdminError."""
    return _amount(text, _TIMES, "time", "100 (seconds), 30m, 12h, 7d, 2w, 1y")


def size(text: str) -> int:
    """`16m` in bytes; a bare number is bytes, and -1 is no limit. Raises AdminError."""
    return _amount(text, _SIZES, "size", "1000000 (bytes), 64k, 16m, 10g, 1t")


def _amount(text: str, units: dict[str, int], what: str, forms: str) -> int:
    match = _AMOUNT.match(text.strip())
    number = int(match[1]) if match else 0
    if match is None or match[2].lower() not in units or number < -1:
        raise Misused(f"{text!r} is no {what}: write {forms}, or -1 for no limit.")
    return number * units[match[2].lower()] if number > 0 else number


def _read(form: Form, field: Field, given: Any) -> Any:
    """What a flag says, as the body has it. What is beyond a whole unit is left away."""
    if field.reads is Reads.NUMBER:
        return given
    if field.reads is Reads.NAMES:
        return [each.strip() for each in given.split(",") if each.strip()]
    # a policy in ms, of which one is 1000 of a second
    amount = seconds(given) * 1000 if field.reads is Reads.TIME else size(given)
    if amount < 0:
        return -1
    whole = amount // field.unit
    if amount and not whole:
        units = " and ".join(each.unit_name for each in form.fields)
        raise Misused(
            f"{form.title.capitalize()} is counted in whole {units}: say one or more of each, 0, or -1."
        )
    if whole > MOST_INT:
        raise Misused(f"{given!r} is more than can be said: say {MOST_INT} {field.unit_name} at most.")
    return whole


def _sentence(form: Form, values: dict[str, Any]) -> str:
    """How what was set reads."""
    if form is RETENTION:
        minutes, megabytes = values.values()
        if not minutes and not megabytes:
            return "Nothing is kept."
        limits = [
            "for ever" if minutes < 0 else f"for {minutes} min" if minutes else "not at all",
            "of any size" if megabytes < 0 else f"up to {megabytes} MB" if megabytes else "of no size",
        ]
        return f"It is kept {', '.join(limits)}."
    said = [f"{field.json} {_value(field, values[field.json])}".strip() for field in form.fields]
    return f"It is {', '.join(said)}."


def _value(field: Field, value: Any) -> str:
    if field.policy.kind is Kind.FLAG:
        return "on" if value else "off"
    if field.policy.kind is Kind.NAMES:
        return ", ".join(value) or "none"
    if not value and field.none:
        return field.none
    return f"{value} {field.unit_name}".strip()


# -- the verbs


def _options(form: Form, level: Level) -> Callable[[Any], Any]:
    """The flags of a set- verb; they give `v0`, `v1`, …"""

    def add(command: Any) -> Any:
        for number, field in reversed(list(enumerate(form.fields))):
            flags = (field.topic_flags if level is Level.TOPIC else ()) or field.flags
            command = click.option(
                *flags,
                f"v{number}",
                required=True,
                type=click.IntRange(field.policy.least, field.policy.most)
                if field.reads is Reads.NUMBER
                else str,
                metavar=field.reads.value,
                help=field.help,
            )(command)
        return command

    return add


def _add(group: click.Group, noun: str, level: Level, form: Form) -> None:
    """The three verbs of a form."""
    verb, argument, example = form.verb_at(level), _ARGUMENTS[level], _EXAMPLES[level]
    shown = argument.upper()
    at = f"magnetar-admin {noun} {{}}-{verb} {example}"

    def path(options: Options, named: str) -> str:
        place = f"namespaces/{namespace_path(named)}" if level is Level.NAMESPACE else topic_path(named)
        return f"{place}/{form.segment_at(level)}"

    def get(options: Options, named: str, applied: bool = False) -> None:
        query = {"applied": applied} if level is Level.TOPIC else {}
        options.show(options.client().get(path(options, named), **query))

    def put(options: Options, named: str, **given: Any) -> None:
        values = {
            field.json: _read(form, field, given[f"v{number}"]) for number, field in enumerate(form.fields)
        }
        body = values.get("", values)
        if level is Level.TOPIC and form.topic_query:
            options.client().post(path(options, named), None, **{form.topic_query: str(body)})
        else:
            options.client().post(path(options, named), body)
        facts = body if isinstance(body, dict) else {form.segment_at(level): body}
        options.told(
            f"Set the {form.title_at(level)} of {argument} {named}. {_sentence(form, values)}",
            action="set",
            **{argument: named},
            **facts,
        )

    def remove(options: Options, named: str) -> None:
        options.client().delete(path(options, named))
        instead = "its namespace's counts" if level is Level.TOPIC else "the gateway's settings count"
        if level is Level.TOPIC and Level.NAMESPACE not in form.levels:
            instead = "the gateway's settings count"
        options.told(
            f"Removed the {form.title_at(level)} of {argument} {named}: {instead}.",
            action="removed",
            **{argument: named},
        )

    each = shown if level is Level.TOPIC else f"each topic of {shown}"
    get.__doc__ = f"{form.gets.format(shown, each=each)}; null where nothing is set for it."
    put.__doc__ = form.sets.format(shown, each=each)
    remove.__doc__ = (
        f"What its namespace says of the {form.title} counts again for {shown}."
        if level is Level.TOPIC
        else f"What the gateway's settings say of the {form.title} counts again for {shown}."
    )
    more = f"\n\n{form.more}" if form.more else ""
    applied = " -ap" if level is Level.TOPIC else ""
    for name, run, epilog in (
        ("get", get, f"\b\nExample:\n  {at.format('get')}{applied}"),
        ("set", put, f"\b\nExample:\n  {at.format('set')} {form.example_at(level)}{more}"),
        ("remove", remove, f"\b\nExample:\n  {at.format('remove')}"),
    ):
        command: Any = pass_options(run)
        command = common(command)
        if name == "get" and level is Level.TOPIC:
            command = click.option(
                "-ap", "--applied", is_flag=True, help="What is in force, whoever has set it."
            )(command)
        if name == "set":
            command = _options(form, level)(command)
        command = click.argument("named", metavar=shown)(command)
        group.command(f"{name}-{verb}", epilog=epilog, help=run.__doc__)(command)


@click.group("topicPolicies", context_settings=HELP)
def topic_policies() -> None:
    """Policies of one topic, which go before those of its namespace."""


def add_to_namespaces(group: click.Group) -> None:
    """The verbs of namespaces."""
    for form in FORMS:
        if Level.NAMESPACE in form.levels:
            _add(group, "namespaces", Level.NAMESPACE, form)


def add_to_topics(group: click.Group, noun: str) -> None:
    """The verbs of topics: `topics` has them, and `topicPolicies`."""
    for form in FORMS:
        if Level.TOPIC in form.levels:
            _add(group, noun, Level.TOPIC, form)


add_to_topics(topic_policies, "topicPolicies")


@topic_policies.command("list", epilog="\b\nExample:\n  magnetar-admin topicPolicies list orders")
@click.argument("topic")
@common
@pass_options
def list_of_topic(options: Options, topic: str) -> None:
    """What is in force for TOPIC: of each policy its value, and who says it."""
    found = options.client().get(f"{topic_path(topic)}/policies")
    if options.output != "text":
        options.show(found)
        return
    rows = []
    for each in found:
        value = each["value"]
        field = f" {each['field']}" if "field" in each else ""
        shown = ", ".join(value) if isinstance(value, list) else str(value)
        rows.append([each["policy"] + field, shown, f"{each['from']} ({each['by']})"])
    click.echo(columns(["POLICY", "VALUE", "FROM"], rows))


@topic_policies.command("delete", epilog="\b\nExample:\n  magnetar-admin topicPolicies delete orders")
@click.argument("topic")
@common
@pass_options
def delete_of_topic(options: Options, topic: str) -> None:
    """What its namespace says counts again for TOPIC, of all policies."""
    options.client().delete(f"{topic_path(topic)}/policies")
    options.told(
        f"Removed all policies of topic {topic}: its namespace's count.", action="removed", topic=topic
    )
