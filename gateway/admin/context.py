"""What the verbs work with: the broker, the rates of the last minute, and where this server is reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.admin.batch_times import BatchTimes
from gateway.admin.fair_turns import FairLock
from gateway.admin.kept_policies import KeptPolicies
from gateway.admin.looks import Looks
from gateway.admin.schemas import Schemas
from gateway.admin.sums import Sums
from gateway.payloads.decoders import Decoders

if TYPE_CHECKING:
    from gateway.admin.rates import Rates
    from gateway.admin.recent import Recent
    from gateway.broker.broker import Broker

CLUSTER = "standalone"
"""The one cluster's name, as Pulsar calls a node of its own: scripts written against that keep working."""


@dataclass(slots=True)
class Context:
    """One per admin server."""

    broker: Broker
    rates: Rates
    recent: Recent
    # "host:port" of this server, without a scheme
    address: str
    # None while the gateway takes traffic, else the reason why not, for a person
    not_ready: Callable[[], str | None]
    # whether it is reached by https
    tls: bool = False
    # whether there are web pages beside the API
    pages: bool = False
    batch_times: BatchTimes = field(default_factory=BatchTimes)
    kept_policies: KeptPolicies = field(default_factory=KeptPolicies)
    looks: Looks = field(default_factory=Looks)
    schemas: Schemas = field(default_factory=Schemas)
    decoders: Decoders = field(default_factory=Decoders)
    # held by who goes through records
    browsing: FairLock = field(default_factory=FairLock)
    # held by who has payloads decoded
    decoding: FairLock = field(default_factory=FairLock)
    sums: Sums = field(init=False)

    def __post_init__(self) -> None:
        self.sums = Sums(self.broker)
        self.broker.topics.followed_by.append(self.schemas.follow)

    def url(self, host: str) -> str:
        """Of this server, by the `host:port` that the client came by, or "" for its own."""
        return f"{'https' if self.tls else 'http'}://{host or self.address}"

    @property
    def of_tls(self) -> str:
        """What the names of URLs end with in Pulsar's answers, where they are https."""
        return "Tls" if self.tls else ""
