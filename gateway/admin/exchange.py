"""What comes in and what goes out, without HTTP's machinery: verbs are functions from a Call to a Reply.

The rules are those that stock admin clients of Pulsar hold a server to: writes answer 204 with nothing in it
(a body makes the Java client wait for its time-out), JSON is typed as JSON, bare words are not quoted, an
error is an object with a `reason`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from gateway.admin.asker import EVERYBODY, Asker
from gateway.admin.slices import Pace
from gateway.admin.text import Piece
from semantics.moments import nearest

ROOT = "/admin/v2"
"""Where Pulsar's admin API begins."""
LOOKUP = "/lookup/v2/topic"
"""Where topics are looked up."""

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"


COMMAND, WHY = "X-Magnetar-Command", "X-Magnetar-Why"
"""Headers of a call, for the audit: the line of `magnetar-admin` that it is, and why it is made."""


class Many(NamedTuple):
    """Thousands of things in a tree of dicts, each so many names deep."""

    tree: dict[str, Any]
    depth: int


class Reply(NamedTuple):
    """An answer, ready for the wire."""

    status: int = 204
    body: bytes = b""
    content_type: str | None = None
    headers: Mapping[str, str] = {}
    # a body that is too large to lie in memory whole, instead of `body`
    pieces: Sequence[Piece] = ()
    # what the body was made of, for who asks within this process; not to be changed
    value: object = None
    # of thousands of things each: to be let go in slices, when the answer has left
    many: tuple[Many, ...] = ()
    # whether somebody has looked that no id of a group stands in it which its readers call otherwise
    looked_through: bool = False


DONE = Reply()
"""What every successful write answers."""

RESULT = "X-Magnetar-Result"
"""The header of a write that says in JSON what it did: bodies of writes stay empty."""


def done(**facts: int | str) -> Reply:
    """DONE, with what was done for `magnetar-admin` to tell."""
    return Reply(204, headers={RESULT: msgspec.json.encode(facts).decode()})


class RefusedError(Exception):
    """A call that is not served: an HTTP status and the reason, for a person."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Told:
    """What an act says of itself for the audit, beside what any change has there."""

    __slots__ = ("act", "at", "command", "counts", "via", "why")

    def __init__(self, command: str = "", why: str = "", via: str = "") -> None:
        self.command = command
        self.why = why
        # what made the call for who asks, if something of ours did
        self.via = via
        # when the first record of it went into a commit of the act, in ms since 1970; 0 while none has
        self.at = 0
        # what it is called, if its path does not say that, and what it has done
        self.act = ""
        self.counts: dict[str, int | str] = {}

    def add(self, act: str, counts: Mapping[str, int | str]) -> None:
        """A part of it is done: messages of all parts are counted together."""
        self.act = act
        before = self.counts.get("messages", 0)
        self.counts = {name: fact for name, fact in counts.items() if name != "partition"}
        messages = self.counts.get("messages")
        if isinstance(before, int) and isinstance(messages, int):
            self.counts["messages"] = before + messages


class Call(NamedTuple):
    """A request. `path` holds the segments below `root`, each percent-decoded after the split."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, str] = {}
    body: bytes = b""
    # "host:port" that the client used to come here
    host: str = ""
    # the name of the client's program
    agent: str = ""
    # ROOT, or LOOKUP
    root: str = ROOT
    asker: Asker = EVERYBODY
    told: Told | None = None

    def flag(self, name: str, default: bool = False) -> bool:
        """A query parameter that says true or false. Refuses what is neither with 400."""
        text = self.query.get(name, "").lower()
        if text == "":
            return default
        if text in ("true", "false"):
            return text == "true"
        raise RefusedError(400, f"The parameter {name} is true or false, not {text[:40]!r}.")

    def whole_number(self, name: str, least: int, most: int, default: int = 0) -> int:
        """A query parameter that is a number. Refuses what is none, or beyond these bounds, with 400."""
        text = self.query.get(name, "")
        if text == "":
            return default
        found = whole_number(text, least, most)
        if found is None:
            raise RefusedError(
                400, f"The parameter {name} is a number from {least} to {most}, not {text[:40]!r}."
            )
        return found

    def json(self) -> Any:
        """The body, None when there is none. Refuses what is not JSON with 400."""
        if not self.body.strip():
            return None
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RefusedError(400, f"The body is not JSON: {error}.") from None


_MOST_DIGITS = 19
"""Of 2^63-1: Python takes its time for thousands of them, and raises for more."""


def whole_number(text: str, least: int, most: int) -> int | None:
    """The number that a text is, None where it is none or beyond these bounds."""
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        return None
    found = int(text)
    return found if least <= found <= most else None


def json(value: object) -> Reply:
    """200 with a JSON body."""
    return Reply(200, msgspec.json.encode(value), JSON, value=value)


DRY_RUN = "X-Magnetar-Dry-Run"
"""The header of an answer to what would be a write: nothing was changed, so the audit tells nothing of it."""


def previewed(value: object) -> Reply:
    """200 with a JSON body: what a write would do."""
    return json(value)._replace(headers={DRY_RUN: "true"})


async def json_of_many(value: dict[str, Any], key: str) -> Reply:
    """The same of an answer with thousands of things by name under one key: others have their turn in between."""
    parts = _Parts()
    rest = msgspec.json.encode({name: each for name, each in value.items() if name != key})
    parts.add(rest[:-1] + (b"," if len(rest) > 2 else b"") + msgspec.json.encode(key) + b":")
    await parts.add_each(value[key], 1)
    parts.add(b"}")
    return await parts.reply(value, Many(value[key], 1))


async def json_of_tree(value: dict[str, Any], depth: int) -> Reply:
    """The same of an answer with thousands of things that are so many names deep."""
    parts = _Parts()
    await parts.add_each(value, depth)
    return await parts.reply(value, Many(value, depth))


class _Parts:
    """Of a body: made, looked through and put together while others have their turn in between."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._parts: list[bytes] = []
        self._plain = True

    def add(self, part: bytes) -> None:
        self._parts.append(part)
        self._plain = self._plain and not has_ids(part)

    async def add_each(self, value: dict[str, Any], depth: int) -> None:
        """An object of which each thing, so many names deep, is a part."""
        opens = b"{"
        for name, each in value.items():
            begin = opens + msgspec.json.encode(name) + b":"
            if depth > 1:
                self.add(begin)
                await self.add_each(each, depth - 1)
            else:
                self.add(begin + msgspec.json.encode(each))
            opens = b","
            await self._pace.rest()
        self.add(b"}" if value else b"{}")

    async def reply(self, value: dict[str, Any], many: Many) -> Reply:
        """With `value`, of which they are the parts."""
        await self._pace.rest(0)
        # megabytes: they are copied once, and looked through while they are parts
        body = b"".join(self._parts)
        await self._pace.rest(0)
        return Reply(200, body, JSON, value=value, looked_through=self._plain, many=(many,))


def has_ids(body: bytes) -> bool:
    """Whether there may be ids of groups in it that have their home in front (`semantics.group_names`)."""
    return b"\\u001f" in body or b"\x1f" in body


def text(value: str) -> Reply:
    """200 with a bare word or text."""
    return Reply(200, value.encode(), TEXT)


def refusal(status: int, reason: str) -> Reply:
    """An error as Pulsar's clients read it."""
    return Reply(status, msgspec.json.encode({"reason": reason}), JSON)


def iso(wall_ms: int) -> str:
    """A time, ms since 1970, as JSON shows it: of those that clients say, the nearest that a calendar has."""
    return nearest(wall_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
