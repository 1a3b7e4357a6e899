"""A client of the group APIs: it asks through the codec, in any version."""

from __future__ import annotations

import asyncio
from typing import Any

import gateway.apis.find_coordinator
import gateway.apis.group_admin
import gateway.apis.groups
import gateway.apis.offset_commit
import gateway.apis.offset_fetch  # noqa: F401 - registered when imported
from gateway.apis.registry import APIS, Context
from gateway.peer import Peer
from gateway.promise import Promise
from gateway.wire import codec, messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.fake_broker import LOOP, FakeBroker

NO_ID = bytes(16)


PEER = Peer(1, "/10.0.0.1", "plain")


class Client:
    """Asks in one version of an API; everything goes through bytes and back."""

    def __init__(self, broker: FakeBroker, peer: Peer = PEER) -> None:
        self.broker = broker
        self.peer = peer

    def send(self, api: ApiKey, version: int, **fields: Any) -> Any:
        """A function that gives the response, None as long as it is awaited; a coroutine is waited for."""
        name = messages_name(api)
        frame = codec.encode_request(api, version, getattr(messages, f"{name}Request")(**fields))
        request = codec.decode_request(api, version, bytes(frame), 0)
        context = Context(self.peer, api, version, 1, "cli")
        handler = APIS[api].handler
        assert handler is not None
        answer = handler(self.broker, context, request)  # type: ignore[arg-type]

        def get() -> Any:
            response = finished(answer)
            if response is None:
                return None
            return codec.decode_response(
                api, version, bytes(codec.encode_response(api, version, response)), 0
            )

        return get

    def ask(self, api: ApiKey, version: int, **fields: Any) -> Any:
        response = self.send(api, version, **fields)()
        assert response is not None
        return response

    def join(self, version: int, member_id: str = "", group_id: str = "g", **fields: Any) -> Any:
        protocol = messages.JoinGroupRequest.JoinGroupRequestProtocol
        defaults: dict[str, Any] = {
            "group_id": group_id,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [protocol(name="range", metadata=SUBSCRIPTION)],
        }
        return self.send(ApiKey.JOIN_GROUP, version, **(defaults | fields))

    def member(self, version: int = 9, **fields: Any) -> str:
        """The id of the first member, joined and synced."""
        first = self.join(version, **fields)()
        if first is not None and first.error_code == Error.MEMBER_ID_REQUIRED:
            joined = self.join(version, first.member_id, **fields)
        else:
            joined = self.join(version, **fields)
        self.broker.advance(1_000)
        member_id: str = joined().member_id
        generation: int = joined().generation_id
        assignment = messages.SyncGroupRequest.SyncGroupRequestAssignment(
            member_id=member_id, assignment=b"A"
        )
        answer = self.ask(
            ApiKey.SYNC_GROUP,
            5,
            group_id="g",
            member_id=member_id,
            generation_id=generation,
            protocol_type=joined().protocol_type,
            protocol_name="range",
            assignments=[assignment],
        )
        assert answer.assignment == b"A"
        return member_id

    def commit(
        self, version: int, topic: Any, offset: int = 5, group_id: str = "g", **fields: Any
    ) -> dict[int, int]:
        """Partition -> error code."""
        request = messages.OffsetCommitRequest
        partitions = fields.pop("partitions", [0])
        metadata = fields.pop("metadata", "meta")
        asked = request.OffsetCommitRequestTopic(
            name=topic.name if version < 10 else "",
            topic_id=topic.topic_id if version >= 10 else NO_ID,
            partitions=[
                request.OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=2 if version >= 6 else -1,
                    committed_metadata=metadata,
                )
                for index in partitions
            ],
        )
        response = self.ask(ApiKey.OFFSET_COMMIT, version, group_id=group_id, topics=[asked], **fields)
        (found,) = response.topics
        if version >= 10:
            assert found.topic_id == topic.topic_id
        else:
            assert found.name == topic.name
        return {one.partition_index: one.error_code for one in found.partitions}

    def fetch(
        self, version: int, topic: Any, partitions: list[int], group_id: str = "g"
    ) -> list[tuple[Any, ...]]:
        """(partition, offset, leader epoch, metadata, error) of each."""
        request = messages.OffsetFetchRequest
        if version < 8:
            asked = [request.OffsetFetchRequestTopic(name=topic.name, partition_indexes=partitions)]
            response = self.ask(ApiKey.OFFSET_FETCH, version, group_id=group_id, topics=asked)
            (found,) = response.topics
        else:
            many = request.OffsetFetchRequestTopics(
                name=topic.name if version < 10 else "",
                topic_id=topic.topic_id if version >= 10 else NO_ID,
                partition_indexes=partitions,
            )
            group = request.OffsetFetchRequestGroup(group_id=group_id, topics=[many])
            response = self.ask(ApiKey.OFFSET_FETCH, version, groups=[group], require_stable=True)
            assert (response.groups[0].group_id, response.groups[0].error_code) == (group_id, 0)
            (found,) = response.groups[0].topics
        return [
            (
                one.partition_index,
                one.committed_offset,
                one.committed_leader_epoch,
                one.metadata,
                one.error_code,
            )
            for one in found.partitions
        ]


SUBSCRIPTION = b"\0\x01\0\0\0\x01\0\x01t\xff\xff\xff\xff"


class Unknown:
    """A topic that does not exist."""

    name = "unknown"
    topic_id = b"x" * 16


def messages_name(key: ApiKey) -> str:
    return APIS[key].name


def finished(answer: Any) -> Any:
    if isinstance(answer, Promise):
        answer = answer.now()
        return None if isinstance(answer, Promise) else answer
    if isinstance(answer, asyncio.Future):
        return answer.result() if answer.done() else None
    if asyncio.iscoroutine(answer):
        return LOOP.run_until_complete(answer)
    return answer
