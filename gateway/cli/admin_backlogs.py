"""`magnetar-admin topics|namespaces`, the verbs of backlogs as wholes, and where messages are."""

from __future__ import annotations

import time
from typing import Any

import click

from gateway.cli.admin_client import Misused, namespace_path, segment, topic_path
from gateway.cli.admin_options import Options, common, counted, pass_options
from gateway.cli.admin_records import moment_ms
from gateway.cli.admin_subscriptions import message_id_json, subscription_option, subscription_path
from gateway.cli.admin_topics import topic_argument
from gateway.cli.policy_values import seconds

topic_verbs = click.Group("backlogs")
"""What `topics` has of them."""
namespace_verbs = click.Group("backlogs")
"""What `namespaces` has of them."""

_POLL_SECONDS = 0.5

_AGE = click.option(
    "-t", "--expireTime", "age", metavar="TIME", help="Messages older than that: 100 (seconds), 30m, 12h, 7d."
)


def _age(text: str) -> int:
    """Raises Misused."""
    found = seconds(text, "")
    if found < 1:
        raise Misused("Messages expire at an age of one second or more.")
    return found


# -- expired


@topic_verbs.command(
    epilog="""\b
Examples:
  magnetar-admin topics expire-messages orders -s billing -t 12h
  magnetar-admin topics expire-messages orders-partition-0 -s billing -p 17:3"""
)
@topic_argument
@subscription_option
@_AGE
@click.option("-p", "--position", metavar="ID", help="Or all up to this message id.")
@click.option("-e", "--exclude-reset-position", is_flag=True, help="Not the message of the id itself.")
@common
@pass_options
def expire_messages(
    options: Options,
    topic: str,
    subscription: str,
    age: str | None,
    position: str | None,
    exclude_reset_position: bool,
) -> None:
    """Have old messages of a subscription count as acknowledged."""
    if (age is None) == (position is None):
        raise Misused("Say which: either --expireTime (for example 12h) or --position.")
    path = f"{subscription_path(topic, subscription)}/expireMessages"
    if age is not None:
        did = options.client().post(f"{path}/{_age(age)}")
    else:
        body = {**message_id_json(str(position)), "isExcluded": exclude_reset_position}
        did = options.client().post(path, body)
    _told(options, f"{subscription} of {topic}", did, topic=topic, subscription=subscription)


@topic_verbs.command(
    epilog="\b\nExample:\n  magnetar-admin topics expire-messages-all-subscriptions orders -t 12h"
)
@topic_argument
@_AGE
@common
@pass_options
def expire_messages_all_subscriptions(options: Options, topic: str, age: str | None) -> None:
    """Have old messages count as acknowledged for all subscriptions of a topic."""
    if age is None:
        raise Misused("Say how old messages are that expire, for example --expireTime 12h.")
    did = options.client().post(f"{topic_path(topic)}/all_subscription/expireMessages/{_age(age)}")
    _told(options, f"all subscriptions of {topic}", did, topic=topic)


def _told(options: Options, of: str, did: dict[str, Any], **facts: str) -> None:
    options.told(f"Expired {_count(did)} of {of}.", action="expired", **facts, **did)


def _count(did: dict[str, Any]) -> str:
    return counted(did["messages"]) if "messages" in did else "messages"


# -- ended


@topic_verbs.command(epilog="\b\nExample:\n  magnetar-admin topics terminate orders")
@topic_argument
@common
@pass_options
def terminate(options: Options, topic: str) -> None:
    """Have a topic take no more messages; what it has stays. That cannot be undone. Its last message's id is shown."""
    options.show(options.client().post(f"{topic_path(topic)}/terminate"))


@topic_verbs.command(epilog="\b\nExample:\n  magnetar-admin topics partitioned-terminate orders")
@topic_argument
@common
@pass_options
def partitioned_terminate(options: Options, topic: str) -> None:
    """The same of all partitions of a topic. The ids of their last messages are shown."""
    options.show(options.client().post(f"{topic_path(topic)}/terminate/partitions"))


# -- where messages are


@topic_verbs.command(epilog="\b\nExample:\n  magnetar-admin topics last-message-id orders-partition-0")
@topic_argument
@common
@pass_options
def last_message_id(options: Options, topic: str) -> None:
    """The id of a topic's last message; -1 where it has none."""
    options.show(options.client().get(f"{topic_path(topic)}/lastMessageId"))


@topic_verbs.command(
    epilog="\b\nExample:\n  magnetar-admin topics get-message-id orders-partition-0 -d 2026-01-31T12:00:00Z"
)
@topic_argument
@click.option(
    "-d",
    "--datetime",
    "at",
    required=True,
    metavar="TIME",
    help="2026-01-31T12:00:00Z, or milliseconds since 1970.",
)
@common
@pass_options
def get_message_id(options: Options, topic: str, at: str) -> None:
    """The id of the first message that was sent at a time or later; the last one's where none was."""
    options.show(options.client().get(f"{topic_path(topic)}/messageid/{moment_ms(at)}"))


@topic_verbs.command(
    epilog="\b\nExample:\n  magnetar-admin topics get-backlog-size orders-partition-0 -m 17:3"
)
@topic_argument
@click.option(
    "-m", "--messageId", "message_id", default="earliest", show_default=True, metavar="ID",
    help="earliest, latest or ledger:entry.",
)  # fmt: skip
@common
@pass_options
def get_backlog_size(options: Options, topic: str, message_id: str) -> None:
    """How many bytes a topic has from a message on."""
    options.show(options.client().put(f"{topic_path(topic)}/backlogSize", message_id_json(message_id)))


@topic_verbs.command(epilog="\b\nExample:\n  magnetar-admin topics info-internal orders-partition-0")
@topic_argument
@common
@pass_options
def info_internal(options: Options, topic: str) -> None:
    """The ledgers of a topic."""
    options.show(options.client().get(f"{topic_path(topic)}/internal-info"))


@topic_verbs.command(epilog="\b\nExample:\n  magnetar-admin topics compact orders")
@topic_argument
@common
@pass_options
def compact(options: Options, topic: str) -> None:
    """Compact a topic now, or one partition: of each key only the last message stays, for all readers. For topics with
    cleanup.policy=compact.
    """
    options.client().put(f"{topic_path(topic)}/compaction")
    options.told(
        f"Topic compaction requested for {topic}. See how it goes: magnetar-admin topics compaction-status {topic}",
        action="compact",
        topic=topic,
    )


@topic_verbs.command(epilog="\b\nExample:\n  magnetar-admin topics compaction-status orders")
@topic_argument
@click.option("-w", "--wait-complete", is_flag=True, help="Wait until it is not at work any more.")
@common
@pass_options
def compaction_status(options: Options, topic: str, wait_complete: bool) -> None:
    """How the last compaction went since the gateway started: NOT_RUN, RUNNING, SUCCESS or ERROR, and why."""
    while True:
        found = options.client().get(f"{topic_path(topic)}/compaction")
        if not wait_complete or found["status"] != "RUNNING":
            break
        time.sleep(_POLL_SECONDS)
    options.show(found)


@topic_verbs.command("unload", epilog="\b\nExample:\n  magnetar-admin topics unload orders")
@topic_argument
@common
@pass_options
def unload_topic(options: Options, topic: str) -> None:
    """Nothing: topics are served by one node, and leave memory by themselves. Taken, for scripts' sake."""
    options.client().put(f"{topic_path(topic)}/unload")
    options.told(
        f"{topic} is served by this gateway alone: nothing was to be done.", action="unload", topic=topic
    )


# -- namespaces


@namespace_verbs.command(
    "clear-backlog", epilog="\b\nExample:\n  magnetar-admin namespaces clear-backlog shop/eu"
)
@click.argument("namespace")
@click.option("-s", "--sub", "subscription", metavar="NAME", help="Only of this subscription.")
@click.option("-b", "--bundle", hidden=True)
@click.option("-f", "-force", "--force", is_flag=True, help="Do not ask.")
@common
@pass_options
def clear_namespace(
    options: Options, namespace: str, subscription: str | None, bundle: str | None, force: bool
) -> None:
    """Acknowledge everything there is, on all topics of NAMESPACE, for all subscriptions or for one. Asks before."""
    path = f"namespaces/{namespace_path(namespace)}/clearBacklog"
    if not force and not click.confirm(
        f"Are you sure you want to clear the backlog of {namespace}?", default=False, err=True
    ):
        raise click.Abort
    did = options.client().post(f"{path}/{segment(subscription)}" if subscription else path)
    whose = f"{subscription} on" if subscription else "all subscriptions on"
    options.told(
        f"Cleared {_count(did)} of {whose} the topics of {namespace}.",
        action="cleared",
        namespace=namespace,
        **did,
    )


@namespace_verbs.command(
    "unsubscribe", epilog="\b\nExample:\n  magnetar-admin namespaces unsubscribe shop/eu -s billing"
)
@click.argument("namespace")
@click.option(
    "-s", "--sub", "subscription", required=True, metavar="NAME", help="The subscription: a group id."
)
@click.option("-b", "--bundle", hidden=True)
@common
@pass_options
def unsubscribe_namespace(options: Options, namespace: str, subscription: str, bundle: str | None) -> None:
    """Delete a subscription of all topics of NAMESPACE that have it. Refused while it has consumers."""
    did = options.client().post(f"namespaces/{namespace_path(namespace)}/unsubscribe/{segment(subscription)}")
    had = did.get("topics")
    options.told(
        f"No topic of {namespace} has a subscription {subscription}: nothing was deleted."
        if had == 0
        else f"Deleted {subscription} on {'all topics' if had is None else counted(had, 'topic')} of {namespace}.",
        action="unsubscribed",
        namespace=namespace,
        subscription=subscription,
        **did,
    )


@namespace_verbs.command("unload", epilog="\b\nExample:\n  magnetar-admin namespaces unload shop/eu")
@click.argument("namespace")
@click.option("-b", "--bundle", hidden=True)
@click.option("-d", "--destinationBroker", "broker", hidden=True)
@common
@pass_options
def unload_namespace(options: Options, namespace: str, bundle: str | None, broker: str | None) -> None:
    """Nothing: topics are served by one node, and leave memory by themselves. Taken, for scripts' sake."""
    options.client().put(f"namespaces/{namespace_path(namespace)}/unload")
    options.told(
        f"{namespace} is served by this gateway alone: nothing was to be done.",
        action="unload",
        namespace=namespace,
    )


def add_to(topics: click.Group, namespaces: click.Group) -> None:
    """Both have their verbs."""
    for name, command in topic_verbs.commands.items():
        topics.add_command(command, name)
    for name, command in namespace_verbs.commands.items():
        namespaces.add_command(command, name)
