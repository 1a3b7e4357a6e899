"""A Spark that is not there yet: SIGINT or SIGTERM breaks its start off and ends the Java process."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from types import FrameType
from typing import Any

from pipeline.errors import StoppedError

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Interrupts:
    """Both signals raise KeyboardInterrupt, but never between the start of a child and the moment it is known."""

    def __init__(self) -> None:
        self._held = False
        self._came = False

    def listen(self) -> None:
        for number in SIGNALS:
            signal.signal(number, self._handle)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._came:
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        if not self._held:
            raise KeyboardInterrupt


@contextlib.contextmanager
def breakable() -> Iterator[None]:
    """The block starts Spark. Raises `StoppedError` when it is interrupted; the Java process has ended then.

    pyspark tells of its Java process only when that answers, and has it ignore Ctrl-C. One that was starting Spark does
    not notice either that we have ended.
    """
    from pyspark import java_gateway

    interrupts, children = _Interrupts(), []
    popen = java_gateway.Popen

    def kept(*arguments: Any, **options: Any) -> Any:
        with interrupts.held():
            child = popen(*arguments, **options)
            children.append(child)
        return child

    java_gateway.Popen = kept
    interrupts.listen()
    try:
        yield
    except KeyboardInterrupt:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        for child in children:
            _end(child)
        raise StoppedError("stopped before it began.") from None
    finally:
        java_gateway.Popen = popen


def _end(child: subprocess.Popen[bytes]) -> None:
    # not asked to end: while Spark starts, its hooks for that can wait for ever
    child.kill()
    child.wait()
