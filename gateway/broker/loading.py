"""Scopes that are not loaded yet: who meets one waits for it where a request comes in, and asks again from the start.

On a store that has everything at hand nobody ever waits. What cannot wait answers the code that has clients try again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from gateway.broker.errors import KafkaError, from_store
from gateway.promise import Promise
from gateway.wire.errors import Error
from store.api import Scope, ScopeKind, Store, StoreError
from store.pending import Asking, Pending

T = TypeVar("T")

TRIES = 3
"""So often somebody waits that something is loaded; one who has lost it again by then is told to try later."""

_CODES = {
    ScopeKind.PARTITION: Error.NOT_LEADER_OR_FOLLOWER,
    ScopeKind.GROUP: Error.COORDINATOR_LOAD_IN_PROGRESS,
}


class Loading(KafkaError):
    """What is asked about is being loaded."""

    def __init__(self, scope: Scope, loaded: Awaitable[None]) -> None:
        super().__init__(_CODES[scope.kind], "It is being loaded; try again.")
        self._loaded = loaded

    async def wait(self) -> None:
        """Until it is loaded. Raises KafkaError when it cannot be."""
        try:
            # others wait for the same
            await asyncio.shield(self._loaded)
        except StoreError as error:
            raise from_store(error) from error


def load(store: Store, scopes: Iterable[Scope]) -> Pending[None]:
    """Until these scopes are loaded."""
    waits = [Loading(scope, loaded) for scope in scopes if (loaded := store.load(scope)) is not None]
    return all_loaded(waits) if waits else None


def check_loaded(store: Store, scope: Scope) -> None:
    """Raises Loading when a scope is not loaded; its load is under way then."""
    loaded = store.load(scope)
    if loaded is not None:
        raise Loading(scope, loaded)


def after(loaded: Pending[None], ask: Callable[[], Pending[T]]) -> Pending[T]:
    """What `ask` answers once something is over."""
    return ask() if loaded is None else _after(loaded, ask)


async def _after(loaded: Awaitable[None], ask: Callable[[], Pending[T]]) -> T:
    await loaded
    found = ask()
    return await found if isinstance(found, Awaitable) else found


class Waits(Protocol):
    """What has to be waited for before a request can be served."""

    async def wait(self) -> None:
        """Raises KafkaError."""


async def all_loaded(loading: Sequence[Waits]) -> None:
    """Until these are loaded; one that cannot be is refused to whoever asks for it next."""
    for each in loading:
        with contextlib.suppress(KafkaError):
            await each.wait()


def promised(
    loop: asyncio.AbstractEventLoop, loaded: Awaitable[None], start: Callable[[], Pending[T]]
) -> tuple[Promise[T], asyncio.Task[None]]:
    """What `start` answers once something is loaded, as a promise: whoever waits for it may be hurried. And the task
    that waits: to be cancelled when nobody does any more.
    """
    answer: Promise[T] = Promise()

    async def wait() -> None:
        await loaded
        try:
            found = start()
        except Exception as error:
            # a promise brings what can be awaited, and that raises it
            failed: asyncio.Future[T] = loop.create_future()
            failed.set_exception(error)
            found = failed
        if isinstance(found, Promise):
            found.then(answer.tell)
        else:
            answer.tell(found)

    return answer, loop.create_task(wait())


def when_loaded(ask: Callable[[], Pending[T]]) -> Pending[T]:
    """What `ask` answers, which is asked again when it raised Loading, before it had any effect. Raises KafkaError."""
    try:
        return ask()
    except Loading as loading:
        return _again(ask, loading)


async def until_loaded(ask: Callable[[], T]) -> T:
    """The same for who waits in any case."""
    try:
        return ask()
    except Loading as loading:
        return await _again(ask, loading)


def asking(ask: Callable[[], T]) -> Asking[T]:
    """The same for work that yields what it waits for."""
    for _ in range(TRIES):
        try:
            return ask()
        except Loading as loading:
            yield loading.wait()
    return ask()


async def _again(ask: Callable[[], Pending[T]], loading: Loading) -> T:
    for _ in range(TRIES):
        await loading.wait()
        try:
            found = ask()
        except Loading as again:
            loading = again
        else:
            return await found if isinstance(found, Awaitable) else found
    raise loading
