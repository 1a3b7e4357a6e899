"""Plans: what a dry run has shown, and the act that may follow. The act names the plan, and is refused where it would
do something else than was shown.

A plan is for one caller, one verb on one thing, and one request; it holds for five minutes and for one act. Whoever
acts chooses anew: what comes out is compared with the plan. Where that differs by more than one in a hundred the caller
has to look again. Otherwise the act is on what is in both, so nothing is touched that was not shown. An act that is
refused before it has begun gives its plan back; while it has it, no other gets it.

Walks are generators: they stop at each `yield`, so that who drives them may let others have their turn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Hashable, Iterable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from semantics.shares import crowded

HOLDS_MS = 5 * 60_000
MOST_PLANS = 64
"""Of one owner, such as a tenant: above that its own oldest go."""
MOST_IN_ALL = 640
MOST_RUNS = 1_000_000
"""Runs of all plans together: 16 bytes each, and Python's overhead. Above that, and above MOST_IN_ALL, the owner with
most loses its oldest plans."""
CHANGED_PERCENT = 1
STEP = 500
"""Runs between two stops of a walk: some 0.2 ms."""

Run = tuple[int, int]
"""(first, last)"""
_FIRST = itemgetter(0)
Steps = Generator[None, None, "Selection"]


class PlanError(Exception):
    """The act cannot follow from this plan. The text says why, and what to do."""


class Selection:
    """What an act is on: runs of numbers (offsets, say) by part (a partition, say)."""

    __slots__ = ("_count", "_parts", "_runs")

    def __init__(self) -> None:
        self._parts: dict[Hashable, list[Run]] = {}
        self._count = self._runs = 0

    @classmethod
    def of(cls, runs: Iterable[tuple[Hashable, int, int]]) -> Selection:
        """(part, first, last), in each part ascending."""
        selection = cls()
        for part, first, last in runs:
            selection.add(part, first, last)
        return selection

    def add(self, part: Hashable, first: int, last: int) -> None:
        """[first, last] of a part, behind all that was added of it. ValueError if it is not."""
        runs = self._parts.setdefault(part, [])
        if first > last or (runs and first <= runs[-1][1]):
            raise ValueError(f"{first} to {last} does not come behind {runs[-1:]}")
        self._count += last - first + 1
        if runs and runs[-1][1] == first - 1:
            runs[-1] = runs[-1][0], last
        else:
            runs.append((first, last))
            self._runs += 1

    def __len__(self) -> int:
        """How many are chosen."""
        return self._count

    @property
    def size(self) -> int:
        """How many runs they are."""
        return self._runs

    @property
    def parts(self) -> list[Hashable]:
        return list(self._parts)

    def runs(self, part: Hashable) -> list[Run]:
        """What is chosen of a part, ascending."""
        return self._parts.get(part, [])

    def has(self, part: Hashable, number: int) -> bool:
        """Whether a number of a part is chosen."""
        runs = self._parts.get(part, ())
        at = bisect_right(runs, number, key=_FIRST)
        return at > 0 and runs[at - 1][1] >= number

    def __iter__(self) -> Iterator[tuple[Hashable, int, int]]:
        """(part, first, last)"""
        for part, runs in self._parts.items():
            for first, last in runs:
                yield part, first, last


def both(one: Selection, other: Selection) -> Steps:
    """What is in both."""
    found = Selection()
    steps = 0
    for part in one.parts:
        mine, theirs = one.runs(part), other.runs(part)
        here = there = 0
        while here < len(mine) and there < len(theirs):
            first, last = max(mine[here][0], theirs[there][0]), min(mine[here][1], theirs[there][1])
            if first <= last:
                found.add(part, first, last)
            if mine[here][1] < theirs[there][1]:
                here += 1
            else:
                there += 1
            steps += 1
            if steps % STEP == 0:
                yield
    return found


def slices(runs: Iterable[Run], most: int) -> Iterator[list[Run]]:
    """Runs, ascending, in slices of so many numbers each; the last may have fewer."""
    some: list[Run] = []
    room = most
    for first, last in runs:
        while first <= last:
            end = min(last, first + room - 1)
            some.append((first, end))
            room -= end - first + 1
            first = end + 1
            if not room:
                yield some
                some, room = [], most
    if some:
        yield some


class Plan(NamedTuple):
    """What a dry run has shown."""

    id: str
    who: str
    what: Hashable
    """the verb, what it is on (by ids, since a name may be given again), and what was asked: an act that asks for
    something else is another"""
    chosen: Selection
    until: int
    """monotonic ms"""
    request: Any = None
    """what was asked, for an act that need not say it again"""
    owner: Hashable = None
    """whose room it takes"""


class Plans:
    """Those that hold, the oldest first."""

    __slots__ = ("_plans", "_runs", "_taken")

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}
        # ids of those that an act has, of which it is not known yet whether it begins
        self._taken: set[str] = set()
        self._runs = 0

    def __len__(self) -> int:
        return len(self._plans)

    def keep(
        self,
        plan_id: str,
        who: str,
        what: Hashable,
        chosen: Selection,
        now: int,
        request: Any = None,
        owner: Hashable = None,
    ) -> Plan:
        """A dry run was made; `plan_id`: a name that nobody guesses. Those whose time is over go, and where there are
        too many the oldest of an `owner`, who is `who` if nobody else is.
        """
        owner = who if owner is None else owner
        plan = Plan(plan_id, who, what, chosen, now + HOLDS_MS, request, owner)
        self._drop(plan_id)
        self._plans[plan_id] = plan
        self._runs += chosen.size
        for each in list(self._plans.values()):
            if each.until > now:
                break
            self._drop(each.id)
        kept = self._plans.values()
        # the new one stays, however large it is
        for plan_id in crowded(
            [(each.id, each.owner, 1) for each in kept], MOST_PLANS, MOST_IN_ALL, {plan.id}
        ):
            self._drop(plan_id)
        if self._runs > MOST_RUNS:
            sizes = [(each.id, each.owner, each.chosen.size) for each in kept]
            for plan_id in crowded(sizes, MOST_RUNS, MOST_RUNS, {plan.id}):
                self._drop(plan_id)
        return plan

    def take(self, plan_id: str, who: str, what: Hashable, now: int) -> Plan:
        """The plan of an act, for no other from here on: `use_up` or `give_back` ends that. Raises PlanError."""
        plan = self._plans.get(plan_id)
        # whose it is, and what of, is not told to who guesses
        if plan is None or plan.until <= now or plan.who != who:
            raise PlanError(
                f"There is no plan {plan_id[:40]!r}, or no more: a plan holds for {HOLDS_MS // 60_000} minutes and for"
                " one act. Look again (dryRun)."
            )
        if plan.what != what:
            raise PlanError(
                f"The plan {plan_id[:40]} is of something else than this asks for, or of what was made anew since."
                " Look again (dryRun)."
            )
        if plan_id in self._taken:
            raise PlanError(
                f"Another call is carrying out the plan {plan_id[:40]}, and a plan is for one act. Look again (dryRun)."
            )
        self._taken.add(plan_id)
        return plan

    def give_back(self, plan: Plan) -> None:
        """The act that took it has not begun: it holds as long as it would have."""
        self._taken.discard(plan.id)

    def use_up(self, plan: Plan) -> None:
        """The act that took it has begun, or may have."""
        self._taken.discard(plan.id)
        self._drop(plan.id)

    def _drop(self, plan_id: str) -> None:
        plan = self._plans.pop(plan_id, None)
        if plan is not None:
            self._runs -= plan.chosen.size


def follow(plan: Plan, now_chosen: Selection) -> Steps:
    """What the act is on, from what is chosen now: what of it was shown. Raises PlanError where too much changed."""
    common = yield from both(plan.chosen, now_chosen)
    shown, there = len(plan.chosen), len(now_chosen)
    changed = shown + there - 2 * len(common)
    if changed * 100 > CHANGED_PERCENT * shown:
        raise PlanError(
            f"What was shown has changed: {shown - len(common)} of {shown} are not to be found any more, and"
            f" {there - len(common)} have come. Look again (dryRun)."
        )
    return common
