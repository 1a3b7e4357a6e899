"""A held request reaches the gateway late: on its own connection, once its client has gone on over another."""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
import time

import pytest

from tests.proofs.soak.proxy import Proxy, parse

PRODUCE, METADATA, END_TXN = 0, 3, 26


def frame(key: int, number: int, client: bytes = b"me") -> bytes:
    body = struct.pack(">hhih", key, 1, number, len(client)) + client
    return struct.pack(">i", len(body)) + body


class Upstream:
    """Notes (connection, correlation id) of each frame, and answers with its correlation id."""

    def __init__(self) -> None:
        self.came: queue.Queue[tuple[int, int]] = queue.Queue()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            number += 1
            threading.Thread(target=self._serve, args=(number, connection), daemon=True).start()

    def _serve(self, number: int, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while head := stream.read(4):
                data = stream.read(int.from_bytes(head, "big"))
                (correlation,) = struct.unpack_from(">i", data, 4)
                self.came.put((number, correlation))
                connection.sendall(struct.pack(">ii", 4, correlation))

    def close(self) -> None:
        self._listening.close()


class Client:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 10)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def ask(self, data: bytes) -> int:
        """The correlation id of the answer. Raises OSError when the connection ends."""
        self.send(data)
        answer = b""
        while len(answer) < 8:
            part = self._socket.recv(8 - len(answer))
            if not part:
                raise ConnectionError
            answer += part
        return int.from_bytes(answer[4:], "big")

    def close(self) -> None:
        self._socket.close()


def test_a_frame_says_what_it_is_and_whose() -> None:
    assert parse(frame(END_TXN, 7, b"clerk-1"))[1:] == (END_TXN, b"clerk-1")
    nobody = struct.pack(">ihhih", 10, PRODUCE, 1, 7, -1)
    assert parse(nobody)[1:] == (PRODUCE, b"")


@pytest.mark.parametrize("key", [PRODUCE, END_TXN])
@pytest.mark.parametrize("cut", ["", "cut"])
def test_it_comes_after_what_its_client_sent_later(key: int, cut: str) -> None:
    upstream = Upstream()
    with Proxy(upstream.port, "seed", often=1.0, cut=1.0 if cut else 0.0) as proxy:
        first = Client(proxy.port)
        assert first.ask(frame(METADATA, 1)) == 1
        assert upstream.came.get(timeout=10) == (1, 1)
        first.send(frame(key, 2))
        if cut:
            with pytest.raises(OSError):
                first.ask(frame(METADATA, 3))
        while not proxy.holds(b"me"):
            time.sleep(0.001)
        first.close()
        proxy.often = 0.0
        second, other = Client(proxy.port), Client(proxy.port)
        # what others send is no reason
        for number in range(10, 30):
            assert other.ask(frame(PRODUCE, number, b"another")) == number
            assert upstream.came.get(timeout=10)[1] == number
        came: list[tuple[int, int]] = []
        for number in range(30, 40):
            assert second.ask(frame(key, number)) == number
            while not came or came[-1][1] != number:
                came.append(upstream.came.get(timeout=10))
        while (1, 2) not in came:
            came.append(upstream.came.get(timeout=10))
        assert came.index((1, 2)) > 0, "on its own connection, behind one of a later connection at least"
        assert sum(proxy.held.values()) == 1
        for each in (second, other):
            each.close()
    upstream.close()
