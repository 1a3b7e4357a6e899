"""`magnetar-admin namespaces|topics|topicPolicies get-, set- and remove-retention`: policies at both levels."""

from __future__ import annotations

import re
from typing import Any

import click

from gateway.cli.admin_client import Misused, namespace_path, topic_path
from gateway.cli.admin_options import HELP, Options, common, pass_options

_TIMES = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_AMOUNT = re.compile(r"(-?\d{1,18})\s*([a-zA-Z]?)\Z")

RETENTION = "retention"


def seconds(text: str) -> int:
    """`90m` in seconds; a bare number is seconds, and -1 is no limit. Raises AdminError."""
    return _amount(text, _TIMES, "time", "100 (seconds), 30m, 12h, 7d, 2w, 1y")


def size(text: str) -> int:
    """`16m` in bytes; a bare number is bytes, and -1 is no limit. Raises AdminError."""
    return _amount(text, _SIZES, "size", "1000000 (bytes), 64k, 16m, 10g, 1t")


def _amount(text: str, units: dict[str, int], what: str, forms: str) -> int:
    match = _AMOUNT.match(text.strip())
    number = int(match[1]) if match else 0
    if match is None or match[2].lower() not in units or number < -1:
        raise Misused(f"{text!r} is no {what}: write {forms}, or -1 for no limit.")
    return number * units[match[2].lower()] if number > 0 else number


def _retention(time: str, most: str) -> tuple[dict[str, int], str]:
    """What is sent, and how it reads. Pulsar counts whole minutes and megabytes, and leaves away what is beyond."""
    in_seconds, in_bytes = seconds(time), size(most)
    minutes = in_seconds // 60 if in_seconds > 0 else in_seconds
    megabytes = in_bytes >> 20 if in_bytes > 0 else in_bytes
    if (in_seconds > 0 and not minutes) or (in_bytes > 0 and not megabytes):
        raise Misused(
            "Retention is counted in whole minutes and megabytes: say 1m or more of each, 0, or -1."
        )
    limits = [
        "for ever" if minutes < 0 else f"for {minutes} min" if minutes else "not at all",
        "of any size" if megabytes < 0 else f"up to {megabytes} MB" if megabytes else "of no size",
    ]
    said = "Nothing is kept" if not minutes and not megabytes else f"It is kept {', '.join(limits)}"
    return {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}, said


_time = click.option(
    "-t", "--time", required=True, metavar="TIME", help="100 (seconds), 30m, 12h, 7d, 2w; -1 is for ever."
)
_size = click.option(
    "-s", "--size", "most", required=True, metavar="SIZE", help="64k, 16m, 10g, 1t; -1 is no limit."
)


# -- namespaces


def add_to_namespaces(group: click.Group) -> None:
    """The verbs of namespaces."""

    @group.command("get-retention", epilog="\b\nExample:\n  magnetar-admin namespaces get-retention shop/eu")
    @click.argument("namespace")
    @common
    @pass_options
    def get(options: Options, namespace: str) -> None:
        """What of acknowledged messages NAMESPACE keeps; null where nothing is set."""
        _show(options, f"namespaces/{namespace_path(namespace)}/{RETENTION}")

    @group.command(
        "set-retention",
        epilog="""\b
Examples:
  magnetar-admin namespaces set-retention shop/eu --time 7d --size 10g
  magnetar-admin namespaces set-retention shop/eu --time -1 --size -1

Takes effect at once. What is not acknowledged stays in any case. Old messages go a whole segment at a time.""",
    )
    @click.argument("namespace")
    @_time
    @_size
    @common
    @pass_options
    def put(options: Options, namespace: str, time: str, most: str) -> None:
        """Keep acknowledged messages of NAMESPACE so long, and so many."""
        body, said = _retention(time, most)
        options.client().post(f"namespaces/{namespace_path(namespace)}/{RETENTION}", body)
        _told(options, f"Set the retention of namespace {namespace}. {said}.", namespace=namespace, **body)

    @group.command(
        "remove-retention", epilog="\b\nExample:\n  magnetar-admin namespaces remove-retention shop/eu"
    )
    @click.argument("namespace")
    @common
    @pass_options
    def remove(options: Options, namespace: str) -> None:
        """What the gateway's settings say counts again for NAMESPACE."""
        options.client().delete(f"namespaces/{namespace_path(namespace)}/{RETENTION}")
        options.told(
            f"Removed the retention of namespace {namespace}: the gateway's settings count.",
            action="removed",
            namespace=namespace,
        )


# -- topics


@click.group("topicPolicies", context_settings=HELP)
def topic_policies() -> None:
    """Policies of one topic, which go before those of its namespace."""


def add_to_topics(group: click.Group, noun: str) -> None:
    """The verbs of topics: `topics` has them, and `topicPolicies`."""

    @group.command("get-retention", epilog=f"\b\nExample:\n  magnetar-admin {noun} get-retention orders -ap")
    @click.argument("topic")
    @click.option("-ap", "--applied", is_flag=True, help="What is in force, whoever has set it.")
    @common
    @pass_options
    def get(options: Options, topic: str, applied: bool) -> None:
        """What of acknowledged messages TOPIC keeps; null where nothing is set for it."""
        _show(options, f"{topic_path(topic)}/{RETENTION}", applied=applied)

    @group.command(
        "set-retention",
        epilog=f"\b\nExample:\n  magnetar-admin {noun} set-retention orders --time 12h --size -1",
    )
    @click.argument("topic")
    @_time
    @_size
    @common
    @pass_options
    def put(options: Options, topic: str, time: str, most: str) -> None:
        """Keep acknowledged messages of TOPIC so long, and so many, whatever its namespace says."""
        body, said = _retention(time, most)
        options.client().post(f"{topic_path(topic)}/{RETENTION}", body)
        _told(options, f"Set the retention of topic {topic}. {said}.", topic=topic, **body)

    @group.command(
        "remove-retention", epilog=f"\b\nExample:\n  magnetar-admin {noun} remove-retention orders"
    )
    @click.argument("topic")
    @common
    @pass_options
    def remove(options: Options, topic: str) -> None:
        """What its namespace says counts again for TOPIC."""
        options.client().delete(f"{topic_path(topic)}/{RETENTION}")
        options.told(
            f"Removed the retention of topic {topic}: its namespace's counts.", action="removed", topic=topic
        )


add_to_topics(topic_policies, "topicPolicies")


def _show(options: Options, path: str, **query: bool) -> None:
    options.show(options.client().get(path, **query))


def _told(options: Options, sentence: str, **facts: Any) -> None:
    options.told(sentence, action="set", **facts)
