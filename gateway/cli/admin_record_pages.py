"""`magnetar-admin topics records`: a topic's records over all partitions, by time, searched."""

from __future__ import annotations

import json
from typing import Any

import click

from gateway.cli.admin_client import topic_path
from gateway.cli.admin_options import Options, common, pass_options
from gateway.cli.admin_output import columns
from gateway.cli.admin_topics import topic_argument

WIDEST = 100
"""Letters of a value in a table."""
_AT_ONCE = 200


@click.command(
    epilog="""\b
Examples:
  magnetar-admin topics records orders
  magnetar-admin topics records orders --newer --from 2026-01-31T12:00:00Z -n 20
  magnetar-admin topics records orders --key customer-17
  magnetar-admin topics records orders --text '"state":"paid"' --header trace-id=4711
  magnetar-admin --output json topics records orders-partition-0 --from 4711 -n 1

\b
Values are shown as JSON or text; where they are neither, their first bytes are shown in hexadecimal.
What Confluent's serializers wrote is told with the id of its schema. Avro and Protobuf are
decoded where a registry keeps its schemas in the topic _schemas of the same namespace.""",
)
@topic_argument
@click.option("--from", "begin", metavar="WHERE", help="An offset, a time, a message id, earliest or latest.")
@click.option("--newer", is_flag=True, help="Oldest first, from there on; else newest first.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many."
)
@click.option("--key", help="Only records of this key.")
@click.option("--text", help="Only records with this text in their value, key or headers.")
@click.option("--header", metavar="NAME[=VALUE]", help="Only records with this header.")
@click.option("--after", metavar="CURSOR", help="Go on where an earlier answer says `next`.")
@common
@pass_options
def records(
    options: Options,
    /,
    topic: str,
    begin: str | None,
    newer: bool,
    limit: int,
    **search: str | None,
) -> None:
    """Show records of all partitions by time, the newest first, and search them.

    A search goes on until it has found enough or has come to the end; Ctrl-C ends it.
    """
    path, client = topic_path(topic) + "/magnetar/records", options.client()
    query = {name: value for name, value in {"from": begin, **search}.items() if value}
    if newer:
        query["dir"] = "newer"
    found: list[dict[str, Any]] = []
    while True:
        page = client.get(path, **query, limit=str(min(_AT_ONCE, limit - len(found))))
        found += page["records"]
        if len(found) >= limit or "next" not in page:
            break
        query["after"] = page["next"]
    if options.output == "json":
        options.show({**page, "records": found})
        return
    if found:
        heads = ["time", "partition", "offset", "key", "value"]
        click.echo(columns(heads, [_cells(each) for each in found]))
    if search["key"] or search["text"] or search["header"]:
        click.echo(f"Looked at {page['looked']:,} of {page['of']:,} records.", err=True)
    if "next" in page:
        click.echo(f"There are more: --after {page['next']}", err=True)
    if "damagedBatches" in page:
        click.echo(f"Batches that cannot be opened: {page['damagedBatches']:,}.", err=True)


def _cells(record: dict[str, Any]) -> list[str]:
    at = record.get("time", str(record["timestamp"]))
    return [at, str(record["partition"]), str(record["offset"]), _text(record["key"]), _text(record["value"])]


def _text(said: dict[str, Any] | None) -> str:
    """On one line, and harmless to a terminal."""
    if said is None:
        return ""
    shown = said["decoded"]
    if said["kind"] == "json":
        shown = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
    elif said["kind"] == "hex":
        shown = f"0x{shown}"
    if "schemaId" in said:
        shown = f"(schema {said['schemaId']}) {shown}"
    cut = len(shown) > WIDEST or "cut" in said
    shown = "".join([each if each.isprintable() else f"\\u{ord(each):04x}" for each in shown[:WIDEST]])
    return shown + "…" if cut else shown
