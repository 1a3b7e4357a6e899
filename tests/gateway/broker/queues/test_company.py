"""Several queue topics of one group, read by the same members: a crash kills only what was alone on all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.broker.queues.reading import KINDS, Client, given, queue_of, queued
from tests.gateway.broker.subscriptions.world import World, run


async def two(world: World, kind: str, limit: int = 3) -> None:
    """The group's subscriptions on t and u, whose messages die with so many failures; a lane of each."""
    await queued(world, kind=kind, limit=limit)
    await world.topic("u", 1)
    said = {"pulsar.subscription.type": kind, "pulsar.max.redeliver.count": str(limit - 1)}
    await world.broker.queues.make("u", "g", 1, said)
    for _ in range(3):
        await world.settled()


async def dead(world: World, topic: str) -> list[bytes | None]:
    if world.broker.catalog.get(f"{topic}-g-DLQ") is None:
        return []
    return [each.value for each in await world.read(f"{topic}-g-DLQ")]


@KINDS
@pytest.mark.parametrize("poisoned", ["t", "u"])
@pytest.mark.parametrize("crashed", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_what_was_with_a_poisonous_message_of_another_topic_does_not_die_of_it(
    folder: Path | None, kind: str, poisoned: str, crashed: bool, limit: int
) -> None:
    async def test(world: World) -> None:
        await two(world, kind, limit)
        innocent = "t" if poisoned == "u" else "u"
        await world.produce(b"1", topic=innocent, key=b"innocent")
        await world.produce(b"666", b"7", topic=poisoned, key=[b"poison", b"x"])
        done: list[int] = []
        for n in range(20):
            member = f"m{n}"
            queues = [queue_of(world, f"{topic}-g-QUEUE") for topic in "tu"]
            for queue in queues:
                queue.assigned({member: [0]})
            clients = {topic: Client(world, topic=topic) for topic in "tu"}
            got = {topic: given(await client.read()) for topic, client in clients.items()}
            if 666 in got[poisoned]:
                # it works on that first, and commits nothing
                for client in clients.values():
                    client.leave()
                world.broker.queues.member_gone("g", member, crashed=crashed)
            else:
                for topic, client in clients.items():
                    done += got[topic]
                    await client.commit()
                    client.leave()
            await world.pass_time(1_000)
        assert await dead(world, innocent) == []
        assert await dead(world, poisoned) == [b"666"]
        assert sorted(done) == [1, 7]

    run(test, folder)


def test_a_queue_topic_that_is_read_anew_keeps_company(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await two(world, "shared")
        t, u = queue_of(world, "t-g-QUEUE"), queue_of(world, "u-g-QUEUE")
        assert t.company == u.company == [t, u]
        t.retire("for a test")
        assert u.company == [u]
        assert u.lanes.company == [u.lanes]
        again = queue_of(world, "t-g-QUEUE")
        assert again is not t
        assert again.company == u.company == [u, again]
        assert again.lanes.company == u.lanes.company == [u.lanes, again.lanes]
        await world.broker.topics.delete("u-g-QUEUE")
        assert again.company == [again]

    run(test, folder)
