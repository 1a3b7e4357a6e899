"""`magnetar-admin topics get-, update- and remove-properties`: what somebody keeps with a topic."""

from __future__ import annotations

import click

from gateway.cli.admin_client import Misused, pairs, topic_path
from gateway.cli.admin_options import Options, common, pass_options
from gateway.cli.admin_topics import topic_argument

verbs = click.Group("properties")


@verbs.command(epilog="\b\nExample:\n  magnetar-admin topics get-properties orders")
@topic_argument
@common
@pass_options
def get_properties(options: Options, topic: str) -> None:
    """What somebody has kept with TOPIC."""
    options.show_map(options.client().get(f"{topic_path(topic)}/properties"))


@verbs.command(
    epilog="\b\nExample:\n  magnetar-admin topics update-properties orders -p team=billing -p tier=2"
)
@topic_argument
@click.option("-p", "--property", "properties", multiple=True, metavar="KEY=VALUE", help="One; repeatable.")
@common
@pass_options
def update_properties(options: Options, topic: str, properties: tuple[str, ...]) -> None:
    """Keep properties with TOPIC, beside those there are. They change nothing of how it works."""
    if not properties:
        raise Misused("Say what is to be kept, for example -p team=billing.")
    said = pairs(properties)
    options.client().put(f"{topic_path(topic)}/properties", said)
    options.told(f"Kept with {topic}: {', '.join(said)}.", action="set", topic=topic, properties=said)


@verbs.command(epilog="\b\nExample:\n  magnetar-admin topics remove-properties orders -k team")
@topic_argument
@click.option("-k", "--key", required=True, help="The property's name.")
@common
@pass_options
def remove_properties(options: Options, topic: str, key: str) -> None:
    """Keep a property with TOPIC no longer."""
    options.client().delete(f"{topic_path(topic)}/properties", key=key)
    options.told(f"{topic} has no property {key}.", action="removed", topic=topic, key=key)


def add_to(topics: click.Group) -> None:
    """Give `topics` these verbs."""
    for name, command in verbs.commands.items():
        topics.add_command(command, name)
