"""A share consumer by hand: what it asks next, and what it learns from answers."""

from __future__ import annotations

import random
from typing import Any

from gateway.wire import codec, messages
from gateway.wire.malformed import Malformed
from tests.proofs.fuzz import frames

HEARTBEAT, FETCH, ACKNOWLEDGE = 76, 78, 79
VERSION = 2
PARTITIONS = (0, 1)

Fetch = messages.ShareFetchRequest
Acknowledge = messages.ShareAcknowledgeRequest


class Consumer:
    """One session. Requests come with their length."""

    def __init__(self, pick: random.Random, topic_id: bytes) -> None:
        self._pick = pick
        self._topic_id = topic_id
        self._group = pick.choice(frames.SHARE_GROUPS)
        self._member = pick.choice(frames.SHARE_MEMBERS)
        self._epoch = 0
        self._asked = 0
        # acquired: partition -> (first, last)
        self._hand: list[tuple[int, int, int]] = []

    def join(self) -> bytes:
        return frames.request(
            HEARTBEAT,
            1,
            messages.ShareGroupHeartbeatRequest(
                group_id=self._group,
                member_id=self._member,
                member_epoch=0,
                rack_id=None,
                subscribed_topic_names=list(frames.TOPICS),
            ),
        )

    def next(self) -> bytes:
        """A ShareFetch, or a ShareAcknowledge of what is in hand."""
        pick = self._pick
        hand, self._hand = self._hand, []
        if self._epoch and pick.random() < 0.4:
            self._asked = ACKNOWLEDGE
            body: Any = Acknowledge(
                group_id=self._group,
                member_id=self._member,
                share_session_epoch=self._epoch,
                is_renew_ack=False,
                topics=[
                    Acknowledge.AcknowledgeTopic(
                        topic_id=self._topic_id,
                        partitions=[
                            Acknowledge.AcknowledgePartition(
                                partition_index=index,
                                acknowledgement_batches=self._acks(Acknowledge, hand, index),
                            )
                            for index in PARTITIONS
                        ],
                    )
                ],
            )
        else:
            self._asked = FETCH
            body = Fetch(
                group_id=self._group,
                member_id=self._member,
                share_session_epoch=self._epoch,
                max_wait_ms=pick.choice((0, 5)),
                min_bytes=1,
                max_bytes=1 << 20,
                max_records=pick.choice((1, 50, 500)),
                batch_size=100,
                share_acquire_mode=pick.choice((0, 1)),
                is_renew_ack=False,
                topics=[
                    Fetch.FetchTopic(
                        topic_id=self._topic_id,
                        partitions=[
                            Fetch.FetchPartition(
                                partition_index=index,
                                acknowledgement_batches=self._acks(Fetch, hand, index) if self._epoch else [],
                            )
                            for index in PARTITIONS
                        ],
                    )
                ],
                forgotten_topics_data=[],
            )
        self._epoch += 1
        return frames.request(self._asked, VERSION, body)

    def _acks(self, kind: Any, hand: list[tuple[int, int, int]], index: int) -> list[Any]:
        return [
            kind.AcknowledgementBatch(
                first_offset=first,
                last_offset=last,
                acknowledge_types=[self._pick.choice((0, 1, 1, 2, 2, 3))],
            )
            for partition, first, last in sorted(hand)
            if partition == index
        ]

    def learn(self, answer: bytes) -> None:
        """The session's epoch is lost after a mutated request that counted: then a new one begins."""
        try:
            found = codec.decode_response(self._asked, VERSION, answer, 5)
        except Malformed:
            return
        if found.error_code:
            self._epoch = 0
        elif self._asked == FETCH:
            self._hand = [
                (part.partition_index, run.first_offset, run.last_offset)
                for topic in found.responses
                for part in topic.partitions
                for run in part.acquired_records
            ]
