"""A queue topic read with group.protocol=consumer (KIP-848), and by members of both protocols at once."""

from __future__ import annotations

from common import Context, case, check
from queue_topics.ledger import Ledger
from queue_topics.members import Worker, feed_keys, finish_work
from queue_topics.topic import QueueTopic

NEW = {"group.protocol": "consumer", "session.timeout.ms": None, "heartbeat.interval.ms": None}
"""The server says for how long a member may be silent."""


@case
def queue_consumer_protocol(ctx: Context) -> None:
    queue = QueueTopic(ctx, 8, type="key_shared", max__redeliver__count=-1)
    ledger = Ledger()
    # one of each protocol stays, and one of each comes and goes
    workers = [
        Worker(queue, ledger, 3000, restless, settings)
        for restless, settings in ((0, {}), (0, NEW), (1, {}), (2, NEW))
    ]
    for _ in ctx.wait("two lanes for each of them"):
        if [worker.lanes for worker in workers] == [2, 2, 2, 2]:
            break
    feed_keys(queue, 100, range(30))
    finish_work(queue, ledger, workers, 3000)
    check(len(ledger.by_member) > 4, f"{len(ledger.by_member)} members had records")
    lives = sum(worker.lives for worker in workers)
    ctx.detail = f"{lives} members, {ledger.again} deliveries came again"
