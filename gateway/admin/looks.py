"""What is remembered between calls that look into subscriptions: strips for two seconds, plans for five minutes."""

from __future__ import annotations

import secrets
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gateway.admin.strips import Strips
from gateway.audit import owner_of
from semantics.console.plans import Plans

if TYPE_CHECKING:
    from gateway.admin.exchange import Call
    from gateway.broker.broker import Broker
    from semantics.console.plans import Selection


@dataclass(slots=True)
class Looks:
    """One per admin server."""

    strips: Strips = field(default_factory=Strips)
    plans: Plans = field(default_factory=Plans)

    def keep(self, broker: Broker, call: Call, what: Hashable, chosen: Selection, request: Any = None) -> str:
        """The plan of a dry run, for who made it: its id, which nobody guesses."""
        plan_id = secrets.token_hex(8)
        now = broker.clock.monotonic_ms()
        principal = call.asker.principal
        self.plans.keep(plan_id, principal, what, chosen, now, request, owner_of(principal))
        return plan_id
