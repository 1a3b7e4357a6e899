"""`magnetar-admin topics lookup`, `partitioned-lookup` and `bundle-range`: which node serves a topic."""

from __future__ import annotations

import click

from gateway.cli.admin_client import AdminError, topic_path
from gateway.cli.admin_options import Options, common, pass_options
from gateway.cli.admin_topics import topic_argument

verbs = click.Group("lookup")


@verbs.command(epilog="\b\nExample:\n  magnetar-admin topics lookup orders")
@topic_argument
@common
@pass_options
def lookup(options: Options, topic: str) -> None:
    """Where TOPIC is served: kafka://host:port, for any Kafka client."""
    options.show(options.client().look_up(topic_path(topic))["brokerUrl"], "brokerUrl")


@verbs.command(epilog="\b\nExample:\n  magnetar-admin topics partitioned-lookup orders --sort-by-broker")
@topic_argument
@click.option("-s", "--sort-by-broker", is_flag=True, help="The partitions of each broker instead.")
@common
@pass_options
def partitioned_lookup(options: Options, topic: str, sort_by_broker: bool) -> None:
    """Where each partition of TOPIC is served."""
    client, path = options.client(), topic_path(topic)
    count = client.get(f"{path}/partitions")["partitions"]
    if not count:
        raise AdminError(f"{topic} is not a partitioned topic. Use lookup for it.")
    domain, rest = path.split("/", 1)
    places: dict[str, str] = {}
    for index in range(count):
        name = f"{rest}-partition-{index}"
        places[f"{domain}://{name}"] = client.look_up(f"{domain}/{name}")["brokerUrl"]
    if not sort_by_broker:
        options.show_map(places)
        return
    brokers: dict[str, list[str]] = {}
    for name, url in places.items():
        brokers.setdefault(url, []).append(name)
    options.show_map(brokers)


@verbs.command(epilog="\b\nExample:\n  magnetar-admin topics bundle-range orders")
@topic_argument
@common
@pass_options
def bundle_range(options: Options, topic: str) -> None:
    """The bundle that TOPIC is in: always the one that holds all."""
    options.show(options.client().look_up(f"{topic_path(topic)}/bundle"), "bundle")


def add_to(topics: click.Group) -> None:
    """Give `topics` these verbs."""
    for name, command in verbs.commands.items():
        topics.add_command(command, name)
