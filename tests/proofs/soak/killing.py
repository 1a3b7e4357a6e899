"""How a process kills itself at a step: which one is armed, and functions that pass steps.

Nothing of the product is imported here but `store.steps`: what has steps is woven when it is imported, and not before.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from store.steps import Steps
from tests.proofs.soak.steps import NUMBERS

F = TypeVar("F", bound=Callable[..., Any])

_armed = ""
_left = 0
placed: set[str] = set()
"""The names of all steps that some function passes."""
# where a thread is: Files and Database are used by groups, checkpoints and recovery
_here = threading.local()


def arm(name: str, passes: int) -> None:
    """Die at the `passes`-th pass of a step from now on."""
    global _armed, _left
    if name not in NUMBERS:
        raise SystemExit(f"there is no step {name}")
    _left = passes
    _armed = name


def _due(name: str) -> bool:
    """A pass of a step; whether it is the one to die at."""
    global _left
    if name != _armed:
        return False
    _left -= 1
    return _left == 0


def _die() -> None:
    os.write(1, f"killed at step {NUMBERS[_armed]}, {_armed}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def _reach(name: str) -> None:
    if _due(name):
        _die()


@contextlib.contextmanager
def _place(name: str) -> Iterator[None]:
    before = getattr(_here, "name", "")
    _here.name = name
    try:
        yield
    finally:
        _here.name = before


def weave(function: F, steps: Steps) -> F:
    """The function with its steps."""
    placed.update(name for name in (steps.before, steps.after, steps.half) if name)

    def counts() -> bool:
        return not steps.within or getattr(_here, "name", "") == steps.within

    woven: Any
    if inspect.iscoroutinefunction(function):
        # a place is where a thread is, and others run in this one while a coroutine waits
        assert not steps.inside
        assert not steps.half

        @functools.wraps(function)
        async def woven(*arguments: Any, **named: Any) -> Any:
            counted = counts()
            if counted:
                _reach(steps.before)
            result = await function(*arguments, **named)
            if counted:
                _reach(steps.after)
            return result

    else:

        @functools.wraps(function)
        def woven(*arguments: Any, **named: Any) -> Any:
            counted = counts()
            if counted:
                _reach(steps.before)
                if steps.half and _due(steps.half):
                    _write_half(*arguments)
                    _die()
            if steps.inside:
                with _place(steps.inside):
                    result = function(*arguments, **named)
            else:
                result = function(*arguments, **named)
            if counted:
                _reach(steps.after)
            return result

    found: F = woven
    return found


def _write_half(files: object, descriptor: int, buffers: Any, position: int) -> None:
    """What `Files.write` would do, but for the second half."""
    data = b"".join(buffers)
    os.pwrite(descriptor, data[: len(data) // 2], position)


def wrap(owner: Any, attribute: str, before: str = "", after: str = "") -> None:
    """Put steps around a function that does not name them itself."""
    setattr(owner, attribute, weave(inspect.getattr_static(owner, attribute), Steps(before, after)))
