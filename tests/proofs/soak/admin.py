"""The admin API as the proof asks it: HTTP by hand, since what was asked and not answered may have happened or not."""

from __future__ import annotations

import http.client
import json
import time
from typing import Any, Self

from tests.proofs.soak import wire

PATIENCE = 20.0
"""Seconds that the admin API may come up later than Kafka's port."""


class Said(Exception):
    """The gateway answered that it will not."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP {status}: {text[:200]}")
        self.status = status


class Admin:
    """One connection, one request at a time. OSError when it is over."""

    def __init__(self, host: str, port: int, timeout: float = wire.PATIENCE) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()

    def wait(self) -> Self:
        """Until it answers: right after a start it may not yet."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self._connection.connect()
            except ConnectionRefusedError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
            else:
                return self

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """What is answered to /admin/v2/`path`. Raises Said, OSError."""
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"} if data is not None else {}
        try:
            self._connection.request(method, f"/admin/v2/{path}", data, headers)
            answer = self._connection.getresponse()
            text = answer.read()
        except http.client.HTTPException as error:
            self._connection.close()
            raise ConnectionError(f"the gateway closed the connection: {error!r}") from error
        except OSError:
            self._connection.close()
            raise
        if answer.status >= 400:
            raise Said(answer.status, text.decode(errors="replace"))
        return json.loads(text) if text.strip() else None
