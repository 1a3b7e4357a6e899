"""Transactions over the wire, of producers of both protocols; what tools see of them."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from gateway.apis import transactions
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.patterns import Expression
from store import rocksdb
from tests.gateway.apis import homes_asking
from tests.gateway.apis.transacting import Tx, committed, stable_offset
from tests.gateway.broker.asking import fetch, told
from tests.gateway.broker.held import Clock, run, serving_on
from tests.gateway.serving import Client, create

BOTH = pytest.mark.parametrize("new", [False, True], ids=["V1", "V2"])


async def aborted(client: Client, topic: str = "t", index: int = 0) -> list[tuple[int, int]]:
    """(producer id, first offset) of what readers of committed records are told to pass over."""
    answer = await fetch(client, {topic: {index: 0}}, isolation=1)
    found = told(answer)[index].aborted_transactions or []
    return [(each.producer_id, each.first_offset) for each in found]


@BOTH
def test_what_is_committed_is_readable_when_that_is_answered(new: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        tx = Tx(client, new=new)
        assert await tx.init() == 0
        assert [await tx.put(b"a", b"b"), await tx.put(b"c", index=1)] == [0, 0]
        assert [await stable_offset(client, index=index) for index in (0, 1)] == [0, 0]
        assert await tx.end() == 0
        assert [await stable_offset(client, index=index) for index in (0, 1)] == [3, 2]
        assert await aborted(client) == []
        # and the next one is another
        assert [await tx.put(b"d"), await tx.end(committed=False)] == [0, 0]
        assert await stable_offset(client) == 5
        assert await aborted(client) == [(tx.id, 3)]

    run(test)


@BOTH
def test_an_end_that_is_told_again_is_what_it_was(new: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        tx = Tx(client, new=new)
        await tx.init()
        await tx.put(b"a")
        before = tx.epoch
        assert await tx.end() == 0
        after, tx.epoch = tx.epoch, before
        assert await tx.end() == 0
        assert tx.epoch == after
        assert await stable_offset(client) == 2, "there is one marker"
        tx.epoch = before
        assert await tx.end(committed=False) == Error.INVALID_TXN_STATE

    run(test)


@BOTH
def test_whoever_begins_anew_fences_the_one_before_and_aborts_its_transaction(new: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        zombie, tx = Tx(client, new=new), Tx(client, new=new)
        await zombie.init()
        await zombie.put(b"a")
        assert await tx.init() == 0
        assert (tx.id, tx.epoch) == (zombie.id, zombie.epoch + 1)
        assert await stable_offset(client) == 2
        assert await aborted(client) == [(tx.id, 0)]
        fenced = Error.INVALID_PRODUCER_EPOCH if new else Error.PRODUCER_FENCED
        assert await zombie.put(b"b") == fenced
        assert await zombie.put(b"b", added=True) == Error.INVALID_PRODUCER_EPOCH
        assert await zombie.end() == Error.PRODUCER_FENCED
        assert await zombie.offsets("g", {("t", 0): 1}) == fenced
        assert await zombie.init(again=True) == Error.PRODUCER_FENCED
        assert [await tx.put(b"c"), await tx.end()] == [0, 0]
        assert await stable_offset(client) == 4

    run(test)


def test_a_partition_that_was_not_added_takes_no_batch_of_a_transaction() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        tx = Tx(client)
        await tx.init()
        assert await tx.put(b"a", added=True) == Error.INVALID_TXN_STATE
        assert await tx.put(b"a", index=1) == 0
        assert await tx.put(b"b", added=True) == Error.INVALID_TXN_STATE
        assert await tx.end() == 0
        assert [await stable_offset(client, index=index) for index in (0, 1)] == [0, 2]

    run(test)


@pytest.mark.parametrize(
    ("topic", "index", "code"),
    [
        ("missing", 0, Error.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 7, Error.UNKNOWN_TOPIC_OR_PARTITION),
        ("memory", 0, Error.POLICY_VIOLATION),
    ],
)
def test_all_partitions_are_added_or_none(topic: str, index: int, code: Error) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await create(client, "memory", pulsar__persistence="non-persistent")
        tx = Tx(client)
        await tx.init()
        request = messages.AddPartitionsToTxnRequest
        answer = await client.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            5,
            request(
                transactions=[
                    request.AddPartitionsToTxnTransaction(
                        **tx.who,
                        verify_only=False,
                        topics=[
                            request.AddPartitionsToTxnTopic(name="t", partitions=[0]),
                            request.AddPartitionsToTxnTopic(name=topic, partitions=[index]),
                        ],
                    )
                ]
            ),
        )
        (result,) = answer.results_by_transaction
        found = [
            (each.name, one.partition_index, one.partition_error_code)
            for each in result.topic_results
            for one in each.results_by_partition
        ]
        assert found == [("t", 0, Error.OPERATION_NOT_ATTEMPTED), (topic, index, code)]
        assert gateway.broker.transactions.describe("tx").state == "Empty"  # type: ignore[union-attr]

    run(test)


@BOTH
def test_a_transaction_that_is_open_for_too_long_is_aborted(new: bool) -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        tx = Tx(client, new=new, timeout=10_000)
        await tx.init()
        await tx.put(b"a")
        clock.now += 9_999
        await gateway.broker.transactions.time_out()
        assert await stable_offset(client) == 0
        clock.now += 1
        await gateway.broker.transactions.time_out()
        assert await stable_offset(client) == 2
        assert await aborted(client) == [(tx.id, 0)]
        assert await tx.end() == Error.INVALID_TXN_STATE
        assert await tx.put(b"b") == (Error.INVALID_PRODUCER_EPOCH if new else Error.PRODUCER_FENCED)
        # nobody else has begun: it may go on
        assert [await tx.end(committed=False), await tx.init(again=True)] == [0, 0]
        assert [await tx.put(b"b"), await tx.end()] == [0, 0]

    run(test, clock=clock)


def test_a_timeout_may_not_be_longer_than_the_gateway_allows() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        assert await Tx(client, timeout=5_001).init() == Error.INVALID_TRANSACTION_TIMEOUT
        assert await Tx(client, timeout=5_000).init() == 0

    run(test, "transaction.max.timeout.ms=5000")


@BOTH
def test_an_open_transaction_lives_through_a_restart(new: bool, tmp_path: Path) -> None:
    async def first(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        tx = Tx(client, new=new)
        await tx.init()
        await tx.put(b"a")
        await tx.put(b"b", index=1)
        await tx.offsets("g", {("t", 0): 5})
        kept.append(tx)

    async def second(gateway: Gateway, client: Client) -> None:
        (tx,) = kept
        tx.client = client
        assert await stable_offset(client) == 0
        assert await committed(client, "g") == (0, -1)
        assert await committed(client, "g", stable=True) == (Error.UNSTABLE_OFFSET_COMMIT, -1)
        assert await tx.put(b"c") == 0
        assert await tx.end() == 0
        assert [await stable_offset(client, index=index) for index in (0, 1)] == [3, 2]
        assert await committed(client, "g", stable=True) == (0, 5)

    async def main() -> None:
        for body in (first, second):
            async with serving_on(await rocksdb.open(tmp_path / "data")) as gateway:
                client = await Client.connect(gateway)
                await body(gateway, client)
                client.close()

    kept: list[Tx] = []
    uvloop.run(main())


def test_tools_see_what_there_is() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 3)
        one, two = Tx(client, "one", timeout=7_000), Tx(client, "two", new=True)
        for tx in (one, two):
            await tx.init()
        await one.put(b"a", index=2)
        await one.put(b"a", index=1)
        began = clock.now
        clock.now += 5_000
        describe = messages.DescribeTransactionsRequest(transactional_ids=["one", "two", "three", ""])
        answer = await client.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, describe)
        found = [
            (
                each.error_code,
                each.transaction_state,
                [(topic.topic, topic.partitions) for topic in each.topics],
            )
            for each in answer.transaction_states
        ]
        assert found == [
            (0, "Ongoing", [("t", [1, 2])]),
            (0, "Empty", []),
            (Error.TRANSACTIONAL_ID_NOT_FOUND, "", []),
            (Error.INVALID_REQUEST, "", []),
        ]
        state = answer.transaction_states[0]
        assert (state.producer_id, state.producer_epoch) == (one.id, one.epoch)
        assert (state.transaction_timeout_ms, state.transaction_start_time_ms) == (7_000, began)

        async def listed(**filters: Any) -> tuple[list[str], list[str]]:
            asked = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1, **filters}
            answer = await client.ask(ApiKey.LIST_TRANSACTIONS, 1, messages.ListTransactionsRequest(**asked))
            return [each.transactional_id for each in answer.transaction_states], answer.unknown_state_filters

        assert await listed() == (["one", "two"], [])
        assert await listed(state_filters=["Ongoing", "Sleepy"]) == (["one"], ["Sleepy"])
        assert await listed(producer_id_filters=[two.id]) == (["two"], [])
        assert await listed(state_filters=["Ongoing"], duration_filter=5_000) == ([], [])
        assert await listed(state_filters=["Ongoing"], duration_filter=4_999) == (["one"], [])

    run(test, clock=clock)


async def matching(client: Client, pattern: str | None, version: int = 2) -> Any:
    """The ids that match, or the error."""
    request = messages.ListTransactionsRequest(
        state_filters=[], producer_id_filters=[], duration_filter=-1, transactional_id_pattern=pattern
    )
    answer = await client.ask(ApiKey.LIST_TRANSACTIONS, version, request)
    return answer.error_code or [each.transactional_id for each in answer.transaction_states]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (None, ["a1", "a2", "b/é x"]),
        ("", ["a1", "a2", "b/é x"]),
        (".*", ["a1", "a2", "b/é x"]),
        (r"a\d", ["a1", "a2"]),
        ("a", []),
        ("^a[^2]$|b.*", ["a1", "b/é x"]),
        (r"b/.\sx", ["b/é x"]),
        (r"b/\W\S?\sx", ["b/é x"]),
        ("b/[é] .", ["b/é x"]),
        ("(a", Error.INVALID_REGULAR_EXPRESSION),
        ("[", Error.INVALID_REGULAR_EXPRESSION),
        ("*", Error.INVALID_REGULAR_EXPRESSION),
        (r"(.)\1", Error.INVALID_REGULAR_EXPRESSION),
        # what would take others the lifetime of the universe
        ("(a+)+" * 20, []),
    ],
)
def test_ids_are_found_by_an_expression(pattern: str | None, found: Any) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        for name in ("a1", "a2", "b/é x"):
            await Tx(client, name).init()
        assert await matching(client, pattern) == found
        assert await matching(client, pattern, 1) == ["a1", "a2", "b/é x"], "older versions have none"

    run(test)


def turns(work: Coroutine[Any, Any, bool]) -> tuple[int, bool]:
    """How often it lets others have their turn, and what comes of it."""
    count = 0
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            return count, end.value
        count += 1


def test_others_have_their_turn_while_long_ids_are_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "LETTERS", 10)
    named = transactions._Named(Expression(".*b"))
    # 42 letters in all
    assert [turns(named.matches(name)) for name in ("a" * 34 + "b", "a" * 6, "b")] == [
        (3, True),
        (1, False),
        (0, True),
    ]


def test_an_expression_is_over_the_ids_of_a_clients_home() -> None:
    async def test(gateway: Gateway, one: Client, two: Client, _: Client) -> None:
        await Tx(one, "a").init()
        await Tx(two, "a").init()
        await Tx(two, "shop").init()
        assert await matching(one, ".*") == ["a"]
        assert await matching(two, ".") == ["a"]
        assert await matching(two, "shop.*") == ["shop"]

    homes_asking.run(test)


def test_a_tool_aborts_the_whole_of_a_transaction_and_commits_none() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        tx = Tx(client)
        await tx.init()
        await tx.put(b"a")
        await tx.put(b"b", index=1)

        async def mark(committed: bool, producer_id: int, epoch: int) -> int:
            request = messages.WriteTxnMarkersRequest
            answer = await client.ask(
                ApiKey.WRITE_TXN_MARKERS,
                1,
                request(
                    markers=[
                        request.WritableTxnMarker(
                            producer_id=producer_id,
                            producer_epoch=epoch,
                            transaction_result=committed,
                            coordinator_epoch=0,
                            topics=[request.WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
                        )
                    ]
                ),
            )
            ((one,),) = [topic.partitions for topic in answer.markers[0].topics]
            return int(one.error_code)

        assert await mark(True, tx.id, tx.epoch) == Error.INVALID_TXN_STATE
        assert await mark(False, tx.id + 77, tx.epoch) == Error.INVALID_PRODUCER_ID_MAPPING
        assert await mark(False, tx.id, tx.epoch + 1) == Error.INVALID_PRODUCER_EPOCH
        assert await stable_offset(client) == 0
        assert await mark(False, tx.id, tx.epoch) == 0
        assert [await stable_offset(client, index=index) for index in (0, 1)] == [2, 2]
        assert [await aborted(client, index=index) for index in (0, 1)] == [[(tx.id, 0)]] * 2

    run(test)


def test_an_end_that_comes_late_on_an_older_connection_ends_no_other_transaction() -> None:
    """KAFKA-17754: the client gave up the connection, tried again on another, and went on."""

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        newer = await Client.connect(gateway)
        tx = Tx(newer)
        await tx.init()
        await tx.put(b"a")
        assert await tx.end() == 0
        assert await tx.put(b"b") == 0
        tx.client = client
        assert await tx.end() != 0
        assert await stable_offset(newer) == 2
        tx.client = newer
        assert await tx.end() == 0
        assert await stable_offset(newer) == 4
        newer.close()

    run(test)


def test_a_batch_of_a_transaction_that_is_over_is_never_taken_for_one_of_the_next() -> None:
    """A client that forgets a batch without having heard of it sends others under its sequence numbers."""

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        tx = Tx(client)
        await tx.init()
        assert await tx.put(b"forgotten") == 0
        assert await tx.end(committed=False) == 0
        tx.rewind("t", 0, 1)
        assert await tx.put(b"new") == Error.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await tx.put(b"new", b"and another") == Error.OUT_OF_ORDER_SEQUENCE_NUMBER
        # where something of the next one is stored already
        tx.rewind("t", 0, -1)
        assert await tx.put(b"next") == 0
        tx.rewind("t", 0, 2)
        assert await tx.put(b"new") == Error.OUT_OF_ORDER_SEQUENCE_NUMBER
        tx.rewind("t", 0, -1)
        assert await tx.put(b"next") == 0, "its own is repeated"
        assert [await tx.end(), await stable_offset(client)] == [0, 4]

    run(test)


def test_who_is_not_the_producer_makes_none_of_its_ends_late() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        zombie, live = Tx(client), Tx(await Client.connect(gateway))
        await zombie.init()
        await zombie.put(b"z")
        assert [await live.init(), await live.put(b"l")] == [0, 0]
        zombie.client = await Client.connect(gateway)
        stranger = Tx(await Client.connect(gateway), "nobody")
        stranger.id, stranger.epoch = live.id, live.epoch
        assert await zombie.end() == Error.PRODUCER_FENCED
        assert await stranger.end() == Error.INVALID_PRODUCER_ID_MAPPING
        assert await live.end() == 0
        for tx in (zombie, live, stranger):
            tx.client.close()

    run(test)


def test_a_batch_under_another_transactional_id_than_its_producers_is_refused() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await create(client, "mine")
        tx, stranger = Tx(client, new=True), Tx(client, "nobody", new=True)
        await tx.init()
        await tx.put(b"a")
        stranger.id, stranger.epoch = tx.id, tx.epoch
        assert await stranger.put(b"x", topic="mine") == Error.INVALID_PRODUCER_ID_MAPPING
        assert [await tx.end(), await stable_offset(client, "mine")] == [0, 0]

    run(test)


def test_a_transactional_id_has_a_longest_length() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        assert await Tx(client, "é" * 512).init() == 0
        assert await Tx(client, "x" * 1025).init() == Error.INVALID_REQUEST

    run(test)


def test_nobody_aborts_the_transaction_of_another_home() -> None:
    async def test(gateway: Gateway, one: Client, two: Client, _: Client) -> None:
        await create(one, "t")
        await create(two, "t")
        request = messages.WriteTxnMarkersRequest
        for owner, other in ((one, two), (two, one)):
            tx = Tx(owner)
            await tx.init()
            await tx.put(b"a")
            topic = request.WritableTxnMarkerTopic(name="t", partition_indexes=[0])
            marker = request.WritableTxnMarker(
                producer_id=tx.id,
                producer_epoch=tx.epoch,
                transaction_result=False,
                coordinator_epoch=0,
                topics=[topic],
            )
            answer = await other.ask(ApiKey.WRITE_TXN_MARKERS, 1, request(markers=[marker]))
            ((told,),) = [each.partitions for each in answer.markers[0].topics]
            assert told.error_code == Error.INVALID_PRODUCER_ID_MAPPING
            assert await tx.end() == 0

    homes_asking.run(test)


def test_clients_of_two_homes_may_use_one_transactional_id() -> None:
    async def test(gateway: Gateway, one: Client, two: Client, _: Client) -> None:
        first, second = Tx(one), Tx(two)
        await create(one, "t")
        await create(two, "t")
        assert [await first.init(), await second.init()] == [0, 0]
        assert first.id != second.id
        assert [await first.put(b"a"), await second.put(b"b")] == [0, 0]
        assert [await first.end(), await second.end()] == [0, 0]
        assert [await stable_offset(one), await stable_offset(two)] == [2, 2]
        every = messages.ListTransactionsRequest(state_filters=[], producer_id_filters=[], duration_filter=-1)
        answer = await two.ask(ApiKey.LIST_TRANSACTIONS, 1, every)
        assert [(each.transactional_id, each.producer_id) for each in answer.transaction_states] == [
            ("tx", second.id)
        ]

    homes_asking.run(test)
