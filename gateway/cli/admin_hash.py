"""`magnetar-admin topics hash`: where a key goes."""

from __future__ import annotations

from typing import Any

import click

from gateway.cli.admin_client import Misused, topic_path
from gateway.cli.admin_options import Options, common, pass_options
from gateway.cli.admin_subscriptions import subscription_path


@click.command(
    "hash",
    epilog="""\b
Examples:
  magnetar-admin topics hash customer-17
  magnetar-admin topics hash customer-17 --topic orders
  magnetar-admin topics hash customer-17 --topic orders -s billing

\b
murmur2 is how Kafka's producers choose a partition (librdkafka: partitioner=murmur2),
murmur3 and JavaStringHash (the default) are the two hashing schemes of Pulsar's.""",
)
@click.argument("key")
@click.option("--topic", help="Also tell the partition of this topic that producers send the key to.")
@click.option(
    "-s", "--subscription", metavar="NAME", help="With --topic: who owns the slot in this subscription."
)
@common
@pass_options
def hash_key(options: Options, key: str, topic: str | None, subscription: str | None) -> None:
    """Tell a key's hashes and its slot. Of a topic also the partition by each hash; of a Key_Shared subscription who
    owns the slot, and who holds it.
    """
    if topic is None:
        if subscription is not None:
            raise Misused("An owner is asked for with both --topic and --subscription.")
        path = "magnetar/hash"
    elif subscription is None:
        path = topic_path(topic) + "/hash"
    else:
        path = subscription_path(topic, subscription) + "/hash"
    answer: dict[str, Any] = options.client().get(path, key=key)
    options.show_map(answer)
