"""`magnetar-admin topics consume`: the records of a topic, by nobody, by a consumer group or by a share group."""

from __future__ import annotations

import re
from shlex import quote

import click

from gateway.cli import admin_kafka as kafka_side
from gateway.cli.admin_client import Misused
from gateway.cli.admin_options import Options, common, counted, pass_options
from gateway.cli.admin_reading import Reader, by_group, by_nobody
from gateway.cli.admin_records import Record, Template, as_json, binary, human, quoted, span_ms
from gateway.cli.admin_settling import Rules, by_share_group
from gateway.cli.admin_topics import topic_argument
from gateway.cli.interruptible import INTERRUPTED


@click.command(
    epilog="""\b
Examples:
  magnetar-admin topics consume orders
  magnetar-admin topics consume orders --from -10 --follow
  magnetar-admin topics consume orders --from 2h --format json
  magnetar-admin topics consume orders --group billing -n 5
  magnetar-admin topics consume orders --share packing --from earliest
  magnetar-admin topics consume orders --share packing --reject '^1 pear' --release-every 10
  magnetar-admin topics consume orders --share packing --ask
  magnetar-admin topics consume orders --format '%k bought %s (partition %p, offset %o)\\n'

\b
Formats: human; json (an object a line); value (a line each); raw (values, nothing between);
or a text with %t topic, %p partition, %o offset, %k key, %K its length, %s value, %S its length,
%h headers, %T timestamp in ms, %d deliveries, %% and \\n \\t \\x1f."""
)
@topic_argument
@click.option(
    "-g",
    "--group",
    metavar="NAME",
    help="Read as a member of this consumer group; what is shown is committed.",
)
@click.option(
    "-s",
    "--share",
    metavar="NAME",
    help="Read as a member of this share group: a Shared or Key_Shared subscription.",
)
@click.option(
    "--from", "start", metavar="WHERE",
    help="earliest (the default), latest, an offset, -N for the last N of each partition, a time (2026-01-31T12:00:00Z)"
    " or how long ago (2h). A group: earliest or latest, and only where it has not begun.",
)  # fmt: skip
@click.option(
    "-p", "--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Only this partition."
)
@click.option("-n", "--count", type=click.IntRange(min=1), help="End after so many messages.")
@click.option("-f", "--follow", is_flag=True, help="Go on waiting for messages, until Ctrl-C.")
@click.option(
    "-w", "--wait", default="5s", show_default=True, metavar="TIME",
    help="Without --follow a group's member ends when nothing came for so long; a bare number means seconds.",
)  # fmt: skip
@click.option(
    "--format",
    "form",
    default="human",
    show_default=True,
    help="human, json, value, raw, or a text: see below.",
)
@click.option(
    "--reject",
    metavar="REGEX",
    help="With --share: reject a message whose value matches: it is dead at once.",
)
@click.option(
    "--release", metavar="REGEX", help="With --share: release a message whose value matches: it comes again."
)
@click.option(
    "--release-every",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --share: release every N-th message.",
)
@click.option(
    "--reject-every", type=click.IntRange(min=1), metavar="N", help="With --share: reject every N-th message."
)
@click.option(
    "--ask",
    is_flag=True,
    help="With --share: ask for each message: a accept, r release, x reject, q quit (which releases the one"
    " shown: that counts as a delivery).",
)
@kafka_side.kafka_options
@common
@pass_options
@click.pass_context
def consume(
    ctx: click.Context,
    options: Options,
    topic: str,
    group: str | None,
    share: str | None,
    start: str | None,
    partitions: tuple[int, ...],
    count: int | None,
    follow: bool,
    wait: str,
    form: str,
    reject: str | None,
    release: str | None,
    release_every: int | None,
    reject_every: int | None,
    ask: bool,
    bootstrap: str | None,
    settings: tuple[str, ...],
) -> None:
    """Print messages of a topic: all there are, or with --follow for ever.

    Without --group and --share nothing is remembered. With --share each message is accepted once it is printed,
    unless a rule releases or rejects it; --reject goes before --release. --ask sets rules aside.
    """
    name, own_partition = kafka_side.named(topic)
    kafka_side.check_output(options)
    if own_partition is not None:
        partitions = (own_partition,)
    rules = Rules(_pattern(reject), _pattern(release), reject_every, release_every, ask)
    if group is not None and share is not None:
        raise Misused("Say either --group or --share, not both.")
    if (group is not None or share is not None) and partitions:
        raise Misused("A group is given its partitions: leave --partition out, or --group and --share.")
    if share is None and rules.any:
        raise Misused("Only a share group's messages are accepted, released or rejected: add --share NAME.")
    for each in (group, share):
        if each is not None and start not in (None, "earliest", "latest"):
            raise Misused(
                f"--from of a group is earliest or latest, and counts where {each or 'the group'} has not begun."
                f" `magnetar-admin topics reset-cursor {topic} -s {quote(each) if each else 'GROUP'}` moves one that"
                " has."
            )
        if each == "":
            raise Misused("The name of the group is empty.")
    patience = span_ms(wait) / 1000
    writer = Writer("json" if options.output == "json" and form == "human" else form)
    address, name = kafka_side.place_of(options, bootstrap, name, settings)
    reader = Reader(
        address,
        settings,
        name,
        count,
        follow,
        patience,
        options.timeout,
    )
    try:
        if share is not None:
            by_share_group(reader, share, start, rules, writer.write)
        elif group is not None:
            by_group(reader, group, start, writer.write)
        else:
            by_nobody(reader, start or "earliest", partitions, writer.write)
    except (KeyboardInterrupt, SystemError):
        # the library loses a Ctrl-C that comes in a callback: "returned NULL without setting an exception"
        reader.interrupted = True
    _summary(reader)
    if reader.interrupted and not follow:
        ctx.exit(INTERRUPTED)


class Writer:
    """Prints records in one form."""

    def __init__(self, form: str) -> None:
        """Raises AdminError."""
        self._form = form
        self._template = Template(form) if "%" in form else None
        if self._template is None and form not in ("human", "json", "value", "raw"):
            raise Misused(
                f"{quoted(form)} is no format: write human, json, value, raw, or a text with a field in it, such as %s."
            )
        self._out = binary("stdout")

    def write(self, record: Record) -> None:
        """Print it, and see that it is out: only what somebody has seen may be acknowledged."""
        self._out.write(self._rendered(record))
        self._out.flush()

    def _rendered(self, record: Record) -> bytes:
        if self._template is not None:
            return self._template.render(record)
        if self._form in ("value", "raw"):
            return (record.value or b"") + (b"\n" if self._form == "value" else b"")
        text = as_json(record) if self._form == "json" else human(record)
        return text.encode("utf-8", "backslashreplace") + b"\n"


def _pattern(text: str | None) -> re.Pattern[bytes] | None:
    if text is None:
        return None
    try:
        return re.compile(text.encode("utf-8", "surrogateescape"))
    except re.error as error:
        raise Misused(f"{text!r} is no regular expression: {error}.") from None


def _summary(reader: Reader) -> None:
    """One line on stderr."""
    said = counted(reader.shown)
    settled = ", ".join(f"{number:,} {what}" for what, number in reader.settled.items() if number)
    if settled:
        said += f": {settled}"
    click.echo(said + ".", err=True)
    if reader.hint:
        click.echo(reader.hint, err=True)
