"""Who changed what, who was refused, who came in: one line of log each, and the last of them in memory.

A line says names and never values: of a config its name, of a user its name, of a request's body nothing. What clients
say is cut and freed of control characters before anybody else has it.

Each kind has a budget of lines a second, and a ring of its own: a flood of refused logins neither hides a change nor
pushes it out. In each, a tenant (or a user of none) has a share: what one does in a flood hides nobody else's.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from semantics.group_names import in_text

log = logging.getLogger("magnetar.audit")

KEPT = 1_000
"""Entries of each kind that are kept in memory."""
LONGEST = 256
"""Characters of a text."""
SEEN = 10_000
"""Logins, and refusals and what is routine, that are known to have been told; beyond that all are told again."""
AGAIN_SECONDS = 60.0
"""After so long the same refusal is told again, and the same change that is routine."""
OWNERS = 1_000
"""Tenants and users whose budgets are known at once."""
TOGETHER = 10
"""How often the budget of one all of them have together."""


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
    """entries of this kind and this tenant that were left out before this one"""
    repeats: int = 0
    """how often the same was refused, or done, since it was told last"""
    act: str = ""
    """what it is called, where neither `what` nor `target` says that"""
    counts: dict[str, int | str] = {}
    """what was done, in numbers"""
    command: str = ""
    """the line of magnetar-admin that does the same, as who asked says"""
    via: str = ""
    """console, of what was done on a page"""


class Did(NamedTuple):
    """What is known of a change beside its name and its place: see `Entry`."""

    act: str = ""
    counts: Mapping[str, int | str] = MappingProxyType({})
    command: str = ""
    via: str = ""


NOTHING = Did()


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


class _Budgets:
    """Lines of one kind: each owner has a budget, and all have one together."""

    __slots__ = ("_all", "_by", "_forgotten", "_most")

    def __init__(self, most: int, now: float) -> None:
        self._most = most
        self._all = _Budget(most * TOGETHER, now)
        self._by: dict[str, _Budget] = {}
        # left out, of owners that are not known any more
        self._forgotten = 0

    def take(self, owner: str, now: float) -> int | None:
        """How many lines of this owner were left out before this one; None where this one is."""
        budget = self._by.get(owner)
        if budget is None:
            if len(self._by) >= OWNERS:
                self._forgotten += sum(each.left_out for each in self._by.values())
                self._by.clear()
            budget = self._by[owner] = _Budget(self._most, now)
        if not budget.take(now):
            return None
        if not self._all.take(now):
            budget.left_out += 1
            return None
        left_out, budget.left_out = budget.left_out, 0
        return left_out

    def left_out(self) -> int:
        """How many were, since this was asked or told with a line."""
        count, self._forgotten = self._forgotten, 0
        for budget in self._by.values():
            count += budget.left_out
            budget.left_out = 0
        return count


class _Ring:
    """The last entries of one kind. Where there is no room, the oldest of the owner with most of them goes."""

    __slots__ = ("_by", "_count")

    def __init__(self) -> None:
        self._by: dict[str, deque[Entry]] = {}
        self._count = 0

    def __iter__(self) -> Iterator[Entry]:
        return chain.from_iterable(self._by.values())

    def append(self, owner: str, entry: Entry) -> None:
        self._by.setdefault(owner, deque()).append(entry)
        self._count += 1
        if self._count > KEPT:
            # of several with as many, the one whose oldest is the oldest
            most = max(self._by, key=lambda each: (len(self._by[each]), -self._by[each][0].number))
            entries = self._by[most]
            entries.popleft()
            self._count -= 1
            if not entries:
                del self._by[most]


class Audit:
    """Of one gateway."""

    def __init__(self, most: int, wall_ms: Callable[[], int], monotonic: Callable[[], float]) -> None:
        """`most`: entries of each kind in a second of one owner. The clocks tell ms since 1970, and seconds."""
        self._wall_ms = wall_ms
        self._monotonic = monotonic
        self._number = 0
        self._budgets = {kind: _Budgets(most, monotonic()) for kind in Kind}
        self._kept = {kind: _Ring() for kind in Kind}
        self._seen: set[tuple[str, str, str, str]] = set()
        # when a refusal, or what is routine, was told, and how often it came since
        self._lately: dict[tuple[str, ...], tuple[float, int]] = {}

    # -- what happens -----------------------------------------------------------------------------------------------

    def change(
        self,
        what: str,
        who: str,
        host: str,
        over: str,
        outcome: str = "done",
        target: str = "",
        at: int = 0,
        did: Did = NOTHING,
    ) -> Entry | None:
        """Somebody has changed something, or tried to. What is told; None where there are too many. `at`: when that
        was, in ms since 1970, if it was not now. `did`: what more is known.
        """
        return self._tell(Kind.CHANGE, what, who, host, over, outcome, target, at=at, did=did)

    def refused(
        self, what: str, who: str, host: str, over: str, target: str = "", why: str = "not allowed"
    ) -> Entry | None:
        """Somebody may not do what it asked for, or cannot. Clients ask again and again: the same is told once in a
        while. What is told; None where it was lately, or where there are too many.
        """
        return self._once_in_a_while(Kind.REFUSED, what, who, host, over, why, target)

    def routine(
        self, what: str, who: str, host: str, over: str, outcome: str = "done", target: str = ""
    ) -> None:
        """A change that some clients make all day: the same is told once in a while."""
        self._once_in_a_while(Kind.CHANGE, what, who, host, over, outcome, target)

    def _once_in_a_while(
        self,
        kind: Kind,
        what: str,
        who: str,
        host: str,
        over: str,
        outcome: str,
        target: str,
        message: str = "",
        owner: str | None = None,
    ) -> Entry | None:
        """`message`, `owner`: as in `_tell`."""
        key = what, who, host, target, outcome
        before, now = self._lately.get(key), self._monotonic()
        at, repeats = before if before is not None else (now, 0)
        told = None
        if before is None or now - at >= AGAIN_SECONDS:
            told = self._tell(kind, what, who, host, over, outcome, target, repeats, message, owner)
        if told is not None:
            if before is None and len(self._lately) >= SEEN:
                self._lately.clear()
            self._lately[key] = now, 0
        elif before is not None:
            self._lately[key] = at, repeats + 1
        return told

    def login(self, who: str, host: str, over: str, mechanism: str) -> None:
        """Somebody came in. Told the first time that this one comes from there so."""
        key = who, host, over, mechanism
        if key in self._seen:
            return
        if self._tell(Kind.LOGIN, mechanism, who, host, over, "done", ""):
            if len(self._seen) >= SEEN:
                self._seen.clear()
            self._seen.add(key)

    def login_refused(self, who: str, host: str, over: str, mechanism: str, why: str) -> None:
        """Somebody did not come in. `who` is what it says, "" where it says nothing. Clients try again and again with a
        password that is wrong: the same is told once in a while.
        """
        # anybody may say any name: all of these are one owner's
        what = f"login by {mechanism}"
        self._once_in_a_while(Kind.REFUSED, what, who, host, over, why, "", "a login failed", "")

    # -- what is known ----------------------------------------------------------------------------------------------

    def last(self, most: int, kind: Kind | None = None) -> list[Entry]:
        """The last entries, the newest first: of one kind, or of all."""
        kept = (each for of in ([kind] if kind is not None else Kind) for each in self._kept[of])
        return sorted(kept, key=lambda entry: -entry.number)[:most]

    def tell_left_out(self) -> None:
        """Say how many entries were left out since they were told last: to be called once a second."""
        for kind, budgets in self._budgets.items():
            left_out = budgets.left_out()
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
        owner: str | None = None,
        at: int = 0,
        did: Did = NOTHING,
    ) -> Entry | None:
        """What is told; None where it was left out. `message`: what the line begins with, if not with its kind.
        `owner`: whose it is, if not of who did it.
        """
        owner = owner_of(who) if owner is None else owner
        left_out = self._budgets[kind].take(owner, self._monotonic())
        if left_out is None:
            return None
        self._number += 1
        entry = Entry(
            self._number,
            at or self._wall_ms(),
            kind,
            clean(what),
            clean(who),
            clean(host),
            over,
            clean(outcome),
            clean(target),
            left_out,
            repeats,
            did.act,
            {name: clean(fact) if isinstance(fact, str) else fact for name, fact in did.counts.items()},
            did.command,
            did.via,
        )
        self._kept[kind].append(owner, entry)
        level = logging.WARNING if kind is Kind.REFUSED else logging.INFO
        said = {
            "what": entry.what,
            "who": entry.who,
            "host": entry.host,
            "over": over,
            "outcome": entry.outcome,
            "target": entry.target,
            "act": did.act,
            "via": did.via,
            "left_out": left_out,
            "repeats": repeats,
        }
        log.log(
            level, "%s", message or kind.value, extra={name: value for name, value in said.items() if value}
        )
        return entry


def owner_of(principal: str) -> str:
    """Whose share what a principal does is of: its tenant's, which the names of a tenant's users begin with."""
    return principal.partition(".")[0][:LONGEST]


def clean(text: str) -> str:
    """On one line, printable, and not long."""
    text = in_text(text[: LONGEST + 1])
    if not text.isprintable():
        text = "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
