"""ShareFetch and ShareAcknowledge by hand against the codec that the schemas give, and against bytes that lie."""

from __future__ import annotations

import itertools
import struct
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.broker.requests import ShareTold
from gateway.wire import codec, compiler, share
from gateway.wire.malformed import Malformed
from gateway.wire.primitives import NO_GROUP_HAS
from gateway.wire.varint import encode_uvarint
from tests.examples import examples
from tests.gateway.wire.values import Values

versions = st.sampled_from((1, 2))
i16 = st.integers(-(2**15), 2**15 - 1)
i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
ids = st.binary(min_size=16, max_size=16)
texts = st.none() | st.text(max_size=200)
# what no group may have is refused: see tests/gateway/apis/test_homes_groups.py
groups = texts.filter(lambda text: NO_GROUP_HAS not in (text or ""))
acks = st.lists(
    st.tuples(i64, i64, st.one_of(st.binary(min_size=1, max_size=1), st.binary(max_size=200))), max_size=6
)
asked = st.lists(st.tuples(ids, st.lists(st.tuples(i32, acks), max_size=3)), max_size=3)
forgotten = st.lists(st.tuples(ids, st.lists(i32, max_size=200)), max_size=2)


def fetch_body(version: int, topics: list[Any], forgotten: list[Any] = (), **fields: Any) -> bytes:  # type: ignore[assignment]
    """A ShareFetch request as the generated codec writes it, without a header."""
    made = compiler.classes("ShareFetchRequest")
    values = {
        "group_id": "g",
        "member_id": "m",
        "share_session_epoch": 1,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1000,
        "max_records": 500,
        "batch_size": 400,
    } | fields
    message = made[""](
        topics=[
            made["FetchTopic"](
                topic_id=topic,
                partitions=[
                    made["FetchPartition"](partition_index=index, acknowledgement_batches=batches(made, acks))
                    for index, acks in partitions
                ],
            )
            for topic, partitions in topics
        ],
        forgotten_topics_data=[made["ForgottenTopic"](topic_id=t, partitions=p) for t, p in forgotten],
        **values,
    )
    return codec.encode_request(78, version, message)


def acknowledge_body(version: int, topics: list[Any], **fields: Any) -> bytes:
    made = compiler.classes("ShareAcknowledgeRequest")
    message = made[""](
        topics=[
            made["AcknowledgeTopic"](
                topic_id=topic,
                partitions=[
                    made["AcknowledgePartition"](
                        partition_index=index, acknowledgement_batches=batches(made, acks)
                    )
                    for index, acks in partitions
                ],
            )
            for topic, partitions in topics
        ],
        **({"group_id": "g", "member_id": "m", "share_session_epoch": 1} | fields),
    )
    return codec.encode_request(79, version, message)


def batches(made: Any, acks: list[Any]) -> list[Any]:
    return [
        made["AcknowledgementBatch"](
            first_offset=first,
            last_offset=last,
            acknowledge_types=list(struct.unpack(f"{len(types)}b", types)),
        )
        for first, last, types in acks
    ]


def plain(topics: list[Any]) -> list[Any]:
    """Decoded topics with lists only."""
    return [(topic, [(index, list(acks)) for index, acks in partitions]) for topic, partitions in topics]


@given(
    versions, asked, forgotten, groups, texts, st.tuples(*[i32] * 6), st.integers(-128, 127), st.booleans()
)
def test_decodes_a_share_fetch(
    version: int,
    topics: list[Any],
    forget: list[Any],
    group: str | None,
    member: str | None,
    numbers: tuple[int, ...],
    mode: int,
    renew: bool,
) -> None:
    names = ("share_session_epoch", "max_wait_ms", "min_bytes", "max_bytes", "max_records", "batch_size")
    fields: dict[str, Any] = dict(zip(names, numbers, strict=True)) | {"group_id": group, "member_id": member}
    if version >= 2:
        fields |= {"share_acquire_mode": mode, "is_renew_ack": renew}
    body = fetch_body(version, topics, forget, **fields)
    request = share.decode_fetch(version, b"head" + body + b"tail", 4, 4 + len(body))
    assert (request.group_id, request.member_id) == (group, member)
    assert (
        request.session_epoch,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.max_records,
        request.batch_size,
    ) == numbers
    assert (request.acquire_mode, request.is_renew_ack) == ((mode, renew) if version >= 2 else (0, False))
    assert plain(request.topics) == topics
    assert request.forgotten == forget


@given(versions, asked, groups, texts, i32, st.booleans())
def test_decodes_a_share_acknowledge(
    version: int, topics: list[Any], group: str | None, member: str | None, epoch: int, renew: bool
) -> None:
    fields = {"group_id": group, "member_id": member, "share_session_epoch": epoch}
    if version >= 2:
        fields["is_renew_ack"] = renew
    body = acknowledge_body(version, topics, **fields)
    request = share.decode_acknowledge(version, b"head" + body + b"tail", 4, 4 + len(body))
    assert (request.group_id, request.member_id, request.session_epoch) == (group, member, epoch)
    assert request.is_renew_ack == (renew if version >= 2 else False)
    assert plain(request.topics) == topics


@pytest.mark.parametrize("count", [0, 1, 126, 127, 128, 500])
@pytest.mark.parametrize("odd", [None, 0, -1])
def test_a_row_of_single_types_and_one_that_is_broken_say_the_same(count: int, odd: int | None) -> None:
    acks = [(number * 3, number * 3 + 1, bytes((number % 5,))) for number in range(count)]
    if odd is not None and acks:
        first, last, _ = acks[odd]
        acks[odd] = first, last, b"\x01\x02"
    body = fetch_body(1, [(b"t" * 16, [(7, acks), (8, [])])])
    assert plain(share.decode_fetch(1, body, 0, len(body)).topics) == [(b"t" * 16, [(7, acks), (8, [])])]


def test_tags_that_nobody_knows_are_skipped_wherever_they_stand() -> None:
    plain_ack = struct.pack(">qqBBB", 5, 6, 2, 1, 0)
    tagged_ack = struct.pack(">qqBBB", 7, 8, 2, 3, 1) + b"\x00\x02xy"
    tags = b"\x01\x05\x01z"
    for head, tail, decode in (
        (struct.pack(">6i", 1, 2, 3, 4, 5, 6), b"\x01" + tags, share.decode_fetch),
        (struct.pack(">i", 1), tags, share.decode_acknowledge),
    ):
        body = (
            b"\x02g\x02m"
            + head
            + b"\x02"
            + (b"t" * 16 + b"\x02" + struct.pack(">iB", 9, 3) + plain_ack + tagged_ack + tags + tags)
            + tail
        )
        request: Any = decode(1, body, 0, len(body))
        assert plain(request.topics) == [(b"t" * 16, [(9, [(5, 6, b"\x01"), (7, 8, b"\x03")])])]


SAMPLE = [
    (b"a" * 16, [(0, [(1, 2, b"\x01"), (4, 4, b"\x02")]), (1, [])]),
    (b"b" * 16, [(5, [(1, 3, b"\x01\x02\x03"), (7, 7, b"\x04")])]),
]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("fetch", [True, False])
def test_every_truncation_is_malformed(version: int, fetch: bool) -> None:
    body = fetch_body(version, SAMPLE, [(b"c" * 16, [1])]) if fetch else acknowledge_body(version, SAMPLE)
    decode: Any = share.decode_fetch if fetch else share.decode_acknowledge
    for end in range(len(body)):
        with pytest.raises(Malformed):
            decode(version, body[:end], 0, end)
        with pytest.raises(Malformed):
            # the same end, but bytes of another frame behind it
            decode(version, body, 0, end)
    assert plain(decode(version, body, 0, len(body)).topics) == SAMPLE
    # what is behind the last field is ignored, as Kafka does
    assert plain(decode(version, body + b"\x07", 0, len(body) + 1).topics) == SAMPLE


@settings(max_examples=examples(400))
@given(st.data(), versions, st.booleans())
def test_damage_is_malformed_or_what_the_generated_decoder_makes_of_it(
    data: st.DataObject, version: int, fetch: bool
) -> None:
    body = bytearray(
        fetch_body(version, SAMPLE, [(b"c" * 16, [1])]) if fetch else acknowledge_body(version, SAMPLE)
    )
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    frame = bytes(body)
    decode: Any = share.decode_fetch if fetch else share.decode_acknowledge
    try:
        found: Any = decode(version, frame, 0, len(frame))
    except Malformed:
        found = None
    try:
        expected: Any = codec.decode_request(78 if fetch else 79, version, frame, 0)
    except Malformed:
        expected = None
    if expected is None or found is None:
        # tags twice or out of order are refused by the generated decoder only
        assert expected is None
        return
    assert plain(found.topics) == [
        (
            topic.topic_id,
            [
                (
                    p.partition_index,
                    [
                        (
                            a.first_offset,
                            a.last_offset,
                            struct.pack(f"{len(a.acknowledge_types)}b", *a.acknowledge_types),
                        )
                        for a in p.acknowledgement_batches
                    ],
                )
                for p in topic.partitions
            ],
        )
        for topic in expected.topics
    ]


def test_more_than_anybody_asks_for_is_refused() -> None:
    most = share.MAX_ELEMENTS
    ack = struct.pack(">qqBBB", 5, 6, 2, 1, 0)
    partition = struct.pack(">iBB", 0, 1, 0)
    head = b"\x02g\x02m" + struct.pack(">i", 1)

    def topics(*parts: bytes) -> bytes:
        return (
            head + bytes((len(parts) + 1,)) + b"".join(b"t" * 16 + part + b"\x00" for part in parts) + b"\x00"
        )

    def many(count: int) -> bytes:
        return encode_uvarint(count + 1)

    for body in (
        head + many(most + 1) + (b"t" * 16 + b"\x01\x00") * (most + 1) + b"\x00",
        topics(many(most) + partition * most),
        topics(b"\x02" + struct.pack(">i", 0) + many(most) + ack * most + b"\x00"),
        topics(*[many(most // 2) + partition * (most // 2)] * 2),
    ):
        with pytest.raises(Malformed, match="too many"):
            share.decode_acknowledge(1, body, 0, len(body))
    fits = topics(b"\x02" + struct.pack(">i", 0) + many(most - 2) + ack * (most - 2) + b"\x00")
    ((_, ((_, acks),)),) = share.decode_acknowledge(1, fits, 0, len(fits)).topics
    assert len(acks) == most - 2
    types = share.MAX_TYPES // 2
    long = struct.pack(">qq", 0, types) + many(types) + bytes(types) + b"\x00"
    body = topics(b"\x02" + struct.pack(">i", 0) + b"\x03" + long * 2 + b"\x00")
    with pytest.raises(Malformed, match="too many"):
        share.decode_acknowledge(1, body, 0, len(body))


# -- answers -------------------------------------------------------------------------------------------------------

answers = st.builds(
    ShareTold,
    i32,
    i16,
    texts,
    i16,
    texts,
    st.lists(st.binary(max_size=200), max_size=3),
    st.lists(st.tuples(i64, i64, i16), max_size=200),
)
endpoints = st.lists(st.tuples(i32, st.text(max_size=20), i32, texts), max_size=2)


@given(
    versions,
    st.integers(0, 2**31 - 1),
    i16,
    texts,
    i32,
    st.lists(st.tuples(ids, st.lists(answers, max_size=3)), max_size=3),
    endpoints,
)
def test_encodes_a_share_fetch_answer(
    version: int,
    correlation_id: int,
    error: int,
    message: str | None,
    lock: int,
    topics: list[Any],
    nodes: list[Any],
) -> None:
    buffers = share.encode_fetch(version, correlation_id, error, message, lock, topics, nodes)
    frame = b"".join(buffers)
    assert struct.unpack_from(">iiB", frame) == (len(frame) - 4, correlation_id, 0)
    answer: Any = codec.decode_response(78, version, frame, 9)
    assert (answer.throttle_time_ms, answer.error_code, answer.error_message) == (0, error, message)
    assert answer.acquisition_lock_timeout_ms == lock
    assert [(n.node_id, n.host, n.port, n.rack) for n in answer.node_endpoints] == nodes
    assert [
        (
            topic.topic_id,
            [
                ShareTold(
                    p.partition_index,
                    p.error_code,
                    p.error_message,
                    p.acknowledge_error_code,
                    p.acknowledge_error_message,
                    bytes(p.records),  # type: ignore[arg-type]
                    [(a.first_offset, a.last_offset, a.delivery_count) for a in p.acquired_records],
                )
                for p in topic.partitions
            ],
        )
        for topic in answer.responses
    ] == [(topic, [a._replace(records=b"".join(a.records)) for a in parts]) for topic, parts in topics]
    for topic in answer.responses:
        for p in topic.partitions:
            assert (p.current_leader.leader_id, p.current_leader.leader_epoch) == (-1, -1)


def test_records_are_handed_on_and_not_copied() -> None:
    stored = memoryview(bytes(1000))
    whole = bytes(5000)
    buffers = share.encode_fetch(
        1,
        1,
        0,
        None,
        30_000,
        [(b"t" * 16, [ShareTold(0, records=[stored, whole], acquired=[(0, 9, 1)])])],
    )
    assert any(buffer is stored for buffer in buffers)
    assert any(buffer is whole for buffer in buffers)


def test_more_deliveries_than_the_wire_can_say_are_said_to_be_the_most_it_can() -> None:
    frame = b"".join(
        share.encode_fetch(
            2, 1, 0, None, 1, [(b"t" * 16, [ShareTold(0, acquired=[(0, 1, 1), (2, 3, 70_000)])])]
        )
    )
    answer: Any = codec.decode_response(78, 2, frame, 9)
    assert [a.delivery_count for a in answer.responses[0].partitions[0].acquired_records] == [1, 32767]


@given(
    versions,
    i16,
    texts,
    i32,
    st.lists(st.tuples(ids, st.lists(st.tuples(i32, i16, texts), max_size=3)), max_size=3),
    endpoints,
)
def test_encodes_a_share_acknowledge_answer(
    version: int, error: int, message: str | None, lock: int, topics: list[Any], nodes: list[Any]
) -> None:
    frame = share.encode_acknowledge(version, 77, error, message, lock, topics, nodes)
    assert struct.unpack_from(">iiB", frame) == (len(frame) - 4, 77, 0)
    answer: Any = codec.decode_response(79, version, frame, 9)
    assert (answer.error_code, answer.error_message) == (error, message)
    assert answer.acquisition_lock_timeout_ms == (lock if version >= 2 else 0)
    assert [
        (t.topic_id, [(p.partition_index, p.error_code, p.error_message) for p in t.partitions])
        for t in answer.responses
    ] == topics
    assert [(n.node_id, n.host, n.port, n.rack) for n in answer.node_endpoints] == nodes


def test_random_requests_of_the_schemas_decode() -> None:
    for number, version in itertools.product(range(200), (1, 2)):
        for key, name, decode in (
            (78, "ShareFetchRequest", share.decode_fetch),
            (79, "ShareAcknowledgeRequest", share.decode_acknowledge),
        ):
            message = Values(number).message(name, version)
            body = codec.encode_request(key, version, message)
            request: Any = decode(version, body, 0, len(body))
            assert request.session_epoch == message.share_session_epoch
            assert [topic for topic, _ in request.topics] == [t.topic_id for t in message.topics]


@given(st.lists(st.tuples(i64, i64, st.binary(min_size=1, max_size=1)), min_size=65, max_size=80), versions)
@settings(max_examples=examples(30), deadline=None)
def test_many_acknowledgements_of_one_type_are_kept_as_columns(
    many: list[tuple[int, int, bytes]], version: int
) -> None:
    body = fetch_body(version, [(b"t" * 16, [(3, many)])])
    [(_, [(_, found)])] = share.decode_fetch(version, body, 0, len(body)).topics
    assert isinstance(found, share.PlainAcks)
    assert list(found) == many
    assert len(found) == len(many)
    assert found[0] == many[0]
    firsts, lasts = found.columns()
    assert list(zip(firsts.tolist(), lasts.tolist(), strict=True)) == [each[:2] for each in many]
    assert found.all_of(share.ACCEPT) == all(types == b"\1" for _, _, types in many)


few = st.integers(0, 12)


@given(
    st.lists(st.tuples(few, few, st.sampled_from([b"\0", b"\1", b"\2"])), min_size=1, max_size=12)
    | st.lists(st.sampled_from([b"\1", b"\2"]), min_size=1, max_size=80).map(
        lambda said: [(at, at, kind) for at, kind in enumerate(said, 100)]
    )
)
@example([(5, 3, b"\1"), (4, 9, b"\1")])
@example([(3, 5, b"\1"), (6, 4, b"\1")])
@settings(max_examples=examples(200), deadline=None)
def test_runs_say_the_same_in_the_same_order(many: list[tuple[int, int, bytes]]) -> None:
    data = b"".join(struct.pack(">qqBcB", first, last, 2, kind, 0) for first, last, kind in many)
    runs = share.PlainAcks(data).runs()
    # one that goes back or beyond itself is left alone, for it is to be refused
    assert _one_by_one(runs) == _one_by_one(many)
    for (begin, end, said), (first, last, kind) in pairwise(runs):
        assert first != end + 1 or kind != said or last < first or end < begin


def _one_by_one(acks: list[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
    said: list[tuple[int, int, bytes]] = []
    for first, last, kind in acks:
        said += [(at, at, kind) for at in range(first, last + 1)] or [(first, last, kind)]
    return said


def test_a_hundred_accepted_one_by_one_are_one_run() -> None:
    data = b"".join(struct.pack(">qqBcB", at, at, 2, b"\1", 0) for at in range(7, 107))
    assert share.PlainAcks(data).runs() == [(7, 106, b"\1")]
