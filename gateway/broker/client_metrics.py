"""Subscriptions to client metrics as rows (KIP-714): altered at run time, listed and described, and without effect.

What their configs may be is in `config/client_metrics.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from gateway.broker.changing import stored
from gateway.broker.errors import KafkaError, from_store
from gateway.config import client_metrics
from gateway.wire.errors import Error
from store.api import Delete, Family, Put, StoreError, Write

if TYPE_CHECKING:
    from gateway.broker.node import Node

_PREFIX = b"client-metrics/"
_decoder = msgspec.msgpack.Decoder(dict[str, str])


class ClientMetrics:
    """What AlterConfigs said of them."""

    def __init__(self, node: Node) -> None:
        self._node = node
        # one change at a time: each begins with the row that the one before it wrote
        self._lock = asyncio.Lock()

    def own(self, name: str) -> dict[str, str]:
        """What was altered for this one. Raises KafkaError."""
        if not name:
            raise KafkaError(Error.INVALID_REQUEST, "A subscription to client metrics has a name.")
        try:
            row = self._node.store.get(Family.POLICY, _PREFIX + name.encode())
            return _decoder.decode(row) if row else {}
        except StoreError as error:
            raise from_store(error) from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise KafkaError(
                Error.UNKNOWN_SERVER_ERROR, f"The configs of client metrics {name} cannot be read: {error}"
            ) from error

    def named(self) -> list[str]:
        """Those that have configs, by name. Raises StoreError."""
        skip = len(_PREFIX)
        return [key[skip:].decode() for key, _ in self._node.store.scan(Family.POLICY, _PREFIX)]

    async def alter(
        self,
        name: str,
        change: Callable[[dict[str, str]], dict[str, str]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change the configs of one; without any it is gone. Raises KafkaError: INVALID_REQUEST for a config that is
        none, a name too long and a number out of bounds, INVALID_CONFIG for a value that cannot be read, as Kafka.
        """
        if len(name) > client_metrics.LONGEST_NAME:
            raise KafkaError(
                Error.INVALID_REQUEST,
                f"The name of a subscription to client metrics has at most {client_metrics.LONGEST_NAME} characters; "
                f"this one has {len(name)}.",
            )
        async with self._lock:
            old = self.own(name)
            new = change(dict(old))
            for config, text in new.items():
                if problem := client_metrics.unknown(config) or client_metrics.outside(config, text):
                    raise KafkaError(Error.INVALID_REQUEST, problem)
                if problem := client_metrics.unreadable(config, text):
                    raise KafkaError(Error.INVALID_CONFIG, problem)
            if validate_only or new == old:
                return
            key = _PREFIX + name.encode()
            write: Write = (
                Put(Family.POLICY, key, msgspec.msgpack.encode(new)) if new else Delete(Family.POLICY, key)
            )
            # nothing of it is in memory: who asks reads the row. The lock is held until the commit has ended, also
            # where nobody waits for it any more
            await stored(self._node, [write], _nothing, _nothing)


def _nothing() -> None:
    pass
