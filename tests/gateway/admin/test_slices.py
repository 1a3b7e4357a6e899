"""Long work lets others have their turn."""

from __future__ import annotations

import asyncio

import pytest

from gateway.admin import slices
from gateway.admin.slices import Pace


def test_others_have_their_turn_when_a_stretch_was_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    turns = 0

    async def main() -> list[int]:
        nonlocal now, turns

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(others())
        pace, seen = Pace(), []
        for _ in range(6):
            now += slices.STRETCH / 2
            await pace.rest()
            seen.append(turns)
        task.cancel()
        return seen

    monkeypatch.setattr(slices, "perf_counter", lambda: now)
    assert asyncio.run(main()) == [0, 1, 1, 2, 2, 3]
