"""Named steps: moments at which a crash would find something half done.

    @step("wal.before", "wal.after", within="group")
    def sync(self) -> None: ...

Here names are all that they are: `step` answers the very function that it was given, so that they cost nothing. A proof
that kills processes sets `weave` before anything that has steps is imported, and gets each function with its names
(`tests/proofs/soak/victim.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Steps(NamedTuple):
    """What stands beside a function; a name that is "" is none."""

    # names of the moments before it is called and after it has returned
    before: str = ""
    after: str = ""
    # of the moment when half of the bytes that it was given are written
    half: str = ""
    # the place where alone these count: while a function runs, in this thread, that is this place
    within: str = ""
    # the place that it is for those it calls
    inside: str = ""


def _as_it_is(function: F, steps: Steps) -> F:
    return function


weave = _as_it_is
"""What becomes of a function that has steps."""


def step(
    before: str = "", after: str = "", *, half: str = "", within: str = "", inside: str = ""
) -> Callable[[F], F]:
    """Name the steps of a function: see `Steps`. Several of them may stand above one."""
    steps = Steps(before, after, half, within, inside)

    def named(function: F) -> F:
        return weave(function, steps)

    return named
