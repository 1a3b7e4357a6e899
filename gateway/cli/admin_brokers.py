"""`magnetar-admin brokers` and `broker-stats`: the gateway as a process."""

from __future__ import annotations

import click

from gateway.cli.admin_client import segment
from gateway.cli.admin_options import HELP, Noun, Options, common, pass_options
from gateway.cli.terminal import as_json


@click.group(cls=Noun, context_settings=HELP)
def brokers() -> None:
    """The gateway as a process."""


@brokers.command()
@click.option(
    "-tv", "--topic-version", help="Taken and ignored: the check writes to the store, not to a topic."
)
@common
@pass_options
def healthcheck(options: Options, topic_version: str | None) -> None:
    """Print ok when the gateway takes writes; else say why not and exit with 1."""
    options.show(options.client().get("brokers/health"))


@brokers.command()
@common
@pass_options
def version(options: Options) -> None:
    """The gateway's version."""
    options.show(options.client().get("brokers/version"))


@brokers.command("list")
@click.argument("cluster", default="standalone")
@common
@pass_options
def list_brokers(options: Options, cluster: str) -> None:
    """Admin addresses of the brokers of CLUSTER."""
    options.show(options.client().get(f"brokers/{segment(cluster)}"), "broker")


@brokers.command()
@common
@pass_options
def leader_broker(options: Options) -> None:
    """The broker that leads the cluster."""
    options.show(options.client().get("brokers/leaderBroker"))


@brokers.command()
@common
@pass_options
def get_runtime_config(options: Options) -> None:
    """Every setting and its value."""
    options.show_map(options.client().get("brokers/configuration/runtime"))


@brokers.command("namespaces", epilog="\b\nExample:\n  magnetar-admin brokers namespaces -u 127.0.0.1:8080")
@click.argument("cluster", default="standalone")
@click.option("-u", "--url", "broker", required=True, metavar="BROKER", help="As `brokers list` prints it.")
@common
@pass_options
def owned_namespaces(options: Options, cluster: str, broker: str) -> None:
    """Which namespaces a broker of CLUSTER serves: all of them."""
    options.show_map(options.client().get(f"brokers/{segment(cluster)}/{segment(broker)}/ownedNamespaces"))


@brokers.command(epilog="\b\nExample:\n  magnetar-admin brokers get-internal-config")
@common
@pass_options
def get_internal_config(options: Options) -> None:
    """Where metadata is kept. There are no ledgers of BookKeeper and no ZooKeeper to name."""
    options.show(options.client().get("brokers/internal-configuration"))


@brokers.command(epilog="\b\nExample:\n  magnetar-admin brokers backlog-quota-check")
@common
@pass_options
def backlog_quota_check(options: Options) -> None:
    """Nothing: each batch that is published is held against its quota. Taken, for scripts' sake."""
    options.client().get("brokers/backlog-quota-check")
    options.told(
        "Each batch that is published is held against its quota: nothing was to be done.", action="none"
    )


# -- settings that are altered


@brokers.command(epilog="\b\nExample:\n  magnetar-admin brokers list-dynamic-config")
@common
@pass_options
def list_dynamic_config(options: Options) -> None:
    """Settings that may be altered while the gateway runs."""
    options.show(options.client().get("brokers/configuration"), "setting")


@brokers.command(epilog="\b\nExample:\n  magnetar-admin brokers get-all-dynamic-config")
@common
@pass_options
def get_all_dynamic_config(options: Options) -> None:
    """Settings that were altered and are in force, by this tool or by kafka-configs.sh."""
    options.show_map(options.client().get("brokers/configuration/values"))


_config = click.option("-c", "--config", required=True, metavar="NAME", help="The setting.")


@brokers.command(
    epilog="\b\nExample:\n  magnetar-admin brokers update-dynamic-config -c log.retention.ms -v 86400000"
)
@_config
@click.option("-v", "--value", required=True, help="What it shall be.")
@common
@pass_options
def update_dynamic_config(options: Options, config: str, value: str) -> None:
    """Alter a setting at once, and for good: also after a restart."""
    options.client().post(f"brokers/configuration/{segment(config)}/{segment(value)}")
    options.told(f"{config} is {value}.", action="set", config=config, value=value)


@brokers.command(epilog="\b\nExample:\n  magnetar-admin brokers delete-dynamic-config -c log.retention.ms")
@_config
@common
@pass_options
def delete_dynamic_config(options: Options, config: str) -> None:
    """Take an alteration back: what the gateway was started with counts again."""
    options.client().delete(f"brokers/configuration/{segment(config)}")
    options.told(f"{config} is what the gateway was started with.", action="removed", config=config)


# -- stats


@click.group("broker-stats", cls=Noun, context_settings=HELP)
def broker_stats() -> None:
    """What the gateway counts. For Prometheus it is at /metrics."""


@broker_stats.command(epilog="\b\nExample:\n  magnetar-admin broker-stats topics -i")
@click.option("-i", "--indent", is_flag=True, help="Over several lines.")
@common
@pass_options
def topics(options: Options, indent: bool) -> None:
    """Stats of all topics that are in memory, by namespace and bundle."""
    found = options.client().get("broker-stats/topics")
    if indent or options.output != "text":
        options.show(found)
    else:
        click.echo(as_json(found))


broker_stats.add_command(
    click.Command(
        "destinations",
        params=topics.params,
        callback=topics.callback,
        help="The old name of topics.",
        hidden=True,
    )
)
