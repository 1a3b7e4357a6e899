"""Who changed what, who was refused, who came in: one line of log each, and the last of them in memory.

A line says names and never values: of a config its name, of a user its name, of a request's body nothing. What clients
say is cut and freed of control characters before anybody else has it.

Each kind has a budget of lines a second, and a ring of its own: a flood of refused logins neither hides a change nor
pushes it out.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import StrEnum

import msgspec

from semantics.group_names import in_text

log = logging.getLogger("magnetar.audit")

KEPT = 1_000
"""Entries of each kind that are kept in memory."""
LONGEST = 256
"""Characters of a text."""
SEEN = 10_000
"""Logins, and refusals, that are known to have been told; beyond that all are told again."""
AGAIN_SECONDS = 60.0
"""After so long the same refusal is told again."""


class Kind(StrEnum):
    CHANGE = "change"
    REFUSED = "refused"
    LOGIN = "login"


class Entry(msgspec.Struct, rename="camel", omit_defaults=True):
    """What happened."""

    number: int
    """ascending; entries that were left out have none"""
    time: int
    """ms since 1970"""
    kind: Kind
    what: str
    """an API, a method and a path, or a mechanism"""
    who: str
    host: str
    over: str
    """http, or kafka"""
    outcome: str = ""
    """of a change: done, or what went wrong; of what was refused: why"""
    target: str = ""
    """what it was about"""
    left_out: int = 0
    """entries of this kind that were left out before this one"""
    repeats: int = 0
    """how often the same was refused since it was told last"""


class _Budget:
    """Lines of one kind: so many a second, and as many at once."""

    __slots__ = ("_at", "_most", "_room", "left_out")

    def __init__(self, most: int, now: float) -> None:
        self._most = most
        self._room = float(most)
        self._at = now
        self.left_out = 0

    def take(self, now: float) -> bool:
        self._room = min(self._room + (now - self._at) * self._most, float(self._most))
        self._at = now
        if self._room < 1:
            self.left_out += 1
            return False
        self._room -= 1
        return True


class Audit:
    """Of one gateway."""

    def __init__(self, most: int, wall_ms: Callable[[], int], monotonic: Callable[[], float]) -> None:
        """`most`: entries of each kind in a second. The clocks tell ms since 1970, and seconds."""
        self._wall_ms = wall_ms
        self._monotonic = monotonic
        self._number = 0
        self._budgets = {kind: _Budget(most, monotonic()) for kind in Kind}
        self._kept: dict[Kind, deque[Entry]] = {kind: deque(maxlen=KEPT) for kind in Kind}
        self._seen: set[tuple[str, str, str, str]] = set()
        # when a refusal was told, and how often it came since
        self._refused: dict[tuple[str, str, str, str], tuple[float, int]] = {}

    # -- what happens -----------------------------------------------------------------------------------------------

    def change(
        self, what: str, who: str, host: str, over: str, outcome: str = "done", target: str = ""
    ) -> None:
        """Somebody has changed something, or tried to."""
        self._tell(Kind.CHANGE, what, who, host, over, outcome, target)

    def refused(self, what: str, who: str, host: str, over: str, target: str = "") -> None:
        """Somebody may not do what it asked for. Clients ask again and again: the same is told once in a while."""
        key, now = (what, who, host, target), self._monotonic()
        before = self._refused.get(key)
        if before is not None and now - before[0] < AGAIN_SECONDS:
            self._refused[key] = before[0], before[1] + 1
            return
        if before is None and len(self._refused) >= SEEN:
            self._refused.clear()
        self._refused[key] = now, 0
        repeats = before[1] if before is not None else 0
        self._tell(Kind.REFUSED, what, who, host, over, "not allowed", target, repeats)

    def login(self, who: str, host: str, over: str, mechanism: str) -> None:
        """Somebody came in. Told the first time that this one comes from there so."""
        key = who, host, over, mechanism
        if key in self._seen:
            return
        if len(self._seen) >= SEEN:
            self._seen.clear()
        self._seen.add(key)
        self._tell(Kind.LOGIN, mechanism, who, host, over, "done", "")

    def login_refused(self, who: str, host: str, over: str, mechanism: str, why: str) -> None:
        """Somebody did not come in. `who` is what it says, "" where it says nothing."""
        self._tell(Kind.REFUSED, f"login by {mechanism}", who, host, over, why, "", message="a login failed")

    # -- what is known ----------------------------------------------------------------------------------------------

    def last(self, most: int, kind: Kind | None = None) -> list[Entry]:
        """The last entries, the newest first: of one kind, or of all."""
        kept = (each for of in ([kind] if kind is not None else Kind) for each in self._kept[of])
        return sorted(kept, key=lambda entry: -entry.number)[:most]

    def tell_left_out(self) -> None:
        """Say how many entries were left out since they were told last: to be called once a second."""
        for kind, budget in self._budgets.items():
            left_out, budget.left_out = budget.left_out, 0
            if left_out:
                log.warning("left out", extra={"kind": kind.value, "left_out": left_out})

    def _tell(
        self,
        kind: Kind,
        what: str,
        who: str,
        host: str,
        over: str,
        outcome: str,
        target: str,
        repeats: int = 0,
        message: str = "",
    ) -> None:
        """`message`: what the line begins with, if not with its kind."""
        budget = self._budgets[kind]
        if not budget.take(self._monotonic()):
            return
        left_out, budget.left_out = budget.left_out, 0
        self._number += 1
        entry = Entry(
            self._number,
            self._wall_ms(),
            kind,
            clean(what),
            clean(who),
            clean(host),
            over,
            clean(outcome),
            clean(target),
            left_out,
            repeats,
        )
        self._kept[kind].append(entry)
        level = logging.WARNING if kind is Kind.REFUSED else logging.INFO
        said = {
            "what": entry.what,
            "who": entry.who,
            "host": entry.host,
            "over": over,
            "outcome": entry.outcome,
            "target": entry.target,
            "left_out": left_out,
            "repeats": repeats,
        }
        log.log(
            level, "%s", message or kind.value, extra={name: value for name, value in said.items() if value}
        )


def clean(text: str) -> str:
    """On one line, printable, and not long."""
    text = in_text(text[: LONGEST + 1])
    if not text.isprintable():
        text = "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
