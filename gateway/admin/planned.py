"""An act that may follow from a plan, and when that plan is used up: by an act that has begun, or may have begun.

One that is refused before gives its plan back, for its time: who could not write to a topic, or came while too many
jobs ran, has looked at the same letters as before. While it is not known, no other act gets the plan.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from gateway.admin.exchange import RefusedError
from semantics.console.plans import PlanError, follow
from store.api import Refused

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from gateway.admin.exchange import Call
    from gateway.admin.looks import Looks
    from gateway.admin.slices import Pace
    from gateway.broker.broker import Broker
    from semantics.console.plans import Plan, Selection


class Planned:
    """An act, and how far it has come."""

    __slots__ = ("_begun", "_stored", "plan")

    def __init__(self, plan: Plan | None) -> None:
        self.plan = plan
        self._begun = self._stored = False

    @property
    def plan_id(self) -> str:
        """ "" without a plan."""
        return self.plan.id if self.plan is not None else ""

    async def follow(self, pace: Pace, chosen: Selection) -> Selection:
        """What of it was shown; all of it without a plan. Refuses with 409 where too much has changed."""
        if self.plan is None:
            return chosen
        try:
            return await pace.drive(follow(self.plan, chosen))
        except PlanError as error:
            raise RefusedError(409, str(error)) from None

    def begins(self) -> None:
        """To be called before anything of it goes into the open turn."""
        self._begun = True

    def stored(self) -> None:
        """What went there is durable."""
        self._stored = self._begun

    def is_done(self, error: BaseException | None) -> bool:
        """Whether something of it is done, or may be; `error` has ended it."""
        return self._stored or (self._begun and not isinstance(error, Refused))


@contextmanager
def planned(looks: Looks, broker: Broker, call: Call, plan_id: str, what: Hashable) -> Iterator[Planned]:
    """An act by the plan of this id, which is its own meanwhile; `what` as it was kept. "" is an act without a plan.
    Refuses with 409 where there is none that fits.
    """
    plan = None
    if plan_id:
        try:
            plan = looks.plans.take(plan_id, call.asker.principal, what, broker.clock.monotonic_ms())
        except PlanError as error:
            raise RefusedError(409, str(error)) from None
    act, ended_by = Planned(plan), None
    try:
        yield act
    except BaseException as error:
        ended_by = error
        raise
    finally:
        if plan is not None:
            (looks.plans.use_up if act.is_done(ended_by) else looks.plans.give_back)(plan)
