"""Which line of `magnetar-admin` does what a page does, for the audit. Pure.

The audit has names and no values: what a filter searches, what an edit says and a time are `…` here. Pages show the
whole line.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from gateway.console.lines import topic_word
from semantics.command_line import line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST = 5
"""Ids of messages that are named."""
CUT = "…"
_OF_SUBSCRIPTION = {
    "skip_all": ("topics", "clear-backlog"),
    "resetcursor": ("topics", "reset-cursor"),
    "replay": ("dead-letters", "replay"),
    "discard": ("dead-letters", "discard"),
}


def command_of(method: str, path: Sequence[str], body: object) -> str:
    """The line of a call of the admin API; empty for one that pages do not make."""
    if method == "GET":
        return ""
    said: Mapping[str, Any] = body if isinstance(body, dict) else {}
    match path:
        case ["magnetar", "jobs", number, "stop"]:
            return line("jobs", "stop", number)
        case ["persistent" | "non-persistent", _, _, _, "subscription", name, *verb]:
            return _of_subscription(method, topic_word(*path[:4]), name, verb, said)
        case ["persistent" | "non-persistent", _, _, _]:
            return line("topics", "delete" if method == "DELETE" else "create", topic_word(*path[:4]))
        case ["persistent" | "non-persistent", _, _, _, "partitions"]:
            word = topic_word(*path[:4])
            if method == "DELETE":
                return line("topics", "delete-partitioned-topic", word)
            return line("topics", "create-partitioned-topic", word, "-p", str(body))
    return ""


def _of_subscription(method: str, word: str, name: str, verb: Sequence[str], said: Mapping[str, Any]) -> str:
    if not verb:
        return line("topics", "unsubscribe", word, "-s", name) if method == "DELETE" else ""
    last = verb[1] if verb[0] == "magnetar" and len(verb) > 1 else verb[0]
    if last == "act":
        return _cut(line("subscriptions", "act", str(said.get("do", "")), word, "-s", name), said)
    words = _OF_SUBSCRIPTION.get(last)
    if words is None:
        return ""
    if last == "replay" and isinstance(edits := said.get("edits"), dict) and len(edits) == 1:
        # the verb edits one letter
        return _cut(line("dead-letters", "edit", word, *edits, "-s", name), said)
    if last == "skip_all":
        # up to the ends that were looked at; the line goes as far as there is something
        return line(*words, word, "-s", name)
    return _cut(line(*words, word, "-s", name), said if last != "resetcursor" else {"time": True})


def _cut(start: str, said: Mapping[str, Any]) -> str:
    """With the ids of messages, if they are few; what else was said is not told."""
    ids = said.get("messages")
    if isinstance(ids, list) and len(ids) <= MOST and all(isinstance(each, str) for each in ids):
        return f"{start} {shlex.join([word for each in ids for word in ('-m', each)])}"
    return f"{start} {CUT}" if any(said[each] for each in said if each not in ("do", "dryRun")) else start
