"""Who reads lanes by a fetch session (KIP-227), as Java's clients and Sarama do: it names only what has changed.
So whoever forgets to wake such a session has it wait for ever: its next fetch asks for nothing anew.
"""

from __future__ import annotations

import asyncio
from itertools import count
from types import SimpleNamespace
from typing import Any

from gateway.broker.fetching import Fetch
from gateway.peer import Peer
from gateway.promise import Promise
from gateway.wire import delivery as wire
from semantics.subscriptions.hashing import slot_of
from tests.gateway.broker.queues.reading import queue_of
from tests.gateway.broker.subscriptions.world import World

_connections = count(1_000)


async def keys_of(world: World) -> dict[int, bytes]:
    """A key of each lane, under Key_Shared."""
    keyed = world.at().ready()._records.keyed
    assert keyed is not None
    found: dict[int, bytes] = {}
    for number in range(1_000):
        owner = keyed.owner_of(slot_of(b"x%d" % number, None, 0))
        if owner:
            found.setdefault(int(owner.split()[1]), b"x%d" % number)
    return found


class Session:
    """One connection that reads some lanes, all by default, each from its first open delivery. `plain`: without a
    session, as librdkafka's clients do: it names all of them each time.
    """

    def __init__(self, world: World, *lanes: int, plain: bool = False) -> None:
        self.world = world
        self.plain = plain
        self.peer = Peer(next(_connections), "/h", "l")
        at = queue_of(world).at
        self.positions = {lane: at[lane].lane.open for lane in lanes or range(len(at))}
        self.came: dict[int, list[int]] = {lane: [] for lane in self.positions}
        """by lane the numbers that came, in order"""
        self._changed = dict(self.positions)
        self._id = self._epoch = 0

    def close(self) -> None:
        """The connection is gone."""
        self.world.broker.fetch_sessions.connection_lost(self.peer.connection)

    async def read(self, *, forget: int | None = None) -> None:
        """Fetch until nothing has come a few times. It does not read the lane that it forgets any more."""
        still = 0
        while still < 4:
            still = 0 if await self.fetch(forget) else still + 1
            forget = None

    async def fetch(self, forget: int | None = None) -> bool:
        """Once; whether something came."""
        if forget is not None:
            del self.positions[forget]
        named = self.positions if self.plain else self._changed
        asked = [(lane, -1, offset, 1 << 20) for lane, offset in named.items()]
        self._changed = {}
        name = b"t-g-QUEUE"
        request = SimpleNamespace(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=50 << 20,
            session_id=self._id,
            session_epoch=-1 if self.plain else self._epoch,
            isolation=0,
            topics=[(name, asked)] if asked else [],
            forgotten=[] if forget is None else [(name, [forget])],
        )
        fetch = Fetch(self.world.broker, self.peer, request, False, lambda *told: told)
        error, self._id, told = await self._answer(fetch)
        assert error == 0
        self._epoch += 1
        came = False
        for _, lanes in told:
            for lane, code, _, _, _, buffers, size, _ in lanes:
                assert code == 0
                if size:
                    self._take(lane, b"".join(map(bytes, buffers)))
                    came = True
        return came

    async def _answer(self, fetch: Fetch) -> Any:
        """What comes soon; else what there is when its time is over."""
        found: Any = fetch.start()
        for _ in range(2):
            await self.world.settled()
            await asyncio.sleep(0)
        if isinstance(found, Promise):
            told: list[Any] = []
            found.then(told.append)
            if not told:
                fetch.expire()
            (found,) = told
        return await found if hasattr(found, "__await__") else found

    def _take(self, lane: int, data: bytes) -> None:
        for buffer, position, header in wire.headers_of([data]):
            if header.count:
                batch = bytes(buffer[position : position + header.size])
                records = wire.records_at(batch, [(header.base_offset, header.last_offset)])
                self.came[lane] += [int(each.value or b"-1") for each in records]
            self.positions[lane] = self._changed[lane] = header.last_offset + 1

    async def commit(self, lane: int, metadata: str = "") -> None:
        """All that came on a lane."""
        queue_of(self.world).commit(lane, self.positions[lane], metadata, member=True)
        await self.world.settled()
