"""`magnetar-admin topics trim-topic` and `truncate`: messages are deleted."""

from __future__ import annotations

from typing import Any

import click

from gateway.cli.admin_client import topic_path
from gateway.cli.admin_options import Options, common, counted, pass_options
from gateway.cli.admin_topics import topic_argument

verbs = click.Group("trimming")


@verbs.command(epilog="\b\nExample:\n  magnetar-admin topics trim-topic orders")
@topic_argument
@common
@pass_options
def trim_topic(options: Options, topic: str) -> None:
    """Delete now what retention no longer keeps of TOPIC; it would go with the next round."""
    did = options.client().post(f"{topic_path(topic)}/trim")
    options.told(
        f"Deleted {_count(did)} that retention no longer keeps of {topic}.",
        action="trimmed",
        topic=topic,
        **did,
    )


@verbs.command(
    epilog="\b\nExample:\n  magnetar-admin topics truncate orders\n\nIt does not ask, as in Pulsar. See also: "
    "topics clear-backlog, which keeps the messages for others."
)
@topic_argument
@common
@pass_options
def truncate(options: Options, topic: str) -> None:
    """Delete all messages of TOPIC, read or not, whatever retention says; its subscriptions stay."""
    did = options.client().delete(f"{topic_path(topic)}/truncate")
    options.told(f"Deleted {_count(did)} of {topic}.", action="truncated", topic=topic, **did)


def _count(did: dict[str, Any]) -> str:
    return counted(did["messages"]) if "messages" in did else "messages"


def add_to(topics: click.Group) -> None:
    """Give `topics` these verbs."""
    for name, command in verbs.commands.items():
        topics.add_command(command, name)
