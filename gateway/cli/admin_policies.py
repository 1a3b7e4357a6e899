"""`magnetar-admin namespaces|topics|topicPolicies get-, set- and remove-…`: the verbs of all policies, from FORMS."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import click

from gateway.cli import admin_backlog_quota
from gateway.cli.admin_client import namespace_path, segment, topic_path
from gateway.cli.admin_options import HELP, Noun, Options, common, pass_options
from gateway.cli.admin_output import columns
from gateway.cli.policy_values import read
from semantics.policies import Kind, Level
from semantics.policy_form import Field, Form, Reads
from semantics.policy_forms import FORMS
from semantics.policy_rate_forms import SUBSCRIPTION_RATE

_EXAMPLES = {Level.NAMESPACE: "shop/eu", Level.TOPIC: "orders"}
_ARGUMENTS = {Level.NAMESPACE: "namespace", Level.TOPIC: "topic"}


_SHORT_APPLIED = ("auto-subscription-creation",)
"""Of which pulsar-admin writes `-a`."""

_UNSET = {0: "0", (): "no type"}
"""What is shown where nothing is set."""


# -- values


def _sentence(form: Form, values: dict[str, Any]) -> str:
    """How what was set reads."""
    if form.sentence is not None:
        return form.sentence(values)
    there = [field for field in form.fields if field.json in values]
    said = [f"{field.json} {_value(field, values[field.json])}".strip() for field in there]
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


def _type(field: Field) -> Any:
    """What click makes of a flag's text; text where we read it ourselves."""
    if field.reads is Reads.NUMBER:
        return click.IntRange(field.policy.least, field.policy.most)
    if field.reads is Reads.NAME:
        return click.Choice(field.policy.choices)
    return bool if field.reads is Reads.FLAG else str


def _options(form: Form, level: Level) -> Callable[[Any], Any]:
    """The flags of a set- verb; they give `v0`, `v1`, …"""

    def add(command: Any) -> Any:
        for number, field in reversed(list(enumerate(form.fields))):
            flags = (field.topic_flags if level is Level.TOPIC else ()) or field.flags
            command = click.option(
                *flags,
                f"v{number}",
                # click takes a default for said, also where it is None
                **({"default": field.unsaid} if field.optional else {"required": True}),
                type=_type(field),
                metavar=field.reads.value or None,
                help=field.help,
            )(command)
        return command

    return add


def _add(group: click.Group, noun: str, level: Level, form: Form) -> None:
    """The three verbs of a form."""
    verb, argument, example = form.verb_at(level), _ARGUMENTS[level], _EXAMPLES[level]
    shown = argument.upper()
    at = f"magnetar-admin {noun} {{}}-{verb} {example}"

    of_one = form is SUBSCRIPTION_RATE and level is Level.TOPIC

    def path(named: str, subscription: str | None) -> str:
        place = f"namespaces/{namespace_path(named)}" if level is Level.NAMESPACE else topic_path(named)
        if subscription is not None:
            return f"{place}/{segment(subscription)}/dispatchRate"
        return f"{place}/{form.segment_at(level)}"

    def get(options: Options, named: str, applied: bool = False, subscription: str | None = None) -> None:
        query = {"applied": applied} if level is Level.TOPIC else {}
        options.show(options.client().get(path(named, subscription), **query))

    def put(options: Options, named: str, subscription: str | None = None, **given: Any) -> None:
        values = {
            field.json: read(form, field, given[f"v{number}"])
            for number, field in enumerate(form.fields)
            if given[f"v{number}"] is not None
        }
        body = values.get("", values)
        if level is Level.TOPIC and form.topic_query:
            did = options.client().post(path(named, subscription), None, **{form.topic_query: str(body)})
        else:
            did = options.client().call(form.method_at(level), path(named, subscription), body, {})
        named = _meant(argument, named, did)
        facts = body if isinstance(body, dict) else {form.segment_at(level): body}
        options.told(
            f"Set the {form.title_at(level)} of {_whose(argument, named, subscription)}. {_sentence(form, values)}",
            action="set",
            **{argument: named},
            **({"subscription": subscription} if subscription is not None else {}),
            **facts,
        )

    def remove(options: Options, named: str, subscription: str | None = None) -> None:
        named = _meant(argument, named, options.client().delete(path(named, subscription)))
        instead = "its namespace's counts" if level is Level.TOPIC else "the gateway's settings count"
        if level is Level.TOPIC and Level.NAMESPACE not in form.levels:
            instead = "the gateway's settings count"
        if subscription is not None:
            instead = "its topic's counts"
        options.told(
            f"Removed the {form.title_at(level)} of {_whose(argument, named, subscription)}: {instead}.",
            action="removed",
            **{argument: named},
        )

    each = shown if level is Level.TOPIC else f"each topic of {shown}"
    unset = _UNSET.get(form.unset, "null") if level is Level.NAMESPACE else "null"
    get.__doc__ = f"{form.gets.format(shown, each=each)}; {unset} where nothing is set for it."
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
            flags = ("-ap", "-a", "--applied") if verb in _SHORT_APPLIED else ("-ap", "--applied")
            command = click.option(*flags, is_flag=True, help="What is in force, whoever has set it.")(
                command
            )
        if name == "set":
            command = _options(form, level)(command)
        if of_one:
            command = click.option(
                "-s", "--subscription", metavar="NAME", help="Of this subscription, and not of all."
            )(command)
        command = click.argument("named", metavar=shown)(command)
        group.command(f"{name}-{verb}", epilog=epilog, help=run.__doc__)(command)


def _meant(argument: str, named: str, did: Any) -> str:
    """What was changed, by the answer of a write: a policy of a partition is its topic's."""
    return str(did.get(argument, named)) if isinstance(did, dict) else named


def _whose(argument: str, named: str, subscription: str | None) -> str:
    return f"{argument} {named}" if subscription is None else f"subscription {subscription} of topic {named}"


@click.group("topicPolicies", cls=Noun, context_settings=HELP)
def topic_policies() -> None:
    """Policies of one topic, which go before those of its namespace."""


def add_to_namespaces(group: click.Group) -> None:
    """The verbs of namespaces."""
    admin_backlog_quota.add(group, "namespaces", Level.NAMESPACE)
    for form in FORMS:
        if Level.NAMESPACE in form.levels:
            _add(group, "namespaces", Level.NAMESPACE, form)


def add_to_topics(group: click.Group, noun: str) -> None:
    """The verbs of topics: `topics` has them, and `topicPolicies`."""
    admin_backlog_quota.add(group, noun, Level.TOPIC)
    for form in FORMS:
        if Level.TOPIC in form.levels:
            _add(group, noun, Level.TOPIC, form)
    if noun == "topics":
        _add_old(group)


_OLD = {
    "max-producers": "maxProducers",
    "max-subscriptions-per-topic": "max-subscriptions",
    "max-unacked-messages-per-consumer": "max-unacked-messages-on-consumer",
    "max-unacked-messages-per-subscription": "max-unacked-messages-on-subscription",
}
"""What `topics` called them before `topicPolicies` came."""


def _add_old(topics: click.Group) -> None:
    """Verbs by their old names, for old scripts: they work, and --help does not list them, as in pulsar-admin."""
    for verb, old in _OLD.items():
        for name in ("get", "set", "remove"):
            command = copy(topics.commands[f"{name}-{verb}"])
            command.hidden = True
            topics.add_command(command, f"{name}-{old}")


def add_global(group: click.Group) -> None:
    """Let the verbs of topicPolicies take `-g`, which means policies of all clusters: there is one."""
    for command in group.commands.values():
        if command.name not in ("list", "delete"):
            command.params.append(
                click.Option(
                    ["-g", "--global"],
                    is_flag=True,
                    expose_value=False,
                    help="For all clusters, which is the same: there is one.",
                )
            )


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
        which = "".join(f" {each[key]}" for key in ("type", "field") if key in each)
        shown = ", ".join(value) if isinstance(value, list) else str(value)
        rows.append([each["policy"] + which, shown, f"{each['from']} ({each['by']})"])
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
