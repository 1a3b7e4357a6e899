"""`magnetar-admin`: pulsar-admin's nouns, verbs and flags over the gateway's HTTP API.

It speaks HTTP, so it works from any machine that reaches the admin port; only `topics produce` and `topics consume`
speak Kafka's protocol, by a client library that they import themselves. It imports little, so it starts in a tenth of
a second. Flags of pulsar-admin with several letters and one dash (`-gpb`) are kept as they are. The nouns are in files
of their own, the largest, topics, in several: see README.md.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import click
from click.core import ParameterSource

from gateway.cli import (
    admin_audit,
    admin_backlogs,
    admin_lookup,
    admin_namespace_kept,
    admin_never_set,
    admin_permissions,
    admin_policies,
    admin_resource_groups,
    admin_subscriptions,
    admin_topic_properties,
    admin_trimming,
    admin_why,
)
from gateway.cli.admin_brokers import broker_stats, brokers
from gateway.cli.admin_clusters import clusters
from gateway.cli.admin_consume import consume
from gateway.cli.admin_dead_letters import dead_letters
from gateway.cli.admin_hash import hash_key
from gateway.cli.admin_jobs import jobs
from gateway.cli.admin_key_watches import watch
from gateway.cli.admin_login import login_of, login_options
from gateway.cli.admin_options import DEFAULT_URL, HELP, Options, Verbs
from gateway.cli.admin_output import FORMS
from gateway.cli.admin_produce import produce
from gateway.cli.admin_ranked import attention, subscriptions
from gateway.cli.admin_record_pages import records
from gateway.cli.admin_reset import reset_cursor
from gateway.cli.admin_series import series
from gateway.cli.admin_tenancy import namespaces, tenants
from gateway.cli.admin_topics import topics
from gateway.cli.admin_trace import trace
from gateway.cli.admin_transactions import transactions
from gateway.cli.admin_users import users


@click.group(
    cls=Verbs,
    context_settings=HELP,
    epilog="""\b
Examples:
  magnetar-admin brokers healthcheck
  magnetar-admin topics create-partitioned-topic orders --partitions 4
  magnetar-admin topics produce orders '3 apples' --key ada
  magnetar-admin topics consume orders
  magnetar-admin topics list
  magnetar-admin --output table topics partitioned-stats orders
  MAGNETAR_ADMIN_URL=http://10.0.0.5:8080 magnetar-admin brokers version
  magnetar-admin --admin-url https://10.0.0.5:8080 --tls-ca ca.pem --user ada topics list

\b
Topics are named orders, tenant/namespace/orders or persistent://tenant/namespace/orders;
the bare name lives in public/default, where Kafka clients see it under the same name.""",
)
@click.option(
    "--admin-url",
    "url",
    envvar="MAGNETAR_ADMIN_URL",
    default=DEFAULT_URL,
    show_default=True,
    metavar="URL",
    help="The gateway's admin address; also from MAGNETAR_ADMIN_URL.",
)
@click.option(
    "--output", type=click.Choice(FORMS), default="text", show_default=True, help="How to print the answer."
)
@click.option(
    "--request-timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, metavar="SECONDS",
    show_default=True, help="How long to wait for an answer.",
)  # fmt: skip
@login_options
@click.version_option(package_name="magnetar", message="%(version)s")
@click.pass_context
def main(ctx: click.Context, /, url: str, output: str, request_timeout: float, **login: Any) -> None:
    """Look after a Magnetar gateway: its topics, and the gateway itself."""
    named = ctx.get_parameter_source("url") is not ParameterSource.DEFAULT
    ctx.obj = Options(url, named, output, request_timeout, login_of(dict(os.environ), **login))


main.add_command(topics)
admin_subscriptions.add_to(topics)
admin_topic_properties.add_to(topics)
admin_lookup.add_to(topics)
admin_trimming.add_to(topics)
topics.add_command(hash_key)
topics.add_command(produce)
topics.add_command(consume)
topics.add_command(records)
topics.add_command(reset_cursor)
topics.add_command(watch)
topics.add_command(trace)
admin_backlogs.add_to(topics, namespaces)
admin_permissions.add_to(topics, namespaces)
admin_namespace_kept.add_to(namespaces)
admin_resource_groups.add_to(namespaces)
admin_policies.add_to_topics(topics, "topics")
admin_policies.add_to_namespaces(namespaces)
admin_never_set.add_to(topics)
admin_never_set.add_to(namespaces)
admin_never_set.add_to(admin_policies.topic_policies)
admin_policies.add_global(admin_policies.topic_policies)
main.add_command(tenants)
main.add_command(namespaces)
main.add_command(admin_resource_groups.resourcegroups)
main.add_command(brokers)
main.add_command(broker_stats)
main.add_command(clusters)
main.add_command(users)
main.add_command(admin_audit.audit)
admin_why.add_to(subscriptions)
main.add_command(subscriptions)
main.add_command(attention)
main.add_command(dead_letters)
main.add_command(jobs)
main.add_command(series)
main.add_command(transactions)
main.add_command(admin_policies.topic_policies)


if __name__ == "__main__":
    sys.exit(main())
