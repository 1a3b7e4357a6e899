"""Work in slices: what is little is there at once, of what is much others wait for one slice only."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any

import pytest

import gateway.apis.quotas
import gateway.apis.replicas  # noqa: F401 - registered when imported
from gateway.apis import slices
from gateway.apis.registry import APIS, Context
from gateway.apis.slices import SLICE, answered
from gateway.broker.client_quotas import ClientQuotas
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store.pending import Pending
from tests.gateway.apis.group_client import PEER
from tests.gateway.broker.fake_broker import FakeBroker


def turns(work: Coroutine[Any, Any, Any], made: list[int]) -> tuple[list[int], Any]:
    """How many were made each time that others had their turn, and the answer."""
    counts = [len(made)]
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            return counts, end.value
        counts.append(len(made))


def test_what_is_little_is_there_at_once() -> None:
    assert answered(range(SLICE - 1), str, len) == SLICE - 1


def test_others_have_their_turn_after_each_slice() -> None:
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        return number

    work = answered(range(3 * SLICE + 5), make, lambda numbers: numbers)
    assert isinstance(work, Coroutine)
    counts, answer = turns(work, made)
    assert counts == [SLICE, SLICE, 2 * SLICE, 3 * SLICE]
    assert answer == list(range(3 * SLICE + 5))


def test_what_is_heavy_is_a_slice_of_its_own() -> None:
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        return number

    work = answered([1, 1, SLICE, 2 * SLICE, 1], make, lambda numbers: sum(numbers), lambda number: number)
    assert isinstance(work, Coroutine)
    assert turns(work, made) == ([3, 3, 4], 3 * SLICE + 3)


def test_the_answer_may_have_to_be_waited_for() -> None:
    async def later() -> str:
        return "done"

    def answer(made: list[int]) -> Pending[str]:
        return later()

    for count in (1, slices.SLICE + 1):
        work = answered(range(count), int, answer)
        assert isinstance(work, Awaitable)
        assert isinstance(work, Coroutine)
        assert turns(work, [])[1] == "done"


def elections() -> Any:
    request = messages.ElectLeadersRequest
    named = [
        request.TopicPartitions(topic=name, partitions=[0, 1, 2, 3, 4]) for name in ("t", "u", "missing")
    ]
    return request(election_type=0, topic_partitions=named, timeout_ms=1_000)


def reassignments() -> Any:
    request = messages.AlterPartitionReassignmentsRequest
    named = [
        request.ReassignableTopic(
            name=name,
            partitions=[request.ReassignablePartition(partition_index=at, replicas=[7]) for at in range(5)],
        )
        for name in ("t", "u", "missing")
    ]
    return request(topics=named, timeout_ms=1_000)


def quotas() -> Any:
    request = messages.AlterClientQuotasRequest
    kinds = ["user"] * 5 + ["client-id"] * 5 + ["bogus"] * 5
    entries = [
        request.EntryData(entity=[request.EntityData(entity_type=kind, entity_name="x")], ops=[])
        for kind in kinds
    ]
    return request(entries=entries, validate_only=False)


NEEDLESS, MISSING = Error.ELECTION_NOT_NEEDED, Error.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("api", "request_of", "told", "codes"),
    [
        (
            ApiKey.ELECT_LEADERS,
            elections,
            lambda answer: [
                [each.error_code for each in topic.partition_result]
                for topic in answer.replica_election_results
            ],
            [[NEEDLESS] * 5, [NEEDLESS] * 2 + [MISSING] * 3, [MISSING] * 5],
        ),
        (
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            reassignments,
            lambda answer: [[each.error_code for each in topic.partitions] for topic in answer.responses],
            [[0] * 5, [0] * 2 + [MISSING] * 3, [MISSING] * 5],
        ),
        (
            ApiKey.ALTER_CLIENT_QUOTAS,
            quotas,
            lambda answer: [each.error_code for each in answer.entries],
            [0] * 10 + [Error.INVALID_REQUEST] * 5,
        ),
    ],
    ids=["ElectLeaders", "AlterPartitionReassignments", "AlterClientQuotas"],
)
def test_an_answer_with_many_parts_is_made_in_slices(
    monkeypatch: pytest.MonkeyPatch, api: ApiKey, request_of: Any, told: Any, codes: Any
) -> None:
    monkeypatch.setattr(slices, "SLICE", 4)
    broker: Any = FakeBroker()
    broker.topic("t", 5)
    broker.topic("u", 2)
    broker.client_quotas = ClientQuotas(broker, broker.metrics.throttled)
    handler: Any = APIS[api].handler
    work = handler(broker, Context(PEER, api, 1, 1, "cli"), request_of())
    assert isinstance(work, Coroutine)
    counts, answer = turns(work, [])
    # before the first one, and after each
    assert len(counts) == 1 + 3
    assert told(answer) == codes
