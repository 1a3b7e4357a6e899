"""A Produce of which some batches wait for a backlog to become smaller (`gateway/broker/held_back.py`).

What of it has room is taken at once. The rest is tried again, in the order in which it came, until it is taken, its
time is over, or something else comes behind it on its connection: then it is told to come again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gateway.apis.produce_slots import Client, ProduceSlot, check_write, debt, refusal, take
from gateway.apis.reach import finder
from gateway.broker.errors import KafkaError, from_store
from gateway.broker.loading import Loading
from gateway.broker.preparing import Prepared
from gateway.broker.quota_gate import HeldError, OutOfTurnError, Unmeasured
from gateway.wire import produce as wire
from gateway.wire.batch import BatchError, header
from gateway.wire.produce_one import BY_ID
from store.api import Outcome

if TYPE_CHECKING:
    from gateway.broker.broker import Broker

WAITS = 0.9
"""Of the time that a request gives for its answer, as much a batch may wait for a backlog."""

MOST_HELD_MS = 120_000
"""And so long at most: a client may give its answer 24 days, and be gone without a word. So long Kafka's producers try
to send a record, if nothing else is said (`delivery.timeout.ms`)."""

HELD_BYTES = 4_000
"""What a request that waits takes besides its own bytes."""

HeldPlace = tuple[bytes, int]
"""A topic's id and a partition of it."""


def told_to_come_again(broker: Broker, place: HeldPlace, batch: bytes) -> None:
    """A batch is refused for want of room: those that its producer has sent behind it must not overtake it."""
    broker.refusals.note(*place, header(batch))


Where = tuple[int, int]
"""Of an answer's topics which, and of this topic's partitions which."""


class HeldBatch(NamedTuple):
    """A batch that waits for a backlog."""

    place: HeldPlace
    batch: bytes
    prepared: Prepared | None
    where: Where
    error: KafkaError
    """what it is told when it has waited for too long"""


class _Stored:
    """Batches of a held request that were taken in one turn: told when its commit is over."""

    __slots__ = ("_slot", "_where")

    def __init__(self, slot: HeldSlot, where: list[Where]) -> None:
        self._slot = slot
        self._where = where

    def settle(self, outcome: Outcome) -> None:
        self._slot.stored(self._where, outcome)


class HeldSlot(ProduceSlot):
    """A Produce of which some batches wait for a backlog to become smaller: the rest of it is taken already. Its answer
    leaves when none waits any more and all commits are over that anything of it was in.
    """

    __slots__ = ("_awaited", "_broker", "_held", "_request", "_throttled_until", "deadline")

    def __init__(
        self,
        broker: Broker,
        connection: Client,
        version: int,
        correlation_id: int,
        request: wire.ProduceRequest,
        results: list[wire.TopicResult],
        held: list[HeldBatch],
        stored: list[Where],
        size: int,
        throttle_ms: int,
    ) -> None:
        """`results` has a refusal for each that is held; `stored` are in the open turn, and for `throttle_ms` their
        rates have the connection wait.
        """
        super().__init__(connection, version, correlation_id, b"", results, size)
        self._broker = broker
        self._request = request
        self._held = held
        # commits that are not over
        self._awaited = 0
        # monotonic ms: what the rates say of all that was taken
        self._throttled_until = broker.clock.monotonic_ms() + throttle_ms
        # a client must not give up the connection before it hears of it
        self.deadline = broker.clock.monotonic_ms() + min(int(request.timeout_ms * WAITS), MOST_HELD_MS)
        broker.preparing_bytes += size + HELD_BYTES
        broker.metrics.produced_held.value += 1
        broker.held_back.add(self)
        if stored:
            self._await(stored)

    @property
    def places(self) -> list[HeldPlace]:
        """What it still waits for."""
        return [each.place for each in self._held]

    def go_on(self, place: HeldPlace) -> bool:
        """See `held_back.Item`."""
        broker = self._broker
        number, each = next((n, each) for n, each in enumerate(self._held) if each.place == place)
        runtime = broker.topic_by_id(place[0])
        index = place[1]
        now = broker.clock.wall_ms()
        stored: list[Where] = []
        rights = self._connection.peer.rights
        try:
            if rights.checked:
                check_write(rights, runtime)
            found = take(
                broker,
                self._request,
                self._version,
                runtime,
                index,
                each.batch,
                now,
                each.prepared,
                self._connection.publishing,
                waited=True,
            )
            stored.append(each.where)
            self._throttle(debt(broker, runtime, index))
        except OutOfTurnError as error:
            found = refusal(index, error)
        except HeldError as error:
            # without its traceback, which keeps in memory what was looked at before
            self._held[number] = each._replace(error=error.with_traceback(None))
            return False
        except (Unmeasured, Loading):
            return False
        except KafkaError as error:
            found = refusal(index, error)
        except BatchError as error:
            found = (index, int(error.code), -1, -1, -1, (), str(error))
        self._tell(each.where, found)
        self._held.remove(each)
        self._over([place], stored)
        return True

    def give_up(self) -> None:
        """See `held_back.Item`. What the same client sent behind it for one of these partitions gives up as well."""
        held = list(self._held)
        if not held:
            return
        places = set(self.places)
        for later in self._connection.held_behind(self):
            if not places.isdisjoint(later.places):
                later.give_up()
        for each in held:
            told_to_come_again(self._broker, each.place, each.batch)
            self._tell(each.where, refusal(each.place[1], each.error))
        self._held.clear()
        self._over([each.place for each in held], [])

    def _over(self, places: list[HeldPlace], stored: list[Where]) -> None:
        """It waits no longer for these, of which some were taken."""
        self._broker.held_back.over(self, places)
        if stored or not self._held:
            # the answer leaves behind a commit in any case
            self._await(stored)
        if not self._held:
            self._broker.preparing_bytes -= self.size + HELD_BYTES

    def _await(self, stored: list[Where]) -> None:
        self._awaited += 1
        self._broker.turn.await_commit(_Stored(self, stored))

    def stored(self, where: list[Where], outcome: Outcome) -> None:
        """A commit is over that these were in."""
        if outcome is not None:
            error = from_store(outcome)
            for each in where:
                name, partitions = self._request.topics[each[0]]
                index, batch = partitions[each[1]]
                self._tell(each, refusal(index, error))
                runtime = finder(self._broker, self._connection.peer, by_id=self._version >= BY_ID)(name)
                if runtime is not None and batch is not None:
                    told_to_come_again(self._broker, (runtime.topic_id, index), batch)
        self._awaited -= 1
        if not self._awaited and not self._held:
            assert isinstance(self._results, list)
            left = max(0, self._throttled_until - self._broker.clock.monotonic_ms())
            self._broker.metrics.produced_throttled.value += left > 0
            self.payload = wire.encode(self._version, self._correlation_id, self._results, left)
            self._connection.held_no_longer(self)
            self.settle(None)

    def _throttle(self, ms: int) -> None:
        """A rate was exceeded: the connection is not read from now on, and the answer says what is left of that."""
        if ms:
            self._throttled_until = max(self._throttled_until, self._broker.clock.monotonic_ms() + ms)
            self._connection.throttle(ms)

    def _tell(self, where: Where, found: wire.PartitionResult) -> None:
        results = self._results
        assert isinstance(results, list)
        results[where[0]][1][where[1]] = found
