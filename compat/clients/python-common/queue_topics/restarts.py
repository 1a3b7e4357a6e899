"""Queue topics over a restart of the server: a clean one in `make compat`, a kill in `make test`."""

from __future__ import annotations

import time

from adapter import LIBRARY
from common import Context, check, restart_case, same

from queue_topics.ledger import Ledger
from queue_topics.members import Worker, feed_keys, finish_work
from queue_topics.topic import QueueTopic, behind, finish, numbers, places, take


@restart_case
def restart_queue(ctx: Context) -> None:
    queue = QueueTopic(ctx, 2, type="key_shared", max__redeliver__count=2)
    queue.feed(range(40))
    first = queue.join()
    found = take(ctx, first, 40)
    done, rest = found[:20], found[20:]
    nacked, dead = done[3], done[5]
    for lane, (offset, _) in behind(done).items():
        said = [f"n:600000={nacked.offset}"] * (lane == nacked.lane) + [f"d={dead.offset}"] * (
            lane == dead.lane
        )
        first.commit({lane: (offset, "ack1;" + ";".join(said) if said else "")})
    open_ones = places(one for one in found if one.offset >= behind(done).get(one.lane, (0, ""))[0])
    committed = [queue.committed(lane) for lane in range(2)]
    first.close()
    ctx.restart()
    same(LIBRARY.topics(ctx.bootstrap).get(queue.name), 2, "lanes after the restart")
    same([queue.committed(lane) for lane in range(2)], committed, "offsets and metadata after the restart")
    second = queue.join()
    again = finish(ctx, second, len(open_ones))
    same(places(again), open_ones, "what was open comes under its offsets")
    check(len(rest) >= len(open_ones), "what was committed came again")
    same(numbers(queue.dead_letters(1)), [dead.number], "dead letters")


@restart_case
def restart_queue_nacks(ctx: Context) -> None:
    queue = QueueTopic(ctx, 1, max__redeliver__count=1)
    queue.feed(range(5))
    first = queue.join()
    found = take(ctx, first, 5)
    due = time.monotonic() + 4
    first.commit(behind(found, f"ack1;n:4000={found[2].offset}"))
    first.close()
    ctx.restart()
    second = queue.join()
    (again,) = take(ctx, second, 1)
    same(again.value, found[2].value, "what came after the restart")
    check(time.monotonic() > due - 0.1, "it came early")
    # its count has outlived the restart: a second nack is one too many
    second.commit(behind([again], f"ack1;n:0={again.offset}"))
    same(numbers(queue.dead_letters(1)), [again.number], "dead letters")
    same(second.poll(0.5), [], "further deliveries")


@restart_case
def restart_queue_live(ctx: Context) -> None:
    queue = QueueTopic(ctx, 4, type="key_shared", max__redeliver__count=-1)
    ledger = Ledger(stays=False)
    workers = [Worker(queue, ledger, 1000) for _ in range(2)]
    feed_keys(queue, 50, range(10))
    for _ in ctx.wait("some of them"):
        if ledger.done > 100:
            break
    ctx.restart()
    feed_keys(queue, 50, range(10, 20))
    finish_work(queue, ledger, workers, 1000)
    ctx.detail = f"{ledger.again} deliveries came again"
