"""Long work lets others have their turn."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Callable

import pytest
import uvloop

from gateway.admin import slices
from gateway.admin.slices import PATIENCE, Pace, give_way, let_go, turn
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin


# by the wall, whatever clock tells what was spent
@pytest.mark.parametrize(("spends", "spent"), [(None, 6 * slices.STRETCH / 2), (lambda: 7.0, 0.0)])
def test_others_have_their_turn_when_a_stretch_was_long_enough(
    monkeypatch: pytest.MonkeyPatch, spends: Callable[[], float] | None, spent: float
) -> None:
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
        pace, seen = Pace(spends), []
        for _ in range(6):
            now += slices.STRETCH / 2
            await pace.rest()
            seen.append(turns)
        task.cancel()
        assert pace.spent == pytest.approx(spent)
        return seen

    monkeypatch.setattr(slices, "perf_counter", lambda: now)
    # one is waited for in a row of one, which takes two
    assert asyncio.run(main()) == [0, 2, 2, 4, 4, 6]


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_however_many_walk_others_have_their_turn_behind_each_step(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main() -> tuple[int, list[int]]:
        loop = asyncio.get_running_loop()
        steps: list[int] = []
        most, since, on = 0, 0, True

        def look() -> None:
            """Once an iteration of the loop."""
            nonlocal most, since
            most, since = max(most, len(steps) - since), len(steps)
            if on:
                loop.call_soon(look)

        async def walk(who: int) -> None:
            for _ in range(5):
                await turn()
                steps.append(who)

        walks = [asyncio.ensure_future(walk(who)) for who in range(10)]
        await asyncio.sleep(0)
        look()
        # one that gives up does not take the turn of another
        walks.pop(3).cancel()
        await asyncio.gather(*walks)
        on = False
        return most, steps

    loop = new_loop()
    try:
        most, steps = loop.run_until_complete(main())
    finally:
        loop.close()
    assert most == 1
    assert steps == [who for who in range(10) if who != 3] * 5, "in a row"


IMPORTED = """
import asyncio, json, sys, threading

class Seen:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            print("by the loop" if threading.current_thread() is threading.main_thread() else "beside the loop")

from tests.gateway.admin.billing import made, take
from tests.gateway.admin.conftest import running

async def main(which):
    async with running() as admin:
        await made(admin, "key_shared", count=2_500 if which == "act" else 5)
        sys.meta_path.insert(0, Seen())
        if which == "act":
            # nobody has looked at them so far
            dry = {"do": "deliver-now", "filter": {"state": "delayed"}, "dryRun": True}
            path = "P/orders/subscription/billing/magnetar/act"
            assert (await admin.ask("POST", path, json.dumps(dry))).status == 200
            return
        await take(admin, "c1", 1)
        assert "numpy" not in sys.modules
        for path in ("/admin/v2/magnetar/subscriptions", "P/orders/subscription/billing/magnetar/causes"):
            assert (await admin.ask("GET", path)).status == 200

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("which", ["pages", "act"])
def test_numpy_is_loaded_beside_the_loop(which: str) -> None:
    """In a process of its own: in this one it may be there."""
    program = [sys.executable, "-c", IMPORTED, which]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "beside the loop\n"), done.stderr


def test_what_is_let_go_is_empty_and_others_have_their_turn() -> None:
    async def main() -> tuple[dict[str, dict[str, int]], int]:
        tree = {str(number): {"a": number, "b": 1} for number in range(20_000)}
        turns = 0

        async def other() -> None:
            nonlocal turns
            while tree:
                turns += 1
                await asyncio.sleep(0)

        others = asyncio.create_task(other())
        await let_go(tree, 2)
        await others
        return tree, turns

    tree, turns = asyncio.run(main())
    assert tree == {}
    assert turns > 1


@pytest.mark.parametrize(("busy_for", "asked"), [(0, 1), (2, 3), (1_000, PATIENCE)])
def test_nobodys_turn_comes_while_clients_wait_but_not_for_ever(busy_for: int, asked: int) -> None:
    async def main() -> int:
        count = 0

        def busy() -> bool:
            nonlocal count
            count += 1
            return count <= busy_for

        give_way(asyncio.get_running_loop(), busy)
        await turn()
        return count

    assert asyncio.run(main()) == asked


def test_no_page_goes_on_while_something_waits_to_be_stored(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        loop, left = asyncio.get_running_loop(), 5

        def arrives() -> None:
            """Something to store in each iteration of the loop, for a while."""
            nonlocal left
            if left:
                left -= 1
                admin.broker.turn.write([], lambda outcome: None)
                loop.call_soon(arrives)

        arrives()
        await turn()
        assert not admin.broker.turn.open
        assert left == 0

    serve(test)


def test_clients_go_first_only_so_often_however_many_wait() -> None:
    async def main() -> tuple[int, list[int]]:
        asked, done = 0, list[int]()

        def busy() -> bool:
            nonlocal asked
            asked += 1
            return True

        async def walk(who: int) -> None:
            await turn()
            done.append(who)

        give_way(asyncio.get_running_loop(), busy)
        await asyncio.gather(*(walk(who) for who in range(5)))
        return asked, done

    assert asyncio.run(main()) == (5 * PATIENCE, [0, 1, 2, 3, 4])


def test_what_a_walk_makes_is_looked_through_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    collect = gc.collect

    def watched(which: int = 2) -> int:
        looked.append(which)
        return collect(which)

    monkeypatch.setattr(gc, "collect", watched)

    async def main() -> None:
        pace, kept = Pace(), list[list[int]]()
        for _ in range(6 * slices.LOOKS):
            # what goes meanwhile, of the tests before as well, is counted off what is new
            kept += [[] for _ in range(2 * slices.YOUNG)]
            await pace.rest(0)

    thresholds = gc.get_threshold()
    gc.set_threshold(1_000_000, 1_000, 1_000)
    try:
        asyncio.run(main())
    finally:
        gc.set_threshold(*thresholds)
    assert len(looked) >= 6 * slices.LOOKS
    assert set(looked) == {0, 1}, "and never at all there is"
