"""A delivery leaves when what it follows from is stored: a nack that it counts, the end of its key's record before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from gateway.broker.requests import Answer
from gateway.broker.sharing import ShareFetch
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from store.api import StoreError
from store.pending import Pending
from tests.gateway.broker.held import Clock, HeldStore, run_held, until
from tests.gateway.broker.share_asking import (
    ACCEPT,
    FOR_LONG,
    RELEASE,
    ack_errors,
    acquired,
    alter_group,
    parked,
    serving,
    share_acknowledge_body,
    share_fetch,
    share_fetch_body,
    topic,
)
from tests.gateway.broker.subscriptions.disk import Disk
from tests.gateway.serving import Client, batch, produce_body


def test_a_count_is_told_when_it_is_stored() -> None:
    """Whoever saw a count never sees a lower one, also when the gateway dies between."""

    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic_id = await topic(gateway, client, 1)
        other = await Client.connect(gateway)
        await share_fetch(other, "n", 0, topic_id, [0])
        await share_fetch(client, "m", 0, topic_id, [0])
        store.holding = True
        # what it holds counts one delivery
        other.close()
        await store.has(1)
        asked = asyncio.create_task(share_fetch(client, "m", 1, topic_id, [0]))
        await store.has(2)
        assert not asked.done()
        store.release()
        assert acquired(await asked) == {0: {0: 2}}

    run_held(test)


def test_a_parked_fetch_that_a_nack_wakes_is_told_when_that_is_stored() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic_id = await topic(gateway, client, 1)
        other = await Client.connect(gateway)
        await share_fetch(other, "n", 0, topic_id, [0])
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 0, topic_id, [0], max_wait=FOR_LONG))
        await parked(gateway)
        store.holding = True
        other.send(
            ApiKey.SHARE_ACKNOWLEDGE, 2, share_acknowledge_body("n", 1, topic_id, {0: [(0, 0, RELEASE)]})
        )
        await store.has(1)
        told = asyncio.create_task(client.receive())
        # Were it woken by the nack itself, it would not wait for long.
        gateway.broker.subscriptions.get("g", "t").partition(0).parked.serve()  # type: ignore[union-attr]
        await store.has(2)
        assert not told.done()
        store.release()
        assert acquired((await told)[1]) == {0: {0: 2}}
        other.close()

    run_held(test)


@pytest.mark.parametrize("stored", [True, False])
def test_the_next_of_a_key_leaves_when_the_end_of_the_one_before_is_stored(stored: bool) -> None:
    """Else the one before it could come back behind it after a crash; and so it does when it could not be stored."""

    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await alter_group(client, **{"pulsar.subscription.type": "key_shared"})
        topic_id = await topic(gateway, client)
        for value in (b"first", b"second"):
            await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(value, key=b"k")))
        await share_fetch(client, "m", 0, topic_id, [0])
        assert acquired(await share_fetch(client, "m", 1, max_wait=FOR_LONG)) == {0: {0: 1}}
        # as librdkafka does: acknowledgements by another connection than fetches
        other = await Client.connect(gateway)
        store.holding = True
        body = share_acknowledge_body("m", 2, topic_id, {0: [(0, 0, ACCEPT)]})
        other.send(ApiKey.SHARE_ACKNOWLEDGE, 2, body)
        await store.has(1)
        asked = asyncio.create_task(share_fetch(client, "m", 3))
        await store.has(2)
        assert not asked.done()
        store.holding = False
        if stored:
            store.release()
        else:
            store.fail(StoreError("the disk is full"))
        await other.receive()
        answer = await asked
        if stored:
            assert acquired(answer) == {0: {1: 1}}
        else:
            assert acquired(answer) == {}
            assert acquired(await share_fetch(client, "m", 4, max_wait=FOR_LONG)) == {0: {0: 1}}
        other.close()

    run_held(test)


class Locks:
    """A member "m" whose locks last 1.5 s holds the first record of one partition; another partition has two more, and
    the first another. `ask` sends the fetch whose answer has to wait.
    """

    def __init__(
        self, gateway: Gateway, client: Client, other: Client, store: HeldStore, topic_id: bytes
    ) -> None:
        assert isinstance(gateway.broker.clock, Clock)
        self.clock = gateway.broker.clock
        self.expected = {0: {1: 1}, 1: {0: 1, 1: 1}}
        self._gateway = gateway
        self._client = client
        self._other = other
        self._store = store
        self._topic_id = topic_id
        self._disk: Disk | None = None
        self._epoch = 1

    @classmethod
    async def made(cls, gateway: Gateway, client: Client, store: HeldStore) -> Locks:
        await alter_group(client, **{"pulsar.ack.timeout.ms": "1500"})
        topic_id = await topic(gateway, client, 2, partitions=2)
        assert acquired(await share_fetch(client, "m", 0, topic_id, [0, 1], max_records=1)) == {0: {0: 1}}
        return cls(gateway, client, await Client.connect(gateway), store, topic_id)

    async def ask(self, waits: str) -> asyncio.Task[messages.ShareFetchResponse]:
        """It waits now: "for its acknowledgements", "for a nack that it counts" or "for a disk"."""
        acks: dict[int, list[tuple[int, int, int]]] | None = {0: [(0, 0, ACCEPT)]}
        self._store.holding = waits != "for a disk"
        if waits == "for a nack that it counts":
            body = share_acknowledge_body("m", 1, self._topic_id, {0: [(0, 0, RELEASE)]})
            self._other.send(ApiKey.SHARE_ACKNOWLEDGE, 2, body)
            await self._store.has(1)
            self.expected[0] = {0: 2, 1: 1}
            self._epoch, acks = 2, None
        elif waits == "for a disk":
            # served last as it was served before, so that the other's records wait for the disk with it
            partition = serving(self._gateway).partition
            partition.log = self._disk = Disk(partition.log)
        asked = asyncio.create_task(
            share_fetch(self._client, "m", self._epoch, self._topic_id, [0, 1], acks=acks)
        )
        if self._disk is None:
            # each request of this session is a commit
            await self._store.has(self._epoch)
        else:
            await until(lambda: self._disk is not None and self._disk.waiting)
        return asked

    async def go(self) -> None:
        """What it waits for is there."""
        self._store.release()
        if self._disk is not None:
            await self._disk.go()

    def pass_time(self, milliseconds: int) -> None:
        self.clock.now += milliseconds
        for index in (0, 1):
            serving(self._gateway, index).tick()

    async def acknowledge(self) -> dict[int, int]:
        """The error of each partition when all records that the answer brought are accepted."""
        done = {index: [(min(each), 1, ACCEPT)] for index, each in self.expected.items()}
        body = share_fetch_body("m", self._epoch + 1, self._topic_id, acks=done)
        return ack_errors(await self._client.ask(ApiKey.SHARE_FETCH, 2, body))


@pytest.mark.parametrize("waits", ["for its acknowledgements", "for a nack that it counts", "for a disk"])
def test_a_lock_begins_when_the_answer_leaves(waits: str) -> None:
    """A sync, or a read, may take longer than a lock: its client would get records that are others' already."""

    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        locks = await Locks.made(gateway, client, store)
        asked = await locks.ask(waits)
        # whatever is to be done with what was found is done
        third = await Client.connect(gateway)
        await third.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        locks.pass_time(5_000)
        assert not asked.done()
        await locks.go()
        assert acquired(await asked) == locks.expected
        locks.pass_time(1_499)
        assert await locks.acknowledge() == {0: 0, 1: 0}

    run_held(test, clock=Clock())


@pytest.mark.parametrize("waits", ["for a nack that it counts", "for a disk"])
def test_a_lock_does_not_run_from_the_moment_in_which_its_answer_has_to_wait(
    waits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine may stand still right then: a delivery would be counted before anything was sent."""

    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        locks = await Locks.made(gateway, client, store)
        start = ShareFetch.start
        stood = []

        def stands_still(fetch: ShareFetch) -> Pending[Answer]:
            found = start(fetch)
            if isinstance(found, Awaitable):
                stood.append(True)
                locks.pass_time(1_500)
            return found

        monkeypatch.setattr(ShareFetch, "start", stands_still)
        asked = await locks.ask(waits)
        await locks.go()
        assert acquired(await asked) == locks.expected
        assert stood
        assert await locks.acknowledge() == {0: 0, 1: 0}

    run_held(test, clock=Clock())


def test_a_lock_that_was_withheld_runs_out_in_its_time() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        clock = gateway.broker.clock
        assert isinstance(clock, Clock)
        await alter_group(client, **{"pulsar.ack.timeout.ms": "1500"})
        topic_id = await topic(gateway, client, 2)
        await share_fetch(client, "m", 0, topic_id, [0], max_records=1)
        store.holding = True
        asked = asyncio.create_task(share_fetch(client, "m", 1, topic_id, [0], acks={0: [(0, 0, ACCEPT)]}))
        await store.has(1)
        clock.now += 5_000
        store.release()
        await asked
        at = serving(gateway)
        assert at.due_at <= clock.now + 1_500, "somebody sees to it"
        clock.now += 1_500
        at.tick()
        assert acquired(await share_fetch(client, "m", 2)) == {0: {1: 2}}

    run_held(test, clock=Clock())
