"""Verbs about policies that cannot be set: scripts that ask for one, or take one away, go on as with Pulsar.

What is asked for is told as Pulsar tells it where nobody has set it. `set-` is refused, for the reason in
`gateway/not_served.py`. `--help` does not list them.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import click

from gateway.cli.admin_client import namespace_path, segment, topic_path
from gateway.cli.admin_options import Options, common, pass_options

_OF_BOTH = {
    "deduplication-snapshot-interval": "deduplicationSnapshotInterval",
    "offload-policies": "offloadPolicies",
    "persistence": "persistence",
    "replicator-dispatch-rate": "replicatorDispatchRate",
    "subscribe-rate": "subscribeRate",
}
_LATER = {
    "dispatcher-pause-on-ack-state-persistent": "dispatcherPauseOnAckStatePersistent",
    "schema-compatibility-strategy": "schemaCompatibilityStrategy",
}

GOT: dict[str, dict[str, str]] = {
    "namespaces": _OF_BOTH
    | _LATER
    | {
        "bookie-affinity-group": "persistence/bookieAffinity",
        "encryption-required": "encryptionRequired",
        "entry-filters": "entryFilters",
        "is-allow-auto-update-schema": "isAllowAutoUpdateSchema",
        "offload-deletion-lag": "offloadDeletionLagMs",
        "offload-threshold": "offloadThreshold",
        "schema-autoupdate-strategy": "schemaAutoUpdateCompatibilityStrategy",
        "schema-validation-enforce": "schemaValidationEnforced",
    },
    "topics": _OF_BOTH
    | {
        "replication-clusters": "replication",
        "schema-validation-enforce": "schemaValidationEnforced",
        "shadow-topics": "shadowTopics",
    },
    "topicPolicies": _OF_BOTH
    | _LATER
    | {"entry-filters-per-topic": "entryFilters", "replication-clusters": "replication"},
}
"""Verbs without `get-`, and what stands behind the name in the path."""

REMOVED: dict[str, dict[str, str]] = {
    "namespaces": {
        "clear-offload-deletion-lag": "offloadDeletionLagMs",
        "delete-bookie-affinity-group": "persistence/bookieAffinity",
        "remove-dispatcher-pause-on-ack-state-persistent": "dispatcherPauseOnAckStatePersistent",
        "remove-entry-filters": "entryFilters",
        "remove-offload-policies": "removeOffloadPolicies",
        "remove-persistence": "persistence",
        "remove-replicator-dispatch-rate": "replicatorDispatchRate",
        "remove-subscribe-rate": "subscribeRate",
    },
    "topics": {
        f"remove-{verb}": path for verb, path in GOT["topics"].items() if verb != "schema-validation-enforce"
    },
    "topicPolicies": {f"remove-{verb}": path for verb, path in GOT["topicPolicies"].items()},
}
"""Whole verbs, likewise."""


def _place(noun: str, named: str) -> str:
    return f"namespaces/{namespace_path(named)}" if noun == "namespaces" else topic_path(named)


def _title(verb: str) -> str:
    return verb.partition("-")[2].replace("-", " ")


def _removed(options: Options, noun: str, verb: str, named: str) -> None:
    what = "namespace" if noun == "namespaces" else "topic"
    options.told(
        f"There is no {_title(verb)} of {what} {named}, and none can be set: nothing was removed.",
        action="removed",
        **{what: named},
    )


def _hidden(group: click.Group, verb: str, run: Any, does: str, *options: Any) -> None:
    """One verb with one argument, which `--help` of the noun does not list."""
    shown, example = ("NAMESPACE", "shop/eu") if group.name == "namespaces" else ("TOPIC", "orders")
    command = common(pass_options(run))
    for option in options:
        command = option(command)
    command = click.argument("named", metavar=shown)(command)
    more = " -s billing" if "subscription" in verb else ""
    group.command(
        verb,
        hidden=True,
        help=does,
        epilog=f"\b\nExample:\n  magnetar-admin {group.name} {verb} {example}{more}",
    )(command)


_APPLIED = click.option("-ap", "--applied", is_flag=True, help="What is in force, whoever has set it.")
_SHORT_APPLIED = click.option("-a", "--applied", is_flag=True, help="What is in force, whoever has set it.")


def _get(group: click.Group, verb: str, path: str) -> None:
    noun = group.name or ""

    def of_namespace(options: Options, named: str) -> None:
        options.show(options.client().get(f"{_place(noun, named)}/{path}"))

    def of_topic(options: Options, named: str, applied: bool) -> None:
        options.show(options.client().get(f"{_place(noun, named)}/{path}", applied=applied))

    does = f"The {verb.replace('-', ' ')}, as where it was never set: it cannot be set here."
    if noun == "namespaces" and verb != "schema-validation-enforce":
        _hidden(group, f"get-{verb}", of_namespace, does)
    elif "ack-state" in verb:
        _hidden(group, f"get-{verb}", of_topic, does, _SHORT_APPLIED)
    else:
        _hidden(group, f"get-{verb}", of_topic, does, _APPLIED)


def _remove(group: click.Group, verb: str, path: str) -> None:
    noun = group.name or ""

    def run(options: Options, named: str) -> None:
        options.client().delete(f"{_place(noun, named)}/{path}")
        _removed(options, noun, verb, named)

    _hidden(group, verb, run, f"Nothing: there is no {_title(verb)} to take away, as none can be set here.")


def add_to(group: click.Group) -> None:
    """The verbs of a noun: namespaces, topics or topicPolicies."""
    assert group.name is not None
    for verb, path in GOT[group.name].items():
        _get(group, verb, path)
    for verb, path in REMOVED[group.name].items():
        _remove(group, verb, path)
    if group.name == "namespaces":
        _add_snapshot_interval(group)
    if group.name == "topics":
        _add_of_topics(group)


def _add_snapshot_interval(namespaces: click.Group) -> None:
    verb = "remove-deduplication-snapshot-interval"

    def run(options: Options, named: str) -> None:
        options.client().post(f"{_place('namespaces', named)}/deduplicationSnapshotInterval", None)
        _removed(options, "namespaces", verb, named)

    _hidden(
        namespaces, verb, run, f"Nothing: there is no {_title(verb)} to take away, as none can be set here."
    )


def _add_of_topics(topics: click.Group) -> None:
    def replicated(options: Options, named: str, subscription: str) -> None:
        path = f"{topic_path(named)}/subscription/{segment(subscription)}/replicatedSubscriptionStatus"
        options.show_map(options.client().get(path))

    def offloaded(options: Options, named: str, wait: bool) -> None:
        # nothing is on its way that could be waited for
        options.show_map(options.client().get(f"{topic_path(named)}/offload"))

    def shadowed(options: Options, named: str) -> None:
        # where Pulsar has it
        options.show(options.client().get(f"{topic_path(named)}/properties").get("PULSAR.SHADOW_SOURCE"))

    name = click.option("-s", "--subscription", required=True, metavar="NAME", help="The subscription.")
    _hidden(
        topics, "get-replicated-subscription-status", replicated,
        "Whether a subscription is kept in step in several clusters: false, as there is one cluster.", name,
    )  # fmt: skip
    wait = click.option(
        "-w", "--wait-complete", "wait", is_flag=True, help="Wait for the last ones: none are on their way."
    )
    _hidden(
        topics, "offload-status", offloaded, "How far old messages were moved: not at all, as nothing moves.", wait
    )  # fmt: skip
    _hidden(topics, "get-shadow-source", shadowed, "Whose messages a topic reads: null, as it has its own.")
    _add_deduplication(topics)


def _add_deduplication(topics: click.Group) -> None:
    """By the old names of `get-` and `set-deduplication`."""
    old = copy(topics.commands["get-deduplication"])
    old.hidden = True
    topics.add_command(old, "get-deduplication-enabled")
    for verb, wanted in (("enable-deduplication", True), ("disable-deduplication", False)):

        def run(options: Options, named: str, wanted: bool = wanted) -> None:
            options.client().post(f"{topic_path(named)}/deduplicationEnabled", wanted)
            options.told(
                f"Set the deduplication of topic {named}. It is {'on' if wanted else 'off'}.",
                action="set",
                topic=named,
                deduplicationEnabled=wanted,
            )

        _hidden(topics, verb, run, f"The same as set-deduplication --{verb.partition('-')[0]}.")
