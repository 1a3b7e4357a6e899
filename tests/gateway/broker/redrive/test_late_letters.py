"""On a store that lets everybody wait: letters are read, sent and settled as elsewhere."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

import pytest
import uvloop

from gateway.broker.loading import until_loaded
from gateway.broker.redrive.jobs import Redrive
from gateway.wire import letters, records
from gateway.wire.opened import Found
from store import memory
from tests.gateway.admin.billing import EARLIEST
from tests.gateway.admin.conftest import Admin, running
from tests.gateway.admin.test_replaying import DLQ, RETRY, did, listed, post


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_is_sent_once_and_nothing_is_read_that_was_not_loaded(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = memory.open_late(seed=seed)
    monkeypatch.setattr(memory, "open", lambda: store)

    async def test(admin: Admin) -> None:
        broker = admin.broker
        for name in ("orders", DLQ):
            await admin.partitioned(name, 3)
        assert (
            await admin.ask("PUT", "P/orders/subscription/billing?type=key_shared", EARLIEST)
        ).status == 204
        for index in range(3):
            source = letters.Source("orders", index, "billing", "persistent://public/default/orders")
            made = [
                letters.letter(
                    source,
                    records_found(n, b"%d-%d" % (index, n)),
                    2,
                    letters.REJECTED,
                    f"0:{n}:{index}:0",
                )
                for n in range(20)
            ]
            topic = broker.topics.get(DLQ)
            at = await until_loaded(partial(broker.in_use.partition, topic, index))
            batch, newest = letters.build(made, broker.clock.wall_ms())
            at.append_carried(batch, len(made), newest)
            await broker.write([])
        # what a process begins with
        broker.in_use.release_idle()
        broker.redrive = Redrive(broker, broker.subscriptions)
        seen = (await post(admin, "replay", dryRun=True)).json
        assert (seen["letters"], seen["keys"]) == (60, 5)
        jobs = await asyncio.gather(*[did(admin, "replay", filter={"text": f"{n}-"}) for n in (0, 1, 0)])
        assert sum(job["done"] for job in jobs) == 40
        assert len(await listed(admin)) == 20
        sent: Counter[bytes | None] = Counter()
        retries = broker.topics.get(RETRY)
        for index in range(3):
            at = await until_loaded(partial(broker.in_use.partition, retries, index))
            if at.high_watermark:
                read = at.read(0, 1 << 20)
                data = b"".join(read if isinstance(read, list) else await read)
                for position, header in records.batches(data):
                    sent.update(
                        each.value for each in records.records(data[position : position + header.size])
                    )
        assert sent == Counter(b"%d-%d" % (index, n) for index in (0, 1) for n in range(20))
        assert store.faults == []

    async def main() -> None:
        async with running() as admin:
            await test(admin)

    uvloop.run(main())


def records_found(offset: int, value: bytes) -> Found:
    return Found(offset, 0, b"k%d" % (offset % 5), value, [])
