"""What is remembered between calls that look into subscriptions: strips for two seconds, plans for five minutes."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.admin.strips import Strips
from semantics.console.plans import Plans


@dataclass(slots=True)
class Looks:
    """One per admin server."""

    strips: Strips = field(default_factory=Strips)
    plans: Plans = field(default_factory=Plans)
