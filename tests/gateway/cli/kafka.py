"""A gateway beside the test, in a thread of its own, for commands that speak Kafka and wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future

from click.testing import CliRunner, Result

from gateway.cli.admin import main
from tests.gateway.serving import serving


@contextlib.contextmanager
def kafka_beside(*flags: str) -> Iterator[str]:
    """The address of a started gateway; `flags` are name=value."""
    started: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        try:
            async with serving(*flags) as gateway:
                host, port = gateway.broker.endpoints["PLAINTEXT"]
                stop = asyncio.Event()
                started.set_result((f"{host}:{port}", asyncio.get_running_loop(), stop))
                await stop.wait()
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        address, loop, stop = started.result(60)
        try:
            yield address
        finally:
            loop.call_soon_threadsafe(stop.set)
    finally:
        thread.join()


def topics(*arguments: str, stdin: str | bytes | None = None, seconds: float = 60.0) -> Result:
    """`magnetar-admin topics …`, without anything of this machine's environment."""
    env = {"MAGNETAR_ADMIN_URL": None, "MAGNETAR_BOOTSTRAP": None}
    flags = ["--request-timeout", str(seconds), "topics", *arguments]
    return CliRunner().invoke(main, flags, input=stdin, env=env)
