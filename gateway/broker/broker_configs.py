"""Settings altered at run time, for this node or (by the empty name) for all: rows that win over flags and files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from gateway.broker.changing import stored
from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error
from store.api import Family, Put

if TYPE_CHECKING:
    from gateway.broker.node import Node
    from gateway.config import Settings

_PREFIX = b"broker/"


class BrokerConfigs:
    """What AlterConfigs said. Call `load` once, after the node has its settings."""

    def __init__(self, node: Node, changed: Callable[[Settings], None]) -> None:
        """`changed` is called with the settings that are in force from now on."""
        self._node = node
        self._changed = changed
        self.node: dict[str, str] = {}
        self.cluster: dict[str, str] = {}
        # one change at a time: each begins with the rows that the one before it wrote
        self._lock = asyncio.Lock()

    def load(self) -> None:
        self._read()
        if self.node or self.cluster:
            self._apply()

    def _read(self) -> None:
        store = self._node.store
        own = store.get(Family.POLICY, self._key(str(self._node.settings.integer("node.id"))))
        everyone = store.get(Family.POLICY, self._key(""))
        self.node = msgspec.msgpack.decode(own, type=dict[str, str]) if own else {}
        self.cluster = msgspec.msgpack.decode(everyone, type=dict[str, str]) if everyone else {}

    async def alter(
        self, name: str, change: Callable[[dict[str, str]], dict[str, str]], *, validate_only: bool = False
    ) -> None:
        """Change the rows of `name` (the node's id, or empty for all). Raises KafkaError."""
        async with self._lock:
            await self._alter(name, change, validate_only)

    async def _alter(
        self, name: str, change: Callable[[dict[str, str]], dict[str, str]], validate_only: bool
    ) -> None:
        node = self._node
        old = self.node if name else self.cluster
        new = change(old)
        for key in {**old, **new}:
            if old.get(key) != new.get(key):
                problem = node.settings.altered(key, new.get(key))
                if problem is not None:
                    # Not INVALID_CONFIG: Kafka says so of topics only.
                    raise KafkaError(Error.INVALID_REQUEST, problem)
        if validate_only:
            return

        def done() -> None:
            if name:
                self.node = new
            else:
                self.cluster = new
            self._apply()

        def again() -> None:
            self._read()
            self._apply()

        await stored(node, [Put(Family.POLICY, self._key(name), msgspec.msgpack.encode(new))], done, again)

    def _apply(self) -> None:
        self._changed(self._node.settings.with_dynamic(self.node, self.cluster))

    @staticmethod
    def _key(name: str) -> bytes:
        return _PREFIX + name.encode()
