"""What is made for share groups before their members are told of topics: subscriptions, and RETRY topics.

Nothing that is published from then on is missed, and what is assigned can be fetched at once.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from gateway.broker.errors import KafkaError
from gateway.broker.subscriptions import letter_names
from gateway.coordinators.share_events import TopicView
from gateway.wire.errors import Error
from semantics import names as topic_names
from semantics.group_names import bare, home_of, shown
from semantics.names import DEFAULT

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic

log = logging.getLogger("magnetar.groups")

_MOST_TOLD, _SHOWN = 1_000, 250

Item = tuple[str, TopicView]
"""A topic that members subscribe to, as it was then."""


class Making(Protocol):
    """The subscriptions of groups, as far as they are made and deleted here. All raise KafkaError."""

    async def ensure(
        self, group: str, topic: str, starts: Sequence[int] | None = None, *, asked: bool = True
    ) -> object:
        """The group's subscription on a topic, made if it is missing."""
        ...

    def check_ensure(self, group: str, topic: str, *, asked: bool = True) -> None:
        """Whether `ensure` would make it, as far as policies say."""
        ...

    async def make_retries(self, group: str, topic: str, retries: str, /) -> None:
        """Make the RETRY topic of a group on a topic."""
        ...

    async def delete(
        self, group: str, topic_id: bytes | None = None, with_it: Callable[[], None] = ..., /
    ) -> int:
        """Delete a group's subscriptions, or the one on a topic."""
        ...


class _Known:
    """What has been seen to on behalf of a group in memory."""

    __slots__ = ("ensured", "ensuring", "younger")

    def __init__(self) -> None:
        # topics with a subscription, as they were when it was made
        self.ensured: dict[str, TopicView] = {}
        self.ensuring: dict[Item, asyncio.Future[None]] = {}
        # topics that were made after members had subscribed to them
        self.younger: set[str] = set()


class ShareTopics:
    """The topics of all share groups that are in memory."""

    def __init__(self, catalog: Catalog, subscriptions: Making) -> None:
        self._catalog = catalog
        self._subscriptions = subscriptions
        self._known: dict[str, _Known] = {}
        # names that are none which somebody was told of, by group
        self._told: dict[tuple[str, str], None] = {}

    def tell_patterns(self, group_id: str, member_id: str, names: Iterable[str]) -> None:
        """Say in the log, once, that a member waits for topics that cannot be: most likely it means a pattern. And for
        those that groups of another home read.
        """
        may_subscribe = self._catalog.namespaces.may_subscribe
        for name in names:
            legal = topic_names.is_canonical(name)
            if (legal and may_subscribe(group_id, name)) or (group_id, name) in self._told:
                continue
            if len(self._told) >= _MOST_TOLD:
                del self._told[next(iter(self._told))]
            self._told[group_id, name] = None
            if legal:
                log.warning(
                    "member %s of share group %s subscribes to %s, which clients of another home read: it is "
                    "given nothing here; share groups read that topic there",
                    member_id,
                    shown(group_id),
                    name,
                )
                continue
            home = home_of(group_id)
            # one of the group's home, as that is said in front of it
            said = name.removeprefix("//" if home == DEFAULT else f"{home}//")
            pattern = said if home == DEFAULT else f"persistent://{home}/{said}"
            log.warning(
                "member %s of share group %s subscribes to %r, which is no topic's name. If it is a pattern: share "
                "groups have none (KIP-932); a queue topic over a pattern serves such a subscription to consumer "
                "groups: magnetar-admin topics create-subscription --pattern %s -s %s --lanes 16",
                member_id,
                shown(group_id),
                said[:_SHOWN],
                shlex.quote(pattern[:_SHOWN]),
                shlex.quote(bare(group_id)),
            )

    def enter(self, group_id: str) -> None:
        """The group is in memory from now on."""
        self._known[group_id] = _Known()

    def leave(self, group_id: str) -> None:
        del self._known[group_id]

    @property
    def version(self) -> int:
        """Another one: `views` may differ."""
        return self._catalog.version

    def views(self, group_id: str, names: Iterable[str]) -> dict[str, TopicView]:
        """Those of the names that are topics on which the group may have subscriptions."""
        get = self._catalog.get
        found = ((name, get(name)) for name in names)
        return {
            name: TopicView(topic.topic_id, len(topic.partitions))
            for name, topic in found
            if topic is not None and self._catalog.namespaces.may_subscribe(group_id, name)
        }

    # -- subscriptions ----------------------------------------------------------------------------------------------

    def missing(
        self,
        group_id: str,
        topics: Mapping[str, TopicView],
        before: Mapping[str, TopicView],
        named: frozenset[str],
    ) -> list[Item]:
        """Those of the group's topics on which it may have no subscription yet. `before`: its topics before the request
        that asks; a topic that is `named` and was not among them, or was another, was made after it was subscribed to.
        """
        known = self._known[group_id]
        missing = [item for item in topics.items() if known.ensured.get(item[0]) != item[1]]
        if missing:
            known.younger |= {name for name, view in missing if name in named and before.get(name) != view}
        return missing

    def check_homes(self, group_id: str, names: Iterable[str]) -> None:
        """Whether a group may have subscriptions on topics of these names, whether they are there or not. Where nobody
        asks for rights it gets nothing of those on which it may not, and is told nothing. Raises KafkaError
        POLICY_VIOLATION.
        """
        namespaces = self._catalog.namespaces
        if not namespaces.guarded:
            return
        for name in names:
            if topic_names.is_canonical(name) and not namespaces.may_subscribe(group_id, name):
                raise KafkaError(
                    Error.POLICY_VIOLATION,
                    f"Subscriptions on {name} are of groups of clients at home in {namespaces.home_of(name)}, and of "
                    "no others: read it in a consumer group.",
                )

    def check_ensure(self, group_id: str, names: Iterable[str]) -> None:
        """Whether a group that is new may have its subscriptions on those of the names that are topics. Raises
        KafkaError.
        """
        for name in self.views(group_id, names):
            try:
                self._subscriptions.check_ensure(group_id, name, asked=False)
            except KafkaError as error:
                if error.code == Error.POLICY_VIOLATION:
                    raise
                raise KafkaError(Error.COORDINATOR_NOT_AVAILABLE, str(error)) from error

    def ensure(self, group_id: str, missing: Sequence[Item]) -> Awaitable[None]:
        """Make the group's subscriptions on these topics, once whoever asks for them. To be awaited; raises KafkaError.
        The group may go out of memory meanwhile.
        """
        return self._ensure_all(group_id, self._known[group_id], missing)

    async def _ensure_all(self, group_id: str, known: _Known, missing: Sequence[Item]) -> None:
        for item in missing:
            if item not in known.ensuring:
                task = asyncio.ensure_future(self._ensure(group_id, item, item[0] in known.younger))
                known.ensuring[item] = task
                task.add_done_callback(lambda task, item=item: _ensured(known, item, task))  # type: ignore[misc]
        await asyncio.gather(
            *[asyncio.shield(known.ensuring[item]) for item in missing if item in known.ensuring]
        )

    async def _ensure(self, group_id: str, item: Item, younger: bool) -> None:
        name, view = item
        # Its end was its beginning when the group subscribed, whatever was published since.
        starts = [0] * view.partitions if younger else None
        try:
            await self._subscriptions.ensure(group_id, name, starts, asked=False)
        except KafkaError as error:
            topic = self._catalog.get(name)
            if topic is not None and topic.topic_id == view.topic_id:
                raise
            # It went while we were about to: the next heartbeat finds out.
            log.info("share group %s gets no subscription on %s: %s", group_id, name, error)

    async def delete(
        self, group_id: str, topic: Topic | None, with_it: Callable[[], None] = lambda: None
    ) -> None:
        """Drop the group's subscription of a topic, or all. Raises KafkaError."""
        try:
            await self._subscriptions.delete(group_id, topic.topic_id if topic is not None else None, with_it)
        finally:
            # also where nobody knows whether they are gone: whoever is told of a topic next looks
            self.forget(group_id, topic)

    def forget(self, group_id: str, topic: Topic | None) -> None:
        """The group's subscription of a topic is deleted, or all of them are."""
        known = self._known.get(group_id)
        if known is not None:
            if topic is None:
                known.ensured.clear()
            else:
                known.ensured.pop(topic.name, None)

    # -- RETRY topics -----------------------------------------------------------------------------------------------

    def missing_retries(self, group_id: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        """(base topic, RETRY topic) for those of the names that are RETRY topics of the group and missing, while their
        base is there.
        """
        suffix = f"-{bare(group_id)}{letter_names.RETRY}"
        if "/" in suffix:
            # no topic is called so; the end of another namespace's may be
            return
        get = self._catalog.get
        for name in names:
            if name.endswith(suffix) and get(name) is None and get(name.removesuffix(suffix)) is not None:
                yield name.removesuffix(suffix), name

    async def make_retries(self, group_id: str, retries: Iterable[tuple[str, str]]) -> None:
        """Make them: a first retry must not wait until the clients have heard of a new topic."""
        for base, name in retries:
            try:
                await self._subscriptions.make_retries(group_id, base, name)
            except KafkaError as error:
                log.warning("share group %s gets no retry letter topic %s: %s", group_id, name, error)


def _ensured(known: _Known, item: Item, task: asyncio.Future[None]) -> None:
    del known.ensuring[item]
    if not task.cancelled() and task.exception() is None:
        known.ensured[item[0]] = item[1]
        known.younger.discard(item[0])
