"""`magnetar-admin dead-letters`: what a subscription gave up, listed, in groups, sent again, edited, discarded."""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Callable
from datetime import UTC
from typing import Any, TypeVar

import click

from gateway.cli.admin_client import Client, Misused, pair, pairs
from gateway.cli.admin_jobs import RUNNING, is_well, told
from gateway.cli.admin_options import HELP, Noun, Options, common, counted, pass_options
from gateway.cli.admin_output import columns
from gateway.cli.admin_subscriptions import subscription_option, subscription_path
from gateway.cli.admin_topics import topic_argument
from semantics.moments import MomentError, iso, moment_ms

STATES = ("open", "replayed", "edited", "discarded", "any")
HEADS = ["id", "state", "died", "reason", "failed", "replays", "key", "value"]
WIDEST = 60

F = TypeVar("F", bound=Callable[..., Any])


@click.group("dead-letters", cls=Noun, context_settings=HELP)
def dead_letters() -> None:
    """Dead letters of a subscription: why they died, and sending them again. pulsar-admin has no such noun.

    A letter is open until it is replayed (with an edit or as it is) or discarded. Letters are named PARTITION:OFFSET
    in their topic, as `list` shows them.
    """


def _filters(command: F) -> F:
    """What chooses letters: all that is said must hold."""
    for option in (
        click.option(
            "--failed-below", "failedBelow", metavar="N", help="Only those that were delivered fewer times."
        ),
        click.option(
            "--until",
            metavar="TIME",
            callback=_moment,
            help="Only those that died before: 2026-01-31T12:00:00Z, 2026-01-31, today, yesterday, or 2h (ago). Of "
            "here unless it says its zone.",
        ),
        click.option("--since", metavar="TIME", callback=_moment, help="Only those that died then or later."),
        click.option("--header", metavar="NAME=VALUE", help="Only those with this header."),
        click.option("--text", metavar="TEXT", help="Only those with this in their value, key or headers."),
        click.option("--key", metavar="KEY", help="Only those with this key."),
        click.option(
            "--reason", metavar="REASON", help="Only those that died so: REJECTED, MAX_DELIVERIES, CORRUPT."
        ),
    ):
        command = option(command)
    return command


def _moment(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """A time as the gateway has it. Raises AdminError."""
    if text is None:
        return None
    try:
        return iso(moment_ms(text, int(time.time() * 1000)), UTC)
    except MomentError as error:
        raise Misused(str(error)) from None


_state = click.option(
    "--state", type=click.Choice(STATES), default="open", show_default=True, help="Only those in this state."
)
_rate = click.option(
    "--rate", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Letters a second."
)
_to = click.option(
    "--to", default="subscription", metavar="WHERE", show_default=True,
    help="subscription: only the one that failed gets them. topic: all on the topic do. Or the name of a topic.",
)  # fmt: skip
_yes = click.option("-y", "--yes", is_flag=True, help="Do it without asking.")
_background = click.option("--background", is_flag=True, help="Do not wait for the end of the job.")
_most = click.option(
    "--max-replays", type=click.IntRange(1), default=3, show_default=True,
    help="Leave out letters that were replayed so often.",
)  # fmt: skip


@dead_letters.command(
    "list",
    epilog="""\b
Examples:
  magnetar-admin dead-letters list orders -s billing
  magnetar-admin dead-letters list orders -s billing --text 'card expired' --state any
  magnetar-admin --output json dead-letters list orders -s billing --limit 1000""",
)
@topic_argument
@subscription_option
@_state
@_filters
@click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most."
)
@click.option("--after", metavar="NEXT", help="Go on behind another page, which says where.")
@common
@pass_options
def list_letters(
    options: Options,
    /,
    topic: str,
    subscription: str,
    state: str,
    limit: int,
    after: str | None,
    **chosen: str | None,
) -> None:
    """List dead letters: when and why they died, how often they were delivered, the beginning of their values."""
    path = _path(topic, subscription, "deadletters")
    query = {"state": state, "limit": str(limit), "after": after or "", **_said(chosen)}
    found: dict[str, Any] = options.client().get(path, **query)
    if options.output == "json":
        options.show(found)
        return
    if found["letters"]:
        click.echo(columns(HEADS, [_cells(each) for each in found["letters"]]))
    sums = ", ".join(f"{count:,} {name}" for name, count in found["counts"].items() if count)
    click.echo(f"{found['topic']}: {sums or 'no letters'}.", err=True)
    if "next" in found:
        click.echo(f"There are more: --after {found['next']}", err=True)


@dead_letters.command(
    epilog="""\b
Examples:
  magnetar-admin dead-letters groups orders -s billing
  magnetar-admin dead-letters groups orders -s billing --by header:tenant
  magnetar-admin dead-letters groups orders -s billing --by 'json:$.order.country'"""
)
@topic_argument
@subscription_option
@click.option(
    "--by", default="reason", show_default=True, metavar="WHAT", help="reason, header:NAME, json:$.a.b"
)
@_state
@_filters
@click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Groups at most."
)
@common
@pass_options
def groups(
    options: Options, /, topic: str, subscription: str, by: str, state: str, limit: int, **chosen: str | None
) -> None:
    """Put dead letters into groups, the largest first, and tell what JSON values most of a group share."""
    path = _path(topic, subscription, "deadletters/groups")
    found = options.client().get(path, by=by, state=state, limit=str(limit), **_said(chosen))
    if options.output == "json":
        options.show(found)
        return
    rows = [
        [
            "-" if each["group"] is None else _short(each["group"]),
            str(each["count"]),
            _time(each["first"]),
            _time(each["last"]),
            each["sample"],
            _short(", ".join(f"{one['path']}={one['value']}" for one in each["common"])),
        ]
        for each in found["groups"]
    ]
    if rows:
        click.echo(columns(["group", "letters", "first", "last", "sample", "in common"], rows))
    if found.get("atLeast"):
        click.echo(
            f"At least: {counted(found['looked'], 'letter')} were looked at, and there are more.", err=True
        )


@dead_letters.command(
    epilog="""\b
Examples:
  magnetar-admin dead-letters replay orders -s billing --reason REJECTED
  magnetar-admin dead-letters replay orders -s billing 0:17 0:18 --yes
  magnetar-admin dead-letters replay orders -s billing --text timeout --rate 500 --background -y
  magnetar-admin dead-letters replay orders -s billing --to topic"""
)
@topic_argument
@click.argument("letters", nargs=-1, metavar="[LETTER]...")
@subscription_option
@_filters
@_to
@_rate
@_most
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@_yes
@_background
@common
@pass_options
def replay(
    options: Options, /, topic: str, letters: tuple[str, ...], subscription: str, to: str, rate: int, max_replays: int,
    dry_run: bool, yes: bool, background: bool, **chosen: str | None,
) -> None:  # fmt: skip
    """Send open dead letters again: all, those named LETTER, or those that the options choose.

    It shows what would happen and asks. The subscription that failed gets them by its RETRY topic, and nobody else. It
    stops by itself when more than 10 % of them die again.
    """
    body = {"filter": _filter(chosen, letters), "to": to, "rate": rate, "maxReplays": max_replays}
    _do(options, topic, subscription, "replay", body, dry_run=dry_run, yes=yes, background=background)


@dead_letters.command(
    epilog="""\b
Examples:
  magnetar-admin dead-letters edit orders 0:17 -s billing --value '{"country": "de"}'
  magnetar-admin dead-letters edit orders 0:17 -s billing --value-file fixed.json --set-header by=ada
  magnetar-admin dead-letters edit orders 0:17 -s billing --remove-header trace --yes"""
)
@topic_argument
@click.argument("letter", metavar="LETTER")
@subscription_option
@click.option("--value", metavar="TEXT", help="The value that it is sent with.")
@click.option(
    "--value-file", type=click.File("rb"), metavar="FILE", help="The same from a file; - is standard input."
)
@click.option("--set-header", multiple=True, metavar="NAME=VALUE", help="A header; may be given again.")
@click.option(
    "--remove-header", multiple=True, metavar="NAME", help="A header to take away; may be given again."
)
@_to
@_most
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@_yes
@common
@pass_options
def edit(
    options: Options, topic: str, letter: str, subscription: str, value: str | None, value_file: Any,
    set_header: tuple[str, ...], remove_header: tuple[str, ...], to: str, max_replays: int, dry_run: bool, yes: bool,
) -> None:  # fmt: skip
    """Send one dead letter again with another value or other headers. The letter stays as it is, and is settled."""
    if value is not None and value_file is not None:
        raise Misused("The value is given by --value or by --value-file, not by both.")
    change: dict[str, Any] = {}
    data = value.encode() if value is not None else value_file.read() if value_file is not None else None
    if data is not None:
        change["value"] = base64.b64encode(data).decode()
    headers: dict[str, str | None] = {**dict.fromkeys(remove_header), **pairs(set_header)}
    if headers:
        change["headers"] = headers
    if not change:
        raise Misused("Say what is other: --value, --value-file, --set-header or --remove-header.")
    body = {"filter": {"ids": [letter]}, "edits": {letter: change}, "to": to, "maxReplays": max_replays}
    _do(options, topic, subscription, "replay", body, dry_run=dry_run, yes=yes, background=False)


@dead_letters.command(
    epilog="""\b
Examples:
  magnetar-admin dead-letters discard orders -s billing 0:17
  magnetar-admin dead-letters discard orders -s billing --until 2026-01-01 --yes"""
)
@topic_argument
@click.argument("letters", nargs=-1, metavar="[LETTER]...")
@subscription_option
@_filters
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@_yes
@_background
@common
@pass_options
def discard(
    options: Options, /, topic: str, letters: tuple[str, ...], subscription: str, dry_run: bool, yes: bool,
    background: bool, **chosen: str | None,
) -> None:  # fmt: skip
    """Settle dead letters that nobody wants: all, those named LETTER, or those that the options choose.

    They are not open any more, and stay in their topic until its retention takes them.
    """
    body = {"filter": _filter(chosen, letters), "rate": 100_000}
    _do(options, topic, subscription, "discard", body, dry_run=dry_run, yes=yes, background=background)


# -- how


def _do(
    options: Options, topic: str, subscription: str, verb: str, body: dict[str, Any],
    *, dry_run: bool, yes: bool, background: bool,
) -> None:  # fmt: skip
    path, client = _path(topic, subscription, verb), options.client()
    seen: dict[str, Any] = client.post(path, {**body, "dryRun": True})
    as_json = options.output == "json"
    if dry_run:
        if as_json:
            options.show(seen)
        else:
            click.echo("\n".join(_preview(verb, seen)))
        return
    if not as_json:
        click.echo("\n".join(_preview(verb, seen)), err=True)
    if not seen["letters"]:
        if as_json:
            options.show(seen)
        return
    if not yes:
        if not sys.stdin.isatty() and as_json:
            raise Misused("Nobody can be asked: look with --dry-run, and say --yes.")
        click.confirm(f"{verb.capitalize()} {counted(seen['letters'], 'letter')}?", abort=True, err=True)
    job: dict[str, Any] = client.post(path, {"plan": seen["plan"], "wait": 0 if background else 1})
    if not background:
        job = _wait(client, job, quiet=as_json)
    if as_json:
        options.show(job)
    else:
        click.echo(told(job))
    if not is_well(job):
        sys.exit(1)


def _wait(client: Client, job: dict[str, Any], *, quiet: bool) -> dict[str, Any]:
    """Until it is over. Ctrl-C leaves it running."""
    try:
        while job["state"] == RUNNING:
            time.sleep(0.5)
            job = client.get(f"magnetar/jobs/{job['id']}")
            if not quiet and sys.stderr.isatty():
                click.echo(f"\r{job['done']:,} of {job['planned']:,}", err=True, nl=False)
    except KeyboardInterrupt:
        click.echo(f"\nJob {job['id']} goes on: magnetar-admin jobs stop {job['id']} ends it.", err=True)
        raise
    return job


def _preview(verb: str, seen: dict[str, Any]) -> list[str]:
    """What would happen, a line each."""
    least = "at least " if seen.get("atLeast") else ""
    lines = [
        f"{least}{counted(seen['letters'], 'letter')} of {counted(seen['keys'], 'key')}, from {seen['from']}"
    ]
    if verb == "discard":
        return lines
    lines[0] += f", to {seen['to']}"
    if seen["edited"]:
        lines.append(f"{seen['edited']:,} of them edited")
    for letter, where in seen.get("brokenJson", {}).items():
        lines.append(f"the value of {letter} was JSON, and edited it is none: {where}")
    if seen["leftOut"]:
        lines.append(
            f"left out: {seen['leftOut']:,} that were replayed {seen['maxReplays']} times already, or that nobody can "
            "read"
        )
    if seen["otherSubscriptions"] is None:
        lines.append("who gets them there is told to who may consume from that topic")
    elif seen["otherSubscriptions"]:
        lines.append(f"others that get them, too: {', '.join(seen['otherSubscriptions'])}")
    if seen["keysWithNewer"]:
        least = "at least " if seen.get("keysWithNewerAtLeast") else ""
        lines.append(
            f"{least}{counted(seen['keysWithNewer'], 'key')} with newer messages in the topic: they come behind these"
        )
    if seen["keysBehindBlocked"]:
        lines.append(f"{counted(seen['keysBehindBlocked'], 'key')} behind a message that is held up")
    if seen.get("members") == 0:
        lines.append(f"nobody reads {seen['to']} at present: they wait there")
    return lines


def _path(topic: str, subscription: str, verb: str) -> str:
    return f"{subscription_path(topic, subscription)}/magnetar/{verb}"


def _said(chosen: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in chosen.items() if value is not None}


def _filter(chosen: dict[str, str | None], letters: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = dict(_said(chosen))
    if "header" in found:
        found["header"] = dict([pair(found["header"], "header")])
    if letters:
        found["ids"] = list(letters)
    return found


def _cells(letter: dict[str, Any]) -> list[str]:
    value = letter["value"]
    return [
        letter["id"],
        letter["state"],
        _time(letter["diedAt"]),
        letter["reason"],
        str(letter["failed"]),
        str(letter["replays"]),
        "-" if letter["key"] is None else _short(letter["key"]),
        "-" if value is None else _short(value),
    ]


def _time(text: str) -> str:
    """To the second."""
    return text[:19] + "Z"


def _short(text: str) -> str:
    """In one line, without what a terminal would take for a command."""
    line = "".join(each if each.isprintable() else "·" for each in text)
    return line if len(line) <= WIDEST else line[: WIDEST - 1] + "…"
