"""Transactions that were open when the machine stopped, under durability=os: nobody commits what is not there."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

from gateway.broker.clipping import clip
from gateway.wire.errors import Error
from store import rocksdb
from tests.gateway.apis.transacting import Tx, committed, stable_offset
from tests.gateway.broker.held import serving_on
from tests.gateway.serving import Client, create
from tests.store.rocksdb.powercut import Recorder, open_recorded


class Cut(random.Random):
    """Of segments nothing that was not synced is left, of the log of rows what was synced."""

    def choice(self, seq: Any) -> Any:
        return "lost" if seq[0] == "kept" else seq[0]

    def random(self) -> float:
        return 0.0


def cut(
    folder: Path,
    first: Callable[[Client, Callable[[], Awaitable[None]]], Awaitable[Tx]],
    second: Callable[[Client, Tx], Awaitable[None]],
) -> None:
    """`first` may have all that was done so far on the disk; the power fails behind it, and `second` comes after."""

    async def main() -> None:
        recorder = Recorder()
        before = await open_recorded(folder / "data", recorder, boot="before", clip=clip)

        async def synced() -> None:
            await before.checkpoint()
            before._database.sync()

        async with serving_on(before) as gateway:
            tx = await first(await Client.connect(gateway), synced)
            recorder.image(folder / "data", folder / "image", Cut())
        for boot in ("after", "after"):
            # the second start finds that all is done
            after = await rocksdb.open(folder / "image", boot=boot, clip=clip)
            async with serving_on(after) as gateway:
                tx.client = await Client.connect(gateway)
                await second(tx.client, tx)

    uvloop.run(main())


def test_what_was_open_is_aborted_and_its_producer_fenced(tmp_path: Path) -> None:
    async def first(client: Client, synced: Callable[[], Awaitable[None]]) -> Tx:
        await create(client, "t", 2)
        tx = Tx(client)
        await tx.init()
        await tx.add("t", 0, 1)
        assert await tx.put(b"debit", added=True) == 0
        await synced()
        assert await tx.put(b"credit", index=1, added=True) == 0
        assert await tx.offsets("g", {("t", 0): 5}) == 0
        return tx

    async def second(client: Client, tx: Tx) -> None:
        assert await tx.end() == Error.PRODUCER_FENCED
        assert [await stable_offset(client, index=index) for index in (0, 1)] == [2, 0]
        assert await committed(client, "g", stable=True) == (0, -1)

    cut(tmp_path, first, second)


def test_the_end_of_one_that_is_lost_is_not_taken_for_that_of_the_one_before(tmp_path: Path) -> None:
    async def first(client: Client, synced: Callable[[], Awaitable[None]]) -> Tx:
        await create(client, "t")
        tx = Tx(client)
        await tx.init()
        assert [await tx.put(b"one"), await tx.end()] == [0, 0]
        await synced()
        assert await tx.put(b"two") == 0
        return tx

    async def second(client: Client, tx: Tx) -> None:
        assert await tx.end() == Error.PRODUCER_FENCED
        assert await stable_offset(client) == 2

    cut(tmp_path, first, second)


def test_without_a_power_cut_everybody_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        tx: Tx | None = None
        for _ in range(2):
            async with serving_on(await rocksdb.open(tmp_path / "data", boot="same")) as gateway:
                client = await Client.connect(gateway)
                if tx is None:
                    tx = Tx(client)
                    await create(client, "t")
                    await tx.init()
                tx.client = client
                assert await tx.put(b"a") == 0
        assert tx is not None

    uvloop.run(main())
