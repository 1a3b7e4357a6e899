"""A member of the classic protocol in frames written by hand."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gateway.coordinators.subscription import assignment
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.coordinators.mixed_bench import metadata
from tests.gateway.serving import Client


class Old:
    """A member of the classic protocol, an eager one."""

    def __init__(self, client: Client, name: str = "range", instance: str | None = None) -> None:
        self.client, self.name, self.instance = client, name, instance
        self.member_id, self.generation = "", -1

    async def join(self, *topics: str, owned: Collection[tuple[str, int]] = ()) -> Any:
        request = messages.JoinGroupRequest
        answer = await self.client.ask(
            ApiKey.JOIN_GROUP,
            9,
            request(
                group_id="g",
                session_timeout_ms=30_000,
                rebalance_timeout_ms=30_000,
                member_id=self.member_id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocols=[
                    request.JoinGroupRequestProtocol(
                        name=self.name, metadata=metadata(topics or ("t",), owned)
                    )
                ],
            ),
        )
        self.member_id = answer.member_id or self.member_id
        if answer.error_code == Error.MEMBER_ID_REQUIRED:
            return await self.join(*topics, owned=owned)
        self.generation = answer.generation_id
        return answer

    async def sync(self, shares: dict[str, bytes] | None = None) -> Any:
        """The error, or the partitions by topic."""
        request = messages.SyncGroupRequest
        answer = await self.client.ask(
            ApiKey.SYNC_GROUP,
            5,
            request(
                group_id="g",
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocol_name=self.name,
                assignments=[
                    request.SyncGroupRequestAssignment(member_id=member, assignment=share)
                    for member, share in (shares or {}).items()
                ],
            ),
        )
        return answer.error_code or assignment(bytes(answer.assignment))

    async def beat(self) -> int:
        answer = await self.client.ask(
            ApiKey.HEARTBEAT,
            4,
            messages.HeartbeatRequest(
                group_id="g",
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance,
            ),
        )
        return int(answer.error_code)

    async def leave(self) -> int:
        request = messages.LeaveGroupRequest
        member = request.MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        answer = await self.client.ask(ApiKey.LEAVE_GROUP, 5, request(group_id="g", members=[member]))
        return int(answer.members[0].error_code)

    async def alone(self, partitions: int = 2, topic: str = "t") -> None:
        """The only member of a classic group, with all partitions."""
        assert (await self.join(topic)).error_code == 0
        all_of_it = b"\0\1\0\0\0\1\0" + bytes([len(topic)]) + topic.encode()
        all_of_it += partitions.to_bytes(4, "big")
        all_of_it += b"".join(index.to_bytes(4, "big") for index in range(partitions)) + b"\xff" * 4
        assert await self.sync({self.member_id: all_of_it}) == {topic: list(range(partitions))}
