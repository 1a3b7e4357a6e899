"""What runs against the gateway while it is killed: each module makes loads of one kind.

A new kind is a module with `loads(world)`, and its name in `KINDS`. A load runs by itself from `start` to `finish`,
through any number of kills, and takes part in each check by three calls.
"""

from __future__ import annotations

import asyncio
import importlib
import random
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.proofs.soak.admin import Admin
from tests.proofs.soak.oracle import Oracle, Place, Producer
from tests.proofs.soak.wire import Wire

KINDS = (
    "produce",
    "produce_python",
    "groups",
    "commits",
    "topics",
    "trims",
    "shares",
    "shares_librdkafka",
    "share_comings",
    "lanes",
    "transactions",
    "late",
    "ring",
    "compacted",
    "acked",
    "lane_acks",
    "policy_desk",
    "policy_till",
    "policy_names",
)
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "orders": (4, {"internal.segment.bytes": "200000"}),
    "steady": (3, {"internal.segment.bytes": "700000", "durability": "fsync"}),
    "bulk": (2, {"internal.segment.bytes": "100000", "compression.type": "lz4"}),
}
"""Segments are small so that they roll and go all the time; the last one's batches are compressed anew."""


@dataclass
class World:
    """What loads share. Everything that clients were told goes into deques, which the check empties."""

    port: int
    seed: int
    admin_port: int = 0
    # what has gone wrong with a client that should have gone on by itself
    failures: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    # the run has failed and the gateway is gone: nobody waits for acknowledgements any more
    abandoned: bool = False
    producers: dict[int, Producer] = field(default_factory=dict)
    # DeleteRecords may go up to here: read, compared, and committed by all groups
    may_trim: dict[Place, int] = field(default_factory=dict)

    # port of the proxy that holds requests back, and how many it gave late, by API
    proxy_port: int = 0
    late: Counter[str] = field(default_factory=Counter)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def admin(self) -> Admin:
        """A connection to the admin API; it is made with the first request."""
        return Admin("127.0.0.1", self.admin_port)

    def places(self) -> list[Place]:
        return [(name, each) for name, (count, _) in TOPICS.items() for each in range(count)]

    def chance(self, name: str) -> random.Random:
        return random.Random(f"{self.seed} {name}")


class Load:
    """One client or a few that belong together, in a thread of its own."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.chance = world.chance(name)
        # grows with everything that was acknowledged
        self.moved = 0
        self._thread = threading.Thread(target=self._guarded, name=f"soak-{name}", daemon=True)

    def prepare(self) -> None:
        """Make what it needs, before anybody starts."""

    def start(self) -> None:
        self._thread.start()

    def run(self) -> None:
        """The thread, until `world.stop`. Raises what no client should raise."""
        raise NotImplementedError

    def finish(self, timeout: float) -> None:
        """Wait for the thread's end; `world.stop` is set."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            self.fail("did not end in time")

    def let_go(self, timeout: float) -> None:
        """The run is over, well or not: do not leave threads behind."""
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def fail(self, text: str) -> None:
        if len(self.world.failures) < 100:
            self.world.failures.append(f"{self.name}: {text}")

    def _guarded(self) -> None:
        try:
            self.run()
        except Exception:
            if not self.world.abandoned:
                self.fail(traceback.format_exc())

    # the check, in this order; the gateway is up

    def tell(self, oracle: Oracle) -> None:
        """Hand over what clients were told so far. Nothing was asked yet."""

    def asked(self, oracle: Oracle) -> None:
        """The logs' offsets were asked for: hand over what clients had wanted by now."""

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        """Ask for what this load alone knows about."""

    def trimmable(self, place: Place) -> int | None:
        """What this load still needs begins here; None when it does not care."""
        return None


async def unless_abandoned(world: World, work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine; a client that waits for a gateway that does not come again is cancelled."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.wait([task], timeout=0.1)
        if world.abandoned:
            task.cancel()
            return
    await task


Acked = deque[tuple[Place, int, int, int]]
"""(place, offset, producer, sequence)"""


def hand_over(
    queue: deque[tuple[Place, int, int, int]], take: Callable[[Place, int, int, int], None]
) -> None:
    """Empty a deque that other threads fill."""
    for _ in range(len(queue)):
        take(*queue.popleft())


def all_loads(world: World, kinds: Sequence[str] = KINDS) -> list[Load]:
    found: list[Load] = []
    for kind in kinds:
        found += importlib.import_module(f"tests.proofs.soak.loads.{kind}").loads(world)
    return found
