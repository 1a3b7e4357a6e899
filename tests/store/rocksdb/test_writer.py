"""Who executes a group, and when: on the loop before `commit` returns, or in the writer's thread."""

from __future__ import annotations

import asyncio
from pathlib import Path

from store.api import CreateLog, Durability, Family, Outcome, Put
from tests.store.making import append, content
from tests.store.rocksdb.faults import Faults, open_faulty


def test_a_stall_sends_an_inline_group_to_the_thread(folder: Path) -> None:
    async def main() -> None:
        faults = Faults()
        store = await open_faulty(folder / "data", faults)
        await store.write([CreateLog(1), append(1, 0)], Durability.OS)
        before = store.stats()
        held = store.log(1)
        faults.arm((1, "stall"))
        outcomes: list[Outcome] = []
        store.commit([append(1, 1, [100] * 3)], Durability.OS, outcomes.append)
        assert outcomes == [], "it did not happen on the loop"
        store.commit([append(1, 4)], Durability.OS, outcomes.append)
        await store.write([Put(Family.META, b"k", b"v")], Durability.OS)
        assert outcomes == [None, None]
        assert faults.struck
        faults.disarm()
        assert store.stats().threaded_groups > before.threaded_groups
        assert not held.stale
        assert held.end_offset == 5
        assert len(await content(held)) == held.size
        await store.close()

    asyncio.run(main())
