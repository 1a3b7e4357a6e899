"""`magnetar-admin namespaces|topics|topicPolicies get-, set- and remove-backlog-quota…`.

Pulsar has one verb for two quotas: `--type` says which, and the limit has a flag of its own for each.
"""

from __future__ import annotations

from typing import Any

import click

from gateway.cli.admin_client import Misused, namespace_path, topic_path
from gateway.cli.admin_options import Options, common, pass_options
from gateway.cli.policy_values import read
from semantics.policies import Level
from semantics.policy_form import Form
from semantics.policy_forms import QUOTA_AGE, QUOTA_SIZE, QUOTAS

_TYPES = [form.type for form in QUOTAS]
_SIZE, _ACTION = QUOTA_SIZE.fields
_AGE, _ = QUOTA_AGE.fields
_FIELDS = {QUOTA_SIZE.type: _SIZE, QUOTA_AGE.type: _AGE}

_TYPE = click.option(
    "-t",
    "--type",
    "kind",
    type=click.Choice(_TYPES),
    default=QUOTA_SIZE.type,
    show_default=True,
    help="Of bytes (--limit), or of the oldest message's age (--limitTime).",
)


def _form(kind: str) -> Form:
    return next(form for form in QUOTAS if form.type == kind)


def _body(kind: str, limit: str | None, limit_time: str | None, policy: str) -> dict[str, Any]:
    """What is sent. Raises Misused where the type's own limit is missing, or the other's is given."""
    given = {QUOTA_SIZE.type: limit, QUOTA_AGE.type: limit_time}
    mine = given[kind]
    if mine is None:
        other = next((each for each in _TYPES if each != kind and given[each] is not None), None)
        hint = f" For {_FIELDS[other].flags[-1]} add --type {other}." if other else ""
        raise Misused(f"A quota of type {kind} has its limit in {_FIELDS[kind].flags[-1]}.{hint}")
    if any(given[each] is not None for each in _TYPES if each != kind):
        raise Misused(
            "One quota at a time: --limit is of --type destination_storage, --limitTime of message_age."
        )
    field = _FIELDS[kind]
    return {field.json: read(_form(kind), field, mine), "policy": policy}


def _sentence(kind: str, body: dict[str, Any]) -> str:
    field = _FIELDS[kind]
    limit = body[field.json]
    shown = "no limit" if limit < 0 else f"{limit} {field.unit_name or 'bytes'} for each partition"
    return f"It is {shown}, then {body['policy']}."


def add(group: click.Group, noun: str, level: Level) -> None:
    """The verbs of one level. Namespaces get their quotas by `get-backlog-quotas`, as in pulsar-admin."""
    argument = "namespace" if level is Level.NAMESPACE else "topic"
    shown, example = argument.upper(), "shop/eu" if level is Level.NAMESPACE else "orders"
    each = shown if level is Level.TOPIC else f"each topic of {shown}"
    got = "get-backlog-quota" if noun == "topicPolicies" else "get-backlog-quotas"

    def path(named: str, segment: str) -> str:
        place = f"namespaces/{namespace_path(named)}" if level is Level.NAMESPACE else topic_path(named)
        return f"{place}/{segment}"

    def get(options: Options, named: str, applied: bool = False) -> None:
        query = {"applied": applied} if level is Level.TOPIC else {}
        options.show(options.client().get(path(named, "backlogQuotaMap"), **query))

    def put(
        options: Options, named: str, limit: str | None, limit_time: str | None, policy: str, kind: str
    ) -> None:
        body = _body(kind, limit, limit_time, policy)
        options.client().post(path(named, "backlogQuota"), body, backlogQuotaType=kind)
        options.told(
            f"Set the backlog quota ({kind}) of {argument} {named}. {_sentence(kind, body)}",
            action="set",
            type=kind,
            **{argument: named},
            **body,
        )

    def remove(options: Options, named: str, kind: str) -> None:
        options.client().delete(path(named, "backlogQuota"), backlogQuotaType=kind)
        instead = "its namespace's counts" if level is Level.TOPIC else "the gateway's settings count"
        options.told(
            f"Removed the backlog quota ({kind}) of {argument} {named}: {instead}.",
            action="removed",
            type=kind,
            **{argument: named},
        )

    says = "its namespace says" if level is Level.TOPIC else "the gateway's settings say"
    at = f"magnetar-admin {noun} {{}} {example}"
    limits = [
        click.option("-l", "--limit", metavar="SIZE", help=f"With --type {QUOTA_SIZE.type}: {_SIZE.help}"),
        click.option(
            "-lt",
            "--limitTime",
            "limit_time",
            metavar="TIME",
            help=f"With --type {QUOTA_AGE.type}: {_AGE.help}",
        ),
        click.option(
            "-p",
            "--policy",
            required=True,
            type=click.Choice(_ACTION.policy.choices),
            help="What happens when it is used up.",
        ),
        _TYPE,
    ]
    commands: list[tuple[str, Any, str, str, list[Any]]] = [
        (
            got,
            get,
            f"How much of {each} may wait for its acknowledgement, and how long; {{}} where nothing is set for it.",
            f"\b\nExample:\n  {at.format(got)}",
            [click.option("-ap", "--applied", is_flag=True, help="What is in force, whoever has set it.")]
            if level is Level.TOPIC
            else [],
        ),
        (
            "set-backlog-quota",
            put,
            f"Limit how much of {each} may wait for its acknowledgement, or how long.",
            f"\b\nExamples:\n  {at.format('set-backlog-quota')} --limit 2G --policy producer_request_hold\n"
            f"  {at.format('set-backlog-quota')} {QUOTA_AGE.example}",
            limits,
        ),
        (
            "remove-backlog-quota",
            remove,
            f"What {says} of the quota counts "
            f"again for {shown}.",
            f"\b\nExample:\n  {at.format('remove-backlog-quota')}",
            [_TYPE],
        ),
    ]  # fmt: skip
    for name, run, doc, epilog, flags in commands:
        command: Any = common(pass_options(run))
        for flag in reversed(flags):
            command = flag(command)
        command = click.argument("named", metavar=shown)(command)
        group.command(name, epilog=epilog, help=doc)(command)
