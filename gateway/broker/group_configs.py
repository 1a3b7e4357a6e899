"""Configs of groups as rows: altered at run time, in force at once. Their meaning is in `config/group_configs.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import msgspec

from gateway.broker.changing import stored
from gateway.broker.errors import KafkaError, from_store
from gateway.config import group_configs
from gateway.config.group_configs import GroupConfig
from gateway.wire.errors import Error
from store.api import Delete, Family, Put, StoreError, Write

if TYPE_CHECKING:
    from gateway.broker.node import Node

PREFIX = b"group/"
_CACHED = 10_000
"""Groups whose configs are remembered; beyond that all are forgotten and read again."""

_decoder = msgspec.msgpack.Decoder(dict[str, str])


Guard = Callable[[str, Mapping[str, str]], AbstractContextManager[None]]
"""What stands around the change of a group's configs, given the group and the new ones."""


class GroupConfigs:
    """What AlterConfigs said of groups, and what it comes to."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._cache: dict[str, tuple[dict[str, str], GroupConfig]] = {}
        self._default: GroupConfig | None = None
        # the same with what a subscription says of itself above
        self._overridden: dict[tuple[str, tuple[tuple[str, str], ...]], GroupConfig] = {}
        # one change at a time: each begins with the row that the one before it wrote
        self._lock = asyncio.Lock()
        # see `guard` and `watch`
        self._guard: Guard = lambda group_id, new: nullcontext()
        self._retyping: Callable[[str], bool] = lambda group_id: False
        self._watchers: list[Callable[[str], None]] = []

    def guard(self, guard: Guard, retyping: Callable[[str], bool]) -> None:
        """Have this stand around each change to new configs of a group, which it may refuse (KafkaError). `retyping`:
        whether the type of a group may be changing.
        """
        self._guard, self._retyping = guard, retyping

    def check_join(self, group_id: str) -> None:
        """Whether somebody may join a group. Raises KafkaError COORDINATOR_LOAD_IN_PROGRESS while its type changes: who
        is let in has been counted, or obeys the new type. Clients try again.
        """
        if self._retyping(group_id):
            raise KafkaError(
                Error.COORDINATOR_LOAD_IN_PROGRESS, f"The type of group {group_id} is changing; try again."
            )

    def watch(self, watcher: Callable[[str], None]) -> None:
        """Have this called with each group whose configs are others, as soon as they are in force."""
        self._watchers.append(watcher)

    def get(self, group_id: str) -> GroupConfig:
        """A group's configuration as it is in force. Raises KafkaError when its row cannot be read."""
        return self._of(group_id)[1]

    def overridden(self, group_id: str, overrides: Mapping[str, str]) -> GroupConfig:
        """A group's configuration with these configs of a subscription above its own. Raises KafkaError."""
        if not overrides:
            return self.get(group_id)
        key = group_id, tuple(sorted(overrides.items()))
        found = self._overridden.get(key)
        if found is None:
            found = group_configs.effective({**self.own(group_id), **overrides}, self._node.settings)
            if len(self._overridden) >= _CACHED:
                self._overridden.clear()
            self._overridden[key] = found
        return found

    def own(self, group_id: str) -> Mapping[str, str]:
        """What was altered for this group. Raises KafkaError."""
        return self._of(group_id)[0]

    def named(self) -> list[str]:
        """The groups that have configs of their own, by id. Raises StoreError."""
        skip = len(PREFIX)
        return [key[skip:].decode() for key, _ in self._node.store.scan(Family.POLICY, PREFIX)]

    def forget(self) -> None:
        """The settings that configs fall back to are others now."""
        self._cache.clear()
        self._overridden.clear()
        self._default = None

    async def alter(
        self,
        group_id: str,
        change: Callable[[dict[str, str]], dict[str, str]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change a group's configs. Raises KafkaError: INVALID_CONFIG says which values are good."""
        if not group_id:
            raise KafkaError(Error.INVALID_REQUEST, "Groups have no resource that stands for all of them.")
        async with self._lock:
            await self._alter(group_id, change, validate_only)

    async def drop(self, prefix: str) -> None:
        """Groups whose ids begin so have none of their own any more. Raises KafkaError, StoreError."""
        for group_id in self.named():
            if group_id.startswith(prefix):
                await self.alter(group_id, lambda old: {})

    async def _alter(
        self, group_id: str, change: Callable[[dict[str, str]], dict[str, str]], validate_only: bool
    ) -> None:
        node = self._node
        old = dict(self.own(group_id))
        new = change(dict(old))
        problem = group_configs.validate(new, node.settings)
        if problem is not None:
            raise KafkaError(Error.INVALID_CONFIG, problem)
        with self._guard(group_id, new):
            if validate_only or new == old:
                return
            key = PREFIX + group_id.encode()
            write: Write = (
                Put(Family.POLICY, key, msgspec.msgpack.encode(new)) if new else Delete(Family.POLICY, key)
            )
            # the row is read when somebody asks for it
            await stored(node, [write], lambda: self._changed(group_id), lambda: self._changed(group_id))

    def _changed(self, group_id: str) -> None:
        self._cache.pop(group_id, None)
        self._overridden.clear()
        for watcher in self._watchers:
            watcher(group_id)

    def _of(self, group_id: str) -> tuple[dict[str, str], GroupConfig]:
        found = self._cache.get(group_id)
        if found is None:
            settings = self._node.settings
            try:
                row = self._node.store.get(Family.POLICY, PREFIX + group_id.encode())
                configs = _decoder.decode(row) if row else {}
            except StoreError as error:
                raise from_store(error) from error
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise KafkaError(
                    Error.UNKNOWN_SERVER_ERROR, f"The configs of group {group_id} cannot be read: {error}"
                ) from error
            if configs:
                config = group_configs.effective(configs, settings)
            else:
                config = self._default = self._default or group_configs.effective({}, settings)
            if len(self._cache) >= _CACHED:
                self._cache.clear()
            found = self._cache[group_id] = (configs, config)
        return found
