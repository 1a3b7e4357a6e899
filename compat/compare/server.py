"""One server that is asked: its connections, its versions, and the answers that are kept for the comparison."""

from __future__ import annotations

import socket
import struct
import time
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from compat.compare.canonical import Line, Names
from compat.compare.schema import Malformed, api_keys, encode, load, plain, walk

Answer = dict[str, Any]

PATIENCE = 4.0
"""Seconds after which there is no answer."""

CLIENT_ID = b"compare"
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
_NO_ID = uuid.UUID(int=0)


class Closed(Exception):
    """The server closed the connection in place of an answer."""


class Asked(NamedTuple):
    """A request that was sent and whose answer was not read yet."""

    label: str
    api: str
    version: int
    correlation: int
    connection: Connection


class Connection:
    """One socket. Answers come in the order of the requests."""

    def __init__(self, address: tuple[str, int], login: tuple[str, str] | None = None) -> None:
        """`login` is a user and a password, said by PLAIN."""
        self._socket = socket.create_connection(address, PATIENCE)
        self._correlation = 0
        if login is not None:
            self._log_in(*login)

    def _log_in(self, user: str, password: str) -> None:
        mechanism, token = b"PLAIN", f"\0{user}\0{password}".encode()
        for key, body in (
            (SASL_HANDSHAKE, struct.pack(">h", len(mechanism)) + mechanism),
            (SASL_AUTHENTICATE, struct.pack(">i", len(token)) + token),
        ):
            self.send(key, 1, body, flexible=False, client_id=CLIENT_ID, tags=b"")
            (code,) = struct.unpack(">h", self.receive()[4:6])
            if code:
                raise PermissionError(f"{user} was not let in: error {code}")

    def send(
        self, key: int, version: int, body: bytes, *, flexible: bool, client_id: bytes | None, tags: bytes
    ) -> int:
        """Send a request; its correlation id. `client_id` None is null."""
        self._correlation += 1
        head = struct.pack(">hhi", key, version, self._correlation)
        head += b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id)) + client_id
        head += tags if flexible else b""
        self.send_bytes(struct.pack(">i", len(head) + len(body)) + head + body)
        return self._correlation

    def send_bytes(self, data: bytes) -> None:
        """Send what need not be a request. Raises Closed."""
        try:
            self._socket.sendall(data)
        except ConnectionError:
            raise Closed from None

    def receive(self, patience: float = PATIENCE) -> bytes:
        """The next frame. Raises Closed, TimeoutError."""
        self._socket.settimeout(patience)
        return self._read(struct.unpack(">i", self._read(4))[0])

    def close(self) -> None:
        self._socket.close()

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                more = self._socket.recv(size - len(data))
            except ConnectionError:
                raise Closed from None
            if not more:
                raise Closed
            data += more
        return bytes(data)


class Kept(NamedTuple):
    """An answer for the comparison; `frame` is what came, empty where nothing did."""

    api: str
    version: int
    lines: list[Line]
    frame: bytes


class Server:
    """`name` is "kafka" or "magnetar"; `answers` are by label, in the order of the script."""

    def __init__(self, name: str, address: str, logins: Mapping[str, str] | None = None) -> None:
        """`logins` are passwords by user; the first is who prepares."""
        self.name = name
        self.logins = dict(logins or {})
        host, _, port = address.rpartition(":")
        self.address = (host, int(port))
        self.names = Names()
        self.names.port = int(port)
        self.answers: dict[str, Kept] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        # the versions of an API that both serve, and of the APIs that only one of them has
        self.common: dict[str, range] = {}
        self.alone: dict[str, range] = {}
        self._main: Connection | None = None
        listed = self.quietly("ApiVersions", 0, {})
        numbers = {key: name for name, key in api_keys().items()}
        self.served = {
            numbers[each["api_key"]]: range(each["min_version"], each["max_version"] + 1)
            for each in listed["api_keys"]
        }
        described = self.quietly("DescribeCluster", 0, {})
        self.node: int = described["brokers"][0]["broker_id"]
        self.names.cluster_id = described["cluster_id"]

    # -- asking -----------------------------------------------------------------------------------------------------

    def versions(self, api: str) -> range:
        """The versions of an API that both servers serve; none when only one has it."""
        return self.common.get(api, range(0))

    def newest(self, api: str, at_most: int = 99) -> int:
        """The newest version that both serve."""
        return min(self.versions(api)[-1], at_most)

    def connect(self, user: str | None = None) -> Connection:
        """One more connection, for scripts with several clients; of a user, or of who prepares."""
        user = user or next(iter(self.logins), None)
        return Connection(self.address, (user, self.logins[user]) if user is not None else None)

    @property
    def main(self) -> Connection:
        if self._main is None:
            self._main = self.connect()
        return self._main

    def ask(
        self,
        label: str,
        api: str,
        version: int | None,
        body: Mapping[str, Any] | bytes,
        *,
        on: Connection | None = None,
        client_id: bytes | None = CLIENT_ID,
        header_tags: bytes = b"\0",
        tags: bytes = b"\0",
        patience: float = PATIENCE,
    ) -> Answer:
        """Send a request and keep its answer for the comparison; the answer as it was. Version None is the newest."""
        version = self.newest(api) if version is None else version
        asked = self.send(
            label, api, version, body, on=on, client_id=client_id, header_tags=header_tags, tags=tags
        )
        return self.answer(asked, patience)

    def ask_all(self, label: str, api: str, body: Mapping[str, Any]) -> Answer:
        """The same in every version that both serve; the last answer."""
        answer: Answer = {}
        for version in self.versions(api):
            answer = self.ask(label, api, version, body)
        return answer

    def send(
        self,
        label: str,
        api: str,
        version: int | None,
        body: Mapping[str, Any] | bytes,
        *,
        on: Connection | None = None,
        client_id: bytes | None = CLIENT_ID,
        header_tags: bytes = b"\0",
        tags: bytes = b"\0",
    ) -> Asked:
        """Send a request whose answer is read later, by `answer`."""
        version = self.newest(api) if version is None else version
        message = load(api + "Request")
        payload = body if isinstance(body, bytes) else encode(message, version, body, tags=tags)
        connection = on or self.main
        flexible = version in message.flexible
        try:
            number = connection.send(
                message.api_key, version, payload, flexible=flexible, client_id=client_id, tags=header_tags
            )
        except Closed:
            number = -1
        return Asked(label, api, version, number, connection)

    def answer(self, asked: Asked, patience: float = PATIENCE) -> Answer:
        """Read the answer of a request and keep it for the comparison."""
        try:
            if asked.correlation < 0:
                raise Closed
            frame = asked.connection.receive(patience)
        except Closed:
            return self._without(asked, "closed")
        except TimeoutError:
            return self._without(asked, "no answer")
        return self._decode(asked, frame, keep=True)

    def silent(self, asked: Asked, patience: float) -> None:
        """Keep whether nothing comes within `patience` seconds: the request waits."""
        try:
            asked.connection.receive(patience)
            found = "answered"
        except Closed:
            found = "closed"
        except TimeoutError:
            found = "waits"
        self.keep(f"{asked.label} ({asked.api} v{asked.version})", "<connection>", found)

    def quietly(
        self,
        api: str,
        version: int,
        body: Mapping[str, Any],
        *,
        on: Connection | None = None,
        client_id: bytes = CLIENT_ID,
    ) -> Answer:
        """Send a request whose answer is not compared. Raises Closed."""
        message = load(api + "Request")
        connection = on or self.main
        try:
            number = connection.send(
                message.api_key,
                version,
                encode(message, version, body),
                flexible=version in message.flexible,
                client_id=client_id,
                tags=b"\0",
            )
            return self._decode(Asked("", api, version, number, connection), connection.receive(), keep=False)
        except Closed:
            self._drop(connection)
            raise

    def keep(self, label: str, what: str, found: str, api: str = "", version: int = -1) -> None:
        """Something that was seen and is no answer, to be compared as well."""
        self._keep(label, Kept(api, version, [Line(what, found.encode(), found)], b""))

    def close(self) -> None:
        if self._main is not None:
            self._main.close()
            self._main = None

    # -- keeping ----------------------------------------------------------------------------------------------------

    def _without(self, asked: Asked, what: str) -> Answer:
        self._drop(asked.connection)
        label = f"{asked.label} ({asked.api} v{asked.version})"
        self.keep(label, "<connection>", what, asked.api, asked.version)
        return {"<connection>": what}

    def _drop(self, connection: Connection) -> None:
        connection.close()
        if connection is self._main:
            self._main = None

    def _decode(self, asked: Asked, frame: bytes, *, keep: bool) -> Answer:
        """What the frame says. ApiVersions' header has no tags; a version that is none is answered in version 0."""
        response = load(asked.api + "Response")
        version = asked.version
        position = 4
        if asked.api == "ApiVersions":
            if frame[4:6] == b"\x00\x23":
                version = 0
        elif version in response.flexible:
            position = 5
        head = struct.unpack(">i", frame[:4])[0] - asked.correlation
        lines = [Line("<correlation>", frame[:4], "as asked")] if head else []
        if frame[4:position] not in (b"", b"\0"):
            lines.append(Line("<header tags>", frame[4:position], frame[4:position].hex()))
        try:
            node = walk(response, version, frame[position:])
        except Malformed as problem:
            lines.append(Line("<malformed>", frame[position:], str(problem)))
            if keep:
                self._keep(
                    f"{asked.label} ({asked.api} v{asked.version})", Kept(asked.api, version, lines, frame)
                )
            return {"<connection>": "malformed"}
        answer: Answer = plain(node)
        self._learn(answer)
        if keep:
            lines += self.names.lines(node)
            self._keep(
                f"{asked.label} ({asked.api} v{asked.version})", Kept(asked.api, asked.version, lines, frame)
            )
        return answer

    def _keep(self, label: str, kept: Kept) -> None:
        unique, number = label, 1
        while unique in self.answers:
            number += 1
            unique = f"{label} #{number}"
        self.answers[unique] = kept

    def _learn(self, answer: Answer) -> None:
        topics = answer.get("topics") or ()
        for topic in topics:
            if isinstance(topic, dict) and topic.get("name") and topic.get("topic_id", _NO_ID).int:
                self.topic_ids[topic["name"]] = topic["topic_id"]
                self.names.topics[topic["topic_id"]] = topic["name"]


def wait_until(done: Any, seconds: float = 30) -> None:
    """Ask again and again until `done()`; TimeoutError when that takes too long."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError("the server did not get ready")
        time.sleep(0.02)
