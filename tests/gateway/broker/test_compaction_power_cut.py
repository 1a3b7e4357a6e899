"""A power cut behind a compaction, under durability=os: what is lost is the end of the log, and never a key that was
there before.
"""

from __future__ import annotations

from pathlib import Path

import uvloop

from gateway.broker.compaction import State
from store import rocksdb
from tests.gateway.broker.compacted import compact, filled, offsets, partition, put
from tests.gateway.broker.subscriptions.world import World
from tests.store.rocksdb.powercut import Recorder, Worst, open_recorded

KEYS = 4


def test_no_record_is_taken_away_for_one_that_is_not_on_the_disk(tmp_path: Path) -> None:
    async def main() -> None:
        recorder = Recorder()
        world = World(tmp_path / "data")
        store = await open_recorded(tmp_path / "data", recorder, clock=world.clock.wall_ms)
        await world.start(store)
        await filled(world, keys=KEYS)
        # all of these are on the disk
        await store.checkpoint()
        await put(world, *[(b"k%d" % key, b"new" + b"x" * 60) for key in range(KEYS)] * 3)
        assert (await compact(world)).state is State.SUCCESS
        assert await offsets(world) == [48, 49, 50, 51]
        _written_elsewhere(tmp_path / "data", recorder)
        recorder.image(tmp_path / "data", tmp_path / "image", Worst())
        await world.broker.compaction.stop()
        await world.close()

        after = World(tmp_path / "image")
        await after.start(await rocksdb.open(tmp_path / "image", boot="another", clock=after.clock.wall_ms))
        assert {each.key for each in await after.read("t")} == {b"k%d" % key for key in range(KEYS)}
        assert partition(after).log.end_offset == 52
        await after.close()

    uvloop.run(main())


def _written_elsewhere(data: Path, recorder: Recorder) -> None:
    """Segments that the process of compaction has written, which syncs each."""
    for path in (data / "segments").glob("*/*.seg"):
        if str(path) not in recorder.synced and str(path) not in recorder.unsynced:
            recorder.synced[str(path)] = path.read_bytes()
