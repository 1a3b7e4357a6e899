"""A fetch reads whatever is readable, not partitions alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.broker.readable import Decided, Watcher
from gateway.server import Gateway
from gateway.wire.batch import empty_batch
from gateway.wire.errors import Error
from store.api import Corrupt, Piece, StoreError
from store.pending import Pending
from tests.gateway.broker.asking import fetch
from tests.gateway.serving import Client, batch, create, serving


class Lane(Decided):
    """One batch of two records at the offsets 10 and 11, which a disk has or which is damaged."""

    def __init__(self) -> None:
        self.bytes_out = 0
        self.watchers: set[Watcher] = set()
        self.stale = False
        self.dispatching = None
        self.leader_epoch = 7
        self.log_start = 10
        self.high_watermark = 12
        self.stored = batch(b"a", b"b")
        self.size = len(self.stored)
        self.disk: asyncio.Event | None = None
        self.error: StoreError | None = None
        self.told: list[StoreError] = []
        self.ends = 0
        self.news = False
        self.spans = 0
        self.span = b""

    def fetch(
        self, offset: int, max_bytes: int, *, whole_first: bool, least: int | None
    ) -> Pending[list[Piece]]:
        if self.error is not None:
            raise self.error
        if self.disk is not None:
            return self._wait(self.disk)
        return [self.stored] if self.stored else []

    async def _wait(self, disk: asyncio.Event) -> list[Piece]:
        await disk.wait()
        return [self.stored] if self.stored else []

    def news_for(self, connection: int) -> bool:
        self.news, told = False, self.news
        return told

    def spanned(self, offset: int) -> list[Piece]:
        self.spans += 1
        return [self.span] if self.span else []

    def at_end(self) -> None:
        self.ends += 1

    def unreadable(self, error: StoreError) -> None:
        self.told.append(error)


def run(monkeypatch: pytest.MonkeyPatch, test: Any) -> None:
    lane = Lane()

    async def body() -> None:
        async with serving() as gateway:
            client = await Client.connect(gateway)
            await create(client, "t")
            monkeypatch.setattr(gateway.broker.in_use, "readable", lambda *_: lane)
            await test(gateway, client, lane)
            client.close()

    asyncio.run(body())


def only(answer: Any) -> Any:
    return answer.responses[0].partitions[0]


def test_its_bounds_and_batches_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(gateway: Gateway, client: Client, lane: Lane) -> None:
        found = only(await fetch(client, {"t": {0: 10}}, epoch=7))
        assert (found.error_code, found.log_start_offset, found.high_watermark) == (0, 10, 12)
        assert (bytes(found.records), lane.bytes_out) == (lane.stored, lane.size)
        assert only(await fetch(client, {"t": {0: 9}})).error_code == Error.OFFSET_OUT_OF_RANGE
        assert only(await fetch(client, {"t": {0: 10}}, epoch=6)).error_code == Error.FENCED_LEADER_EPOCH

    run(monkeypatch, test)


def test_who_is_to_look_for_leaders_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(gateway: Gateway, client: Client, lane: Lane) -> None:
        lane.news = True
        assert only(await fetch(client, {"t": {0: 10}})).error_code == Error.NOT_LEADER_OR_FOLLOWER
        assert not lane.watchers
        assert only(await fetch(client, {"t": {0: 10}})).error_code == 0

    run(monkeypatch, test)


@pytest.mark.parametrize("max_wait", [0, 50])
def test_who_has_waited_is_led_past_what_is_not_there(monkeypatch: pytest.MonkeyPatch, max_wait: int) -> None:
    async def test(gateway: Gateway, client: Client, lane: Lane) -> None:
        lane.stored, lane.span = b"", empty_batch(10, 11)
        found = only(await fetch(client, {"t": {0: 10}}, max_wait=max_wait))
        assert bytes(found.records) == lane.span
        assert lane.spans == 1, "not before it has waited"

    run(monkeypatch, test)


def test_a_fetch_waits_for_it_to_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(gateway: Gateway, client: Client, lane: Lane) -> None:
        asking = asyncio.ensure_future(fetch(client, {"t": {0: 12}}, max_wait=9_000))
        async with asyncio.timeout(5):
            while not lane.watchers:
                await asyncio.sleep(0)
        assert lane.ends, "it is told that somebody wants more"
        lane.high_watermark = 14
        for each in list(lane.watchers):
            each.wake(lane, lane.size)
        assert bytes(only(await asking).records) == lane.stored
        assert not lane.watchers

    run(monkeypatch, test)


def test_it_may_ask_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(gateway: Gateway, client: Client, lane: Lane) -> None:
        lane.disk = asyncio.Event()
        asking = asyncio.ensure_future(fetch(client, {"t": {0: 10}}))
        async with asyncio.timeout(5):
            while not gateway.broker.unsent_bytes:
                await asyncio.sleep(0)
        lane.disk.set()
        assert bytes(only(await asking).records) == lane.stored

    run(monkeypatch, test)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Corrupt("damaged", 10, 12, "a CRC"), Error.CORRUPT_MESSAGE),
        (StoreError("no disk"), Error.KAFKA_STORAGE_ERROR),
    ],
)
def test_what_cannot_be_read_is_told_to_it(
    monkeypatch: pytest.MonkeyPatch, error: StoreError, code: Error
) -> None:
    async def test(gateway: Gateway, client: Client, lane: Lane) -> None:
        lane.error = error
        assert only(await fetch(client, {"t": {0: 10}})).error_code == code
        assert lane.told == [error]

    run(monkeypatch, test)
