"""A gateway that kills itself at a numbered step. `python -m tests.proofs.soak.victim [--arm "STEP PASS"] serve ...`

The code that serves is the one of `magnetar serve`; its functions are wrapped here, from outside. A line "STEP PASS"
on stdin arms a step while the gateway serves. Checkpoints come twice a second instead of twice a minute.

`--sabotage NAME` breaks one promise instead, so that the proof itself can be proven.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gateway import connection, listener, server
from gateway.apis import produce as produce_api
from gateway.broker import acknowledging, groups, partition, share_groups, topics, turn
from gateway.broker.subscriptions import letters, registry
from gateway.broker.subscriptions import partition as subscription_partition
from gateway.broker.subscriptions import rows as subscription_rows
from gateway.wire import letters as wire_letters
from semantics.subscriptions import due as due_times
from semantics.subscriptions import recovery as cursor_recovery
from store import rocksdb
from store.rocksdb import (
    checkpoint,
    database,
    driver,
    files,
    group,
    mark,
    opening,
    quarantine,
    recovery,
    rows,
)
from tests.proofs.soak import sabotage
from tests.proofs.soak.steps import NUMBERS

_armed = ""
_left = 0
_placed: set[str] = set()
# where a thread is: Files and Database are used by groups, checkpoints and recovery
_here = threading.local()


def arm(name: str, passes: int) -> None:
    global _armed, _left
    if name not in NUMBERS:
        raise SystemExit(f"there is no step {name}")
    _left = passes
    _armed = name


def due(name: str) -> bool:
    """A pass of a step; whether it is the one to die at."""
    global _left
    if name != _armed:
        return False
    _left -= 1
    return _left == 0


def die() -> None:
    os.write(1, f"killed at step {NUMBERS[_armed]}, {_armed}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def reach(name: str) -> None:
    if due(name):
        die()


@contextlib.contextmanager
def place(name: str) -> Iterator[None]:
    before = getattr(_here, "name", "")
    _here.name = name
    try:
        yield
    finally:
        _here.name = before


def wrap(
    owner: Any,
    attribute: str,
    before: str = "",
    after: str = "",
    *,
    inside: str = "",
    within: str = "",
    when: Callable[..., bool] | None = None,
) -> None:
    """Put steps around a function.

    `inside` names the place where its body is for those it calls; `within` is the place where alone it counts,
    `when` a condition on its arguments.
    """
    _placed.update(name for name in (before, after) if name)
    original = inspect.getattr_static(owner, attribute)
    static = isinstance(original, staticmethod)
    function = original.__func__ if static else original

    def counts(arguments: tuple[Any, ...]) -> bool:
        return (not within or getattr(_here, "name", "") == within) and (when is None or when(*arguments))

    wrapped: Any
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapped(*arguments: Any, **named: Any) -> Any:
            counted = counts(arguments)
            if counted:
                reach(before)
            result = await function(*arguments, **named)
            if counted:
                reach(after)
            return result

    else:

        @functools.wraps(function)
        def wrapped(*arguments: Any, **named: Any) -> Any:
            counted = counts(arguments)
            if counted:
                reach(before)
            if inside:
                with place(inside):
                    result = function(*arguments, **named)
            else:
                result = function(*arguments, **named)
            if counted:
                reach(after)
            return result

    setattr(owner, attribute, staticmethod(wrapped) if static else wrapped)


def halves() -> None:
    """Half of a write reaches the file."""
    whole = files.Files.write
    names = {"group": "segment.half", "recovery": "start.redo.half"}
    _placed.update(names.values())

    def write(self: files.Files, descriptor: int, buffers: Any, position: int) -> None:
        name = names.get(getattr(_here, "name", ""))
        if name is not None and due(name):
            data = b"".join(buffers)
            os.pwrite(descriptor, data[: len(data) // 2], position)
            die()
        whole(self, descriptor, buffers, position)

    files.Files.write = write  # type: ignore[method-assign]


def patch() -> None:
    """Every step of `STEPS` to its place."""
    # the way of one produce
    wrap(connection.Connection, "data_received", "bytes.received")
    wrap(connection.Connection, "_produce", "frame.found")
    wrap(partition.Partition, "append", "batch.admitted", "batch.taken")
    wrap(turn.Turn, "end", "turn.ends", when=lambda self: bool(self._slots or self._writes))
    wrap(driver.RocksStore, "commit", "group.handed")
    wrap(group.Executor, "execute", "group.begun", "group.done", inside="group")
    wrap(group.Executor, "_plan", after="group.planned")
    wrap(files.Files, "create", after="segment.created", within="group")
    wrap(files.Files, "write", "segment.before", "segment.written", within="group")
    halves()
    wrap(group.Executor, "_secure", "secure.before")
    wrap(group.Executor, "_journal", "journal.before", "journal.after")
    wrap(group.Executor, "_sync_segments", "direct.before", "direct.after")
    wrap(group.Executor, "_close_batch", after="batch.closed")
    wrap(database.Database, "write", "writebatch.before", "writebatch.after", within="group")
    wrap(database.Database, "sync", "wal.before", "wal.after", within="group")
    wrap(mark.Mark, "store", "mark.before", "mark.after")
    # taken over by reference when the store is opened, so the class it is
    wrap(driver.RocksStore, "_take", "publish.before", "publish.after")
    wrap(produce_api.ProduceSlot, "settle", "slot.before", "slot.after")
    wrap(connection.Connection, "flush", "answers.before")
    wrap(connection.Connection, "_send", "socket.before", "socket.after")
    # groups
    wrap(groups.Groups, "_step", "group.step")
    wrap(groups.Groups, "commit_offsets", "offsets.before", "offsets.taken")
    wrap(groups.Groups, "_landed", "group.landed")
    # share groups
    wrap(share_groups.ShareGroups, "_step", "member.step")
    wrap(share_groups.ShareGroups, "_landed", "member.landed")
    wrap(registry.Subscriptions, "writes_new", "subscription.before", "subscription.after")
    wrap(registry.Subscriptions, "delete", "unsubscribe.before", "unsubscribe.after")
    wrap(subscription_rows, "writes_changed", "selector.before", when=lambda row: bool(row.selector))
    served = subscription_partition.SubscriptionPartition
    wrap(served, "delivered", after="share.acquired")
    wrap(served, "acknowledge", "ack.before", "ack.taken")
    wrap(acknowledging.Acknowledging, "_settle", "ack.stored")
    wrap(served, "writes", "cursor.before", "cursor.after")
    wrap(served, "tick", "cursor.tick", "cursor.ticked")
    wrap(letters.Letters, "_append", "letter.before", "letter.after")
    wrap(letters.Letters, "_make", "letter.topic", "letter.made")
    wrap(wire_letters, "complete", after="retry.completed")
    # topics
    wrap(topics.Topics, "create", "create.before")
    wrap(topics.Topics, "delete", "delete.before")
    wrap(topics.Topics, "_write", "catalog.before", "catalog.after")
    wrap(group.Executor, "_drop", "drop.before", "drop.after")
    wrap(topics.Topics, "delete_records", "trim.asked", "trim.done")
    wrap(group.Executor, "_trim", "trim.before", "trim.after")
    # checkpoints
    wrap(checkpoint.Checkpointer, "_checkpoint", "checkpoint.begins")
    wrap(group.Executor, "checkpoint", after="checkpoint.taken")
    wrap(files.Files, "sync", "checkpoint.sync", within="checkpoint")
    wrap(files.Files, "sync_folder", "checkpoint.names", within="checkpoint")
    wrap(checkpoint.Checkpointer, "_sync", after="checkpoint.synced", inside="checkpoint")
    wrap(checkpoint.Checkpointer, "_forget", "checkpoint.forget")
    wrap(driver.RocksStore, "forget_idle", "checkpoint.forgotten")
    wrap(files.Files, "unlink", after="unlink.one", within="unlink")
    wrap(checkpoint.Checkpointer, "_unlink", "unlink.before", "unlink.after", inside="unlink")
    # a start
    wrap(opening, "_open", "start.database")
    wrap(recovery, "recover", "start.recovery", "start.epoch")
    wrap(files.Files, "unlink", after="start.doomed.one", within="doomed")
    wrap(recovery.Recovery, "unlink_doomed", after="start.doomed", inside="doomed")
    wrap(recovery.Recovery, "_redo", "start.redo", "start.redone", inside="recovery")
    wrap(recovery.Recovery, "_check_log", "start.check")
    wrap(recovery.Recovery, "_sync", "start.sync", "start.synced")
    wrap(database.Database, "write", "start.rows.before", "start.rows.after", within="recovering")
    wrap(database.Database, "sync", after="start.rows.synced", within="recovering")
    wrap(recovery.Recovery, "run", inside="recovering")
    wrap(recovery.Recovery, "_move_strangers", "start.strangers")
    wrap(quarantine.Quarantine, "tail", "start.tail.before", "start.tail.after", inside="tail")
    wrap(files.Files, "truncate", "start.tail.cut", within="tail")
    wrap(mark.Mark, "__init__", "start.mark.before", "start.mark.after")
    wrap(server, "open_store", after="start.opened")
    wrap(listener.Listener, "start", "start.listening")
    # a stop
    wrap(listener.Listener, "stop", "stop.listener")
    wrap(driver.RocksStore, "close", "stop.close", "stop.closed")
    wrap(checkpoint.Checkpointer, "_last_checkpoint", "stop.checkpoint")
    wrap(
        driver.RocksStore,
        "write_own",
        "stop.clean",
        when=lambda self, writes, durability: any(getattr(each, "key", b"") == rows.CLEAN for each in writes),
    )
    wrap(database.Database, "close", "stop.database")
    if _placed != NUMBERS.keys():
        raise SystemExit(f"steps without a place, or places without a step: {_placed ^ NUMBERS.keys()}")


def often() -> None:
    """Checkpoints twice a second."""
    opened = rocksdb.open

    async def open_often(path: Path, **given: Any) -> rocksdb.RocksStore:
        return await opened(path, **{**given, "checkpoint_seconds": 0.5, "checkpoint_pause": 0.3})

    rocksdb.open = open_often
    # acknowledgements of one chunk are logged, too, and logs and bundles go early
    cursor_recovery.FEW, cursor_recovery.LOGGED, cursor_recovery.LOGS = 0, 100, 5
    due_times.LINGERING = 2


def listen() -> None:
    """Steps that are armed while the gateway serves."""
    for line in sys.stdin:
        name, passes = line.split()
        arm(name, int(passes))


def main() -> None:
    arguments = sys.argv[1:]
    while arguments[0] in ("--arm", "--sabotage"):
        option, value, *arguments = arguments
        if option == "--arm":
            name, passes = value.split()
            arm(name, int(passes))
        else:
            sabotage.SABOTAGES[value]()
    often()
    patch()
    threading.Thread(target=listen, daemon=True).start()
    sys.argv[1:] = arguments
    from gateway.cli.main import main as magnetar

    magnetar(prog_name="magnetar")


if __name__ == "__main__":
    main()
