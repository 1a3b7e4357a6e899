"""A transactional producer in frames written by hand: of the old protocol (V1), or of KIP-890 (V2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.broker.asking import fetch, told
from tests.gateway.broker.held import part
from tests.gateway.serving import Client, batch, produce_body


class Tx:
    """Each method answers the error code that it got."""

    def __init__(self, client: Client, name: str = "tx", *, new: bool = False, timeout: int = 60_000) -> None:
        self.client = client
        self.name = name
        self.new = new
        self.timeout = timeout
        self.id = self.epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}

    @property
    def who(self) -> dict[str, Any]:
        return {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}

    def _became(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.id, self.epoch):
            self._sequences.clear()
        self.id, self.epoch = producer_id, epoch

    async def init(self, *, again: bool = False) -> int:
        """`again`: it says who it was."""
        said: dict[str, Any] = {"producer_id": self.id, "producer_epoch": self.epoch} if again else {}
        answer = await self.client.ask(
            ApiKey.INIT_PRODUCER_ID,
            5,
            messages.InitProducerIdRequest(
                transactional_id=self.name, transaction_timeout_ms=self.timeout, **said
            ),
        )
        if not answer.error_code:
            self._became(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    async def add(self, topic: str = "t", *indexes: int) -> int:
        """V1: partitions are added before batches are sent to them. All have the same error, or this fails."""
        request = messages.AddPartitionsToTxnRequest
        answer = await self.client.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            request(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=self.id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[
                    request.AddPartitionsToTxnTopic(name=topic, partitions=list(indexes or (0,)))
                ],
            ),
        )
        (result,) = answer.results_by_topic_v3_and_below
        (code,) = {each.partition_error_code for each in result.results_by_partition}
        return int(code)

    async def put(
        self, *values: bytes, topic: str = "t", index: int = 0, added: bool = False, **options: Any
    ) -> int:
        """A batch; a producer of V1 adds the partition first, unless that was done."""
        if not self.new and not added and (code := await self.add(topic, index)):
            return code
        sequence = self._sequences.get((topic, index), 0)
        data = batch(
            *values,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
            **options,
        )
        body = produce_body(topic, data, partition=index)
        body.transactional_id = self.name
        found = part(await self.client.ask(ApiKey.PRODUCE, 12 if self.new else 10, body))
        if not found.error_code:
            self._sequences[topic, index] = sequence + len(values)
        return int(found.error_code)

    def rewind(self, topic: str, index: int, count: int) -> None:
        """The next batch has a sequence number that is lower by so many."""
        self._sequences[topic, index] -= count

    async def end(self, committed: bool = True) -> int:
        answer = await self.client.ask(
            ApiKey.END_TXN,
            5 if self.new else 4,
            messages.EndTxnRequest(**self.who, committed=committed),
        )
        if not answer.error_code and self.new:
            self._became(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    async def offsets(
        self,
        group: str,
        those: Mapping[tuple[str, int], int | tuple[int, str]],
        *,
        member: str = "",
        generation: int = -1,
        added: bool = False,
    ) -> int:
        """Offsets of a group, some with metadata, of a member of it or of nobody. All have the same error, or this
        fails.
        """
        if not self.new and not added:
            answer = await self.client.ask(
                ApiKey.ADD_OFFSETS_TO_TXN, 3, messages.AddOffsetsToTxnRequest(**self.who, group_id=group)
            )
            if answer.error_code:
                return int(answer.error_code)
        request = messages.TxnOffsetCommitRequest
        topics: dict[str, list[Any]] = {}
        for (topic, index), each in those.items():
            offset, metadata = each if isinstance(each, tuple) else (each, f"at {each}")
            topics.setdefault(topic, []).append(
                request.TxnOffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=-1,
                    committed_metadata=metadata,
                )
            )
        answer = await self.client.ask(
            ApiKey.TXN_OFFSET_COMMIT,
            5 if self.new else 3,
            request(
                **self.who,
                group_id=group,
                generation_id=generation,
                member_id=member,
                group_instance_id=None,
                topics=[
                    request.TxnOffsetCommitRequestTopic(name=topic, partitions=its)
                    for topic, its in topics.items()
                ],
            ),
        )
        (code,) = {each.error_code for topic in answer.topics for each in topic.partitions}
        return int(code)


async def committed(
    client: Client, group: str, topic: str = "t", index: int = 0, *, stable: bool = False
) -> tuple[int, int]:
    """(error code, offset) of what a group has committed."""
    request = messages.OffsetFetchRequest
    answer = await client.ask(
        ApiKey.OFFSET_FETCH,
        8,
        request(
            groups=[
                request.OffsetFetchRequestGroup(
                    group_id=group,
                    topics=[request.OffsetFetchRequestTopics(name=topic, partition_indexes=[index])],
                )
            ],
            require_stable=stable,
        ),
    )
    ((one,),) = [topic.partitions for topic in answer.groups[0].topics]
    return one.error_code, one.committed_offset


async def stable_offset(client: Client, topic: str = "t", index: int = 0) -> int:
    """Up to where readers of committed records may read."""
    answer = await fetch(client, {topic: {index: 0}}, isolation=1)
    return int(told(answer)[index].last_stable_offset)
