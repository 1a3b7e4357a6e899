"""A change of rows that are all in memory as well: what stands in memory is what stands in the store, however a commit
ends and whoever still waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gateway.broker.errors import from_store
from store.api import Durability, Outcome, StoreError, Unknown, Write

if TYPE_CHECKING:
    from gateway.broker.node import Node


async def stored(
    node: Node, writes: Sequence[Write], done: Callable[[], None], again: Callable[[], None]
) -> None:
    """Write what is one fact. `done` is called when it is durable, `again` where nobody knows whether it is: it reads
    what the store has. Either before anything else can happen, also when nobody waits any more. Raises KafkaError.
    """
    try:
        await written(node, writes, done, again)
    except StoreError as error:
        raise from_store(error) from error


async def written(
    node: Node,
    writes: Sequence[Write],
    done: Callable[[], None],
    again: Callable[[], None],
    durability: Durability | None = None,
) -> None:
    """The same for who is told nothing in Kafka's words. Raises StoreError."""
    told: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def ended(outcome: Outcome) -> None:
        try:
            if outcome is None:
                done()
            elif isinstance(outcome, Unknown):
                again()
        finally:
            # whatever they did, whoever waits holds a lock
            told.set_result(outcome)

    node.commit(writes, ended, durability)
    outcome = await until_told(told)
    if outcome is not None:
        raise outcome


async def until_told(told: asyncio.Future[Outcome]) -> Outcome:
    """The outcome of a commit. Who is cancelled meanwhile is so when it is told: until then what is being changed is
    nobody else's.
    """
    cancelled: asyncio.CancelledError | None = None
    while not told.done():
        try:
            await asyncio.shield(told)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return told.result()
