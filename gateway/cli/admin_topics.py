"""`magnetar-admin topics`: make, list, measure and delete topics."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from gateway.cli import admin_lag
from gateway.cli.admin_client import Client, Misused, namespace_path, pairs, topic_path
from gateway.cli.admin_options import HELP, Noun, Options, common, counted, pass_options
from gateway.cli.admin_previews import ids, topic_id_option

F = TypeVar("F", bound=Callable[..., Any])

topic_argument = click.argument("topic", metavar="TOPIC")


@click.group(cls=Noun, context_settings=HELP)
def topics() -> None:
    """Topics and their subscriptions: make, list, measure, look into and delete them."""


@topics.command(
    "list",
    epilog="""\b
Examples:
  magnetar-admin topics list public/default
  magnetar-admin topics list --lag
  magnetar-admin topics list --lag --sort backlog --subscription billing""",
)
@click.argument("namespace", default="public/default")
@click.option(
    "-td",
    "--topic-domain",
    type=click.Choice(["persistent", "non_persistent"]),
    help="Only topics of this domain.",
)
@click.option("-b", "--bundle", help="Taken and ignored: there is one bundle.")
@click.option("-ist", "--include-system-topic", is_flag=True, help="List the gateway's own topics, too.")
@click.option(
    "--lag", is_flag=True,
    help="Each subscription's backlog, the age of its oldest message and its consumers; partitions together.",
)  # fmt: skip
@click.option("-s", "--subscription", metavar="NAME", help="With --lag: only this subscription (group).")
@click.option(
    "--sort", type=click.Choice(admin_lag.SORTS), default="name", show_default=True,
    help="With --lag: what comes first. Text and tables only.",
)  # fmt: skip
@common
@pass_options
def list_topics(
    options: Options,
    namespace: str,
    topic_domain: str | None,
    bundle: str | None,
    include_system_topic: bool,
    lag: bool,
    subscription: str | None,
    sort: str,
) -> None:
    """List topics of NAMESPACE (public/default), partitions one by one; with --lag how far their readers are behind."""
    where = namespace_path(namespace)
    if lag:
        admin_lag.show_topics(options, namespace, subscription, include_system_topic, sort)
        return
    if subscription is not None or sort != "name":
        raise Misused("--subscription and --sort go with --lag.")
    domains = [topic_domain.replace("_", "-")] if topic_domain else ["persistent", "non-persistent"]
    client = options.client()
    names: list[str] = []
    for domain in domains:
        names += client.get(f"{domain}/{where}", includeSystemTopic=include_system_topic)
    options.show(names, "topic")


@topics.command("list-partitioned-topics")
@click.argument("namespace", default="public/default")
@click.option("-ist", "--include-system-topic", is_flag=True, help="List the gateway's own topics, too.")
@common
@pass_options
def list_partitioned_topics(options: Options, namespace: str, include_system_topic: bool) -> None:
    """List partitioned topics of NAMESPACE (public/default)."""
    where = namespace_path(namespace)
    client = options.client()
    names: list[str] = []
    for domain in ("persistent", "non-persistent"):
        names += client.get(f"{domain}/{where}/partitioned", includeSystemTopic=include_system_topic)
    options.show(names, "topic")


@topics.command(
    epilog="""\b
Examples:
  magnetar-admin topics create orders
  magnetar-admin topics create non-persistent://public/default/ticks"""
)
@topic_argument
@click.option("-m", "--metadata", multiple=True, metavar="KEY=VALUE", help="A property of the topic.")
@common
@pass_options
def create(options: Options, topic: str, metadata: tuple[str, ...]) -> None:
    """Make a topic that is not partitioned: one partition for good."""
    options.client().put(topic_path(topic), pairs(metadata))
    options.told(f"Created {topic}.", action="created", topic=topic, partitions=0)


@topics.command(epilog="\b\nExample:\n  magnetar-admin topics create-partitioned-topic orders -p 4")
@topic_argument
@click.option("-p", "--partitions", type=int, required=True, help="How many partitions.")
@click.option("-m", "--metadata", multiple=True, metavar="KEY=VALUE", help="A property of the topic.")
@common
@pass_options
def create_partitioned_topic(
    options: Options, topic: str, partitions: int, metadata: tuple[str, ...]
) -> None:
    """Make a partitioned topic."""
    body: object = {"partitions": partitions, "properties": pairs(metadata)} if metadata else partitions
    options.client().put(topic_path(topic) + "/partitions", body)
    options.told(
        f"Created {topic} with {counted(partitions, 'partition')}.",
        action="created", topic=topic, partitions=partitions,
    )  # fmt: skip


@topics.command()
@topic_argument
@common
@pass_options
def create_missed_partitions(options: Options, topic: str) -> None:
    """Make partitions that are missing. Here none ever is: a topic and its partitions are made at once."""
    options.client().post(topic_path(topic) + "/createMissedPartitions")
    options.told(f"No partition of {topic} is missing.", action="none", topic=topic)


@topics.command(epilog="\b\nExample:\n  magnetar-admin topics update-partitioned-topic orders -p 8")
@topic_argument
@click.option("-p", "--partitions", type=int, required=True, help="How many partitions there shall be.")
@click.option("-ulo", "--update-local-only", is_flag=True, help="Taken and ignored: there is one cluster.")
@click.option("-f", "--force", is_flag=True, help="Taken and ignored.")
@common
@pass_options
def update_partitioned_topic(
    options: Options, topic: str, partitions: int, update_local_only: bool, force: bool
) -> None:
    """Give a partitioned topic more partitions. Keys may go to other partitions from then on."""
    did = options.client().post(
        topic_path(topic) + "/partitions", partitions, updateLocalTopicOnly=update_local_only, force=force
    )
    before = did.get("before")
    said = f"{topic} has {counted(partitions, 'partition')}"
    if before == partitions:
        said += " already"
    elif before is not None:
        said += f" now, {before} before"
    options.told(said + ".", action="updated", topic=topic, **did)


@topics.command()
@topic_argument
@common
@pass_options
def get_partitioned_topic_metadata(options: Options, topic: str) -> None:
    """Tell how many partitions a topic has; 0 for one that is not partitioned."""
    options.show(options.client().get(topic_path(topic) + "/partitions"))


@topics.command(epilog="\b\nExamples:\n  magnetar-admin topics delete orders\n"
                "  magnetar-admin topics delete --regex 'persistent://public/default/test-.*'")  # fmt: skip
@topic_argument
@click.option("-f", "--force", is_flag=True, help="Delete it although clients are connected to it.")
@click.option("-d", "--deleteSchema", "delete_schema", is_flag=True, hidden=True)
@click.option(
    "-r",
    "--regex",
    is_flag=True,
    help="TOPIC is a pattern for full names; partitioned topics stay.",
)
@click.option("--from-file", is_flag=True, help="TOPIC is a file with one topic a line.")
@topic_id_option
@common
@pass_options
def delete(
    options: Options,
    topic: str,
    force: bool,
    delete_schema: bool,
    regex: bool,
    from_file: bool,
    topic_id: str | None,
) -> None:
    """Delete a topic that is not partitioned, with its messages and the offsets of its groups."""
    if topic_id is not None and (regex or from_file):
        raise Misused("--topic-id is of one topic: leave it out with --regex and --from-file.")
    client = options.client()
    if from_file:
        try:
            names = [line.strip() for line in Path(topic).read_text().splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise Misused(f"The file {topic} cannot be read: {error}.") from None
    elif regex:
        names = _matching(client, topic)
    else:
        names = [topic]
    for name in names:
        _told_deleted(options, name, client.delete(topic_path(name), force=force, **ids(topic_id)))
    if not names:
        click.echo("No topic matches: nothing is deleted.", err=True)


@topics.command()
@topic_argument
@click.option("-f", "--force", is_flag=True, help="Delete it although clients are connected to it.")
@click.option("-d", "--deleteSchema", "delete_schema", is_flag=True, hidden=True)
@topic_id_option
@common
@pass_options
def delete_partitioned_topic(
    options: Options, topic: str, force: bool, delete_schema: bool, topic_id: str | None
) -> None:
    """Delete a partitioned topic with all of its partitions."""
    did = options.client().delete(topic_path(topic) + "/partitions", force=force, **ids(topic_id))
    _told_deleted(options, topic, did)


def _told_deleted(options: Options, topic: str, did: dict[str, Any]) -> None:
    held = f" with {counted(did['messages'])}" if "messages" in did else ""
    options.told(f"Deleted {topic}{held}.", action="deleted", topic=topic, **did)


def _stats_flags(command: F) -> F:
    for names, default, text in (
        (
            ("-etb", "--get-earliest-time-in-backlog"),
            False,
            "Also the age of the oldest message in the backlog.",
        ),
        # pulsar-admin's own default is true, and giving the flag turns it off
        (("-sbs", "--get-subscription-backlog-size"), True, "Leave out the size of the backlog."),
        (("-gpb", "--get-precise-backlog"), False, "Taken and ignored: backlogs are always precise."),
    ):
        command = click.option(*names, is_flag=True, default=default, flag_value=not default, help=text)(
            command
        )
    return command


@topics.command(epilog="\b\nExamples:\n  magnetar-admin topics stats orders-partition-0\n"
                "  magnetar-admin topics stats invoices")  # fmt: skip
@topic_argument
@_stats_flags
@common
@pass_options
def stats(
    options: Options,
    topic: str,
    get_precise_backlog: bool,
    get_subscription_backlog_size: bool,
    get_earliest_time_in_backlog: bool,
) -> None:
    """Rates, counters and size of a topic that is not partitioned, or of one partition."""
    _show_stats(options, options.client().get(
        topic_path(topic) + "/stats",
        getPreciseBacklog=get_precise_backlog,
        subscriptionBacklogSize=get_subscription_backlog_size,
        getEarliestTimeInBacklog=get_earliest_time_in_backlog,
    ))  # fmt: skip


@topics.command(epilog="\b\nExample:\n  magnetar-admin topics partitioned-stats orders --per-partition")
@topic_argument
@click.option("--per-partition", is_flag=True, help="Also those of each partition.")
@_stats_flags
@common
@pass_options
def partitioned_stats(
    options: Options,
    topic: str,
    per_partition: bool,
    get_precise_backlog: bool,
    get_subscription_backlog_size: bool,
    get_earliest_time_in_backlog: bool,
) -> None:
    """Rates, counters and size of a partitioned topic."""
    _show_stats(options, options.client().get(
        topic_path(topic) + "/partitioned-stats",
        perPartition=per_partition,
        getPreciseBacklog=get_precise_backlog,
        subscriptionBacklogSize=get_subscription_backlog_size,
        getEarliestTimeInBacklog=get_earliest_time_in_backlog,
    ))  # fmt: skip


@topics.command()
@topic_argument
@click.option("-m", "--metadata", is_flag=True, help="Taken and ignored: ledgers have none.")
@common
@pass_options
def stats_internal(options: Options, topic: str, metadata: bool) -> None:
    """Ledgers and segments of a topic that is not partitioned, or of one partition."""
    options.show(options.client().get(topic_path(topic) + "/internalStats", metadata=metadata))


@topics.command()
@topic_argument
@common
@pass_options
def partitioned_stats_internal(options: Options, topic: str) -> None:
    """Ledgers and segments of each partition."""
    options.show(options.client().get(topic_path(topic) + "/partitioned-internalStats"))


def _show_stats(options: Options, value: dict[str, Any]) -> None:
    options.show(value)
    for notice in value.get("magnetar", {}).get("notices", []):
        click.echo(f"Notice: {notice}", err=True)


def _matching(client: Client, pattern: str) -> list[str]:
    """Full names of plain topics that match; the namespace is read off the pattern."""
    try:
        wanted = re.compile(pattern if "://" in pattern else f"persistent://public/default/{pattern}")
    except re.error as error:
        raise Misused(f"{pattern!r} is no regular expression: {error}.") from None
    where = re.match(r"((?:non-)?persistent)://([^/]+/[^/]+)/", wanted.pattern)
    if where is None:
        raise Misused("A pattern begins with persistent://tenant/namespace/, or is for public/default.")
    path = f"{where[1]}/{namespace_path(where[2])}"
    parents = tuple(f"{name}-partition-" for name in client.get(f"{path}/partitioned"))
    return [name for name in client.get(path) if wanted.fullmatch(name) and not name.startswith(parents)]
