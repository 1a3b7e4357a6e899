"""The comparison itself: it reads answers as they are, finds what differs, and knows a reason only where it fits."""

from __future__ import annotations

import struct
import uuid
from pathlib import Path
from typing import Any

import pytest

from compat.compare.canonical import Line, Names, without_choices
from compat.compare.difference import ABSENT, Difference, Reason, differences, reason_for, reasons
from compat.compare.page import RIGHTS_HEADING, page, rights_section, with_rights, write
from compat.compare.report import Result, compare, spans, summary
from compat.compare.schema import Field, Malformed, Message, Versions, encode, plain, walk
from compat.compare.server import Kept
from gateway.wire import codec, messages, schema

ALWAYS, NEVER = Versions(0, 99), Versions(0, -1)
TOPIC_ID = uuid.UUID(int=7)


def field(name: str, kind: str, *inner: Field, array: bool = False, tag: int = -1, first: int = 0) -> Field:
    tagged = Versions(first, 99) if tag >= 0 else NEVER
    return Field(name, kind, array, Versions(first, 99), ALWAYS, tagged, tag, None, inner or None, False)


ANSWER = Message(
    "AnswerResponse",
    3,
    ALWAYS,
    Versions(1, 99),
    (
        field("throttle_time_ms", "int32"),
        field(
            "topics",
            "Topic",
            field("name", "string"),
            field("topic_id", "uuid"),
            field("error_code", "int16"),
            array=True,
        ),
        field("error_message", "string", first=1, tag=0),
    ),
)


def topic(name: str, error: int = 0, topic_id: uuid.UUID = TOPIC_ID) -> dict[str, Any]:
    return {"name": name, "topic_id": topic_id, "error_code": error}


def lines(version: int, body: dict[str, Any], names: Names | None = None) -> list[Line]:
    return (names or Names()).lines(walk(ANSWER, version, encode(ANSWER, version, body)))


@pytest.mark.parametrize("version", [0, 1])
def test_what_is_encoded_is_read_again_with_its_bytes(version: int) -> None:
    body: dict[str, Any] = {"throttle_time_ms": 5, "topics": [topic("a", 3), topic("b")]}
    if version:
        body["error_message"] = "no"
    node = walk(ANSWER, version, encode(ANSWER, version, body))
    assert plain(node) == body


def test_bytes_left_over_and_bytes_missing_are_told() -> None:
    data = encode(ANSWER, 1, {"throttle_time_ms": 0, "topics": []})
    for wrong in (data + b"x", data[:-1]):
        with pytest.raises(Malformed):
            walk(ANSWER, 1, wrong)


def test_a_field_that_no_version_has_is_a_slip_of_the_script() -> None:
    with pytest.raises(KeyError):
        encode(ANSWER, 0, {"topix": []})


def test_null_and_empty_differ_and_so_do_tags_that_one_does_not_send() -> None:
    null = lines(1, {"throttle_time_ms": 0, "topics": None})
    empty = lines(1, {"throttle_time_ms": 0, "topics": []})
    assert [each.path for each in differences("x", null, empty)] == ["topics"]
    tagged = lines(1, {"throttle_time_ms": 0, "topics": [], "error_message": ""})
    assert [each.path for each in differences("x", empty, tagged)] == ["<tags>", "error_message"]


def test_what_a_server_chose_does_not_count_nor_does_the_order() -> None:
    ours, theirs = Names(), Names()
    ours.topics[TOPIC_ID] = theirs.topics[uuid.UUID(int=8)] = "a"
    one = lines(0, {"throttle_time_ms": 9, "topics": [topic("a"), topic("b", 3, uuid.UUID(int=0))]}, ours)
    other = {
        "throttle_time_ms": 0,
        "topics": [topic("b", 3, uuid.UUID(int=0)), topic("a", 0, uuid.UUID(int=8))],
    }
    assert list(differences("x", one, lines(0, other, theirs))) == []
    assert theirs.reordered == 1


def test_everything_else_counts_and_is_told_by_its_path() -> None:
    ours = Names()
    one = lines(0, {"throttle_time_ms": 0, "topics": [topic("a"), topic("b")]}, ours)
    other = lines(0, {"throttle_time_ms": 0, "topics": [topic("a", 3)]}, ours)
    found = [(each.path, each.kafka, each.magnetar) for each in differences("x", one, other)]
    assert found == [("topics.a.error_code", "0", "3"), ("topics.b.name", "'b'", ABSENT)]


def test_the_id_of_a_topic_that_has_a_name_is_one_of_its_fields() -> None:
    ours, theirs = Names(), Names()
    ours.topics[TOPIC_ID] = "a"
    one = lines(0, {"throttle_time_ms": 0, "topics": [topic("a")]}, ours)
    other = lines(0, {"throttle_time_ms": 0, "topics": [topic("a", 0, uuid.UUID(int=0))]}, theirs)
    found = [(each.path, each.kafka, each.magnetar) for each in differences("x", one, other)]
    assert found == [("topics.a.topic_id", "<id of a>", "<no id>")]
    nameless = lines(0, {"throttle_time_ms": 0, "topics": [topic("")]}, ours)
    assert nameless[-1].path == "topics./<id of a>.error_code"


def test_members_sessions_and_producers_are_numbered_as_they_turn_up() -> None:
    names = Names()
    assert [names.numbered("member", each) for each in ("x", "y", "x")] == [
        "<member 1>",
        "<member 2>",
        "<member 1>",
    ]
    names.start_again()
    assert names.numbered("member", "y") == "<member 1>"


def test_batches_are_compared_but_for_the_leader_epoch_and_the_brokers_clock() -> None:
    header = struct.Struct(">qiibIhiqqqhii")

    def batch(epoch: int, crc: int, attributes: int, time: int, offset: int = 0) -> bytes:
        return header.pack(offset, 49, epoch, 2, crc, attributes, 0, time, time, -1, -1, -1, 1)

    assert without_choices(batch(1, 5, 0, 9)) == without_choices(batch(2, 5, 0, 9))
    assert without_choices(batch(1, 5, 8, 9)[:27] + batch(1, 5, 8, 9)[27:]) == without_choices(
        batch(1, 6, 8, 9)
    )
    for changed in (batch(1, 6, 0, 9), batch(1, 5, 0, 10), batch(1, 5, 0, 9, 1)):
        assert without_choices(changed) != without_choices(batch(1, 5, 0, 9))


@pytest.mark.integration
def test_the_schemas_of_kafkas_jar_and_the_gateways_say_the_same() -> None:
    """Two readers of two sources, on one answer with tags in it."""
    from compat.compare.schema import load

    found = messages.FetchResponse(
        session_id=3,
        responses=[],
        node_endpoints=[messages.FetchResponse.NodeEndpoint(node_id=1, host="h", port=2, rack=None)],
    )
    data = codec.encode_response(1, 16, found)
    node = walk(load("FetchResponse"), 16, data)
    assert plain(node)["node_endpoints"] == [{"node_id": 1, "host": "h", "port": 2, "rack": None}]
    assert load("FetchResponse").versions.last == schema.load("FetchResponse").versions.last


# -- reasons and figures ------------------------------------------------------------------------------------------


def test_a_reason_needs_its_label_its_path_and_its_values() -> None:
    known = [Reason("a *", "topics.*.offset", "4?", "46", "why")]
    assert reason_for(Difference("a fetch", "topics.0.offset", "45", "46"), known) is known[0]
    for other in (
        Difference("b fetch", "topics.0.offset", "45", "46"),
        Difference("a fetch", "topics.0.error", "45", "46"),
        Difference("a fetch", "topics.0.offset", "5", "46"),
        Difference("a fetch", "topics.0.offset", "45", "0"),
    ):
        assert reason_for(other, known) is None


class Answered:
    """What the report reads of a server."""

    def __init__(self, **codes: int) -> None:
        self.names = Names()
        self.served = {"Metadata": range(3), "Vote": range(1, 2)}
        self.answers = {
            f"{label} (Metadata v{i})": Kept(
                "Metadata", i, [Line("error_code", bytes([code]), str(code))], b""
            )
            for i, (label, code) in enumerate(codes.items())
        }


def test_an_unexpected_difference_is_told_and_counted() -> None:
    result = compare(Answered(one=0, two=0), Answered(one=0, two=3))  # type: ignore[arg-type]
    assert (result.answers, result.equal, result.answers_unexplained) == (2, 1, 1)
    text = summary(result, show_all=False)
    assert "two (Metadata v1)\n    error_code: kafka 0, magnetar 3" in text
    assert "served by both and not compared: Metadata v2, Vote v1" in text


def test_a_question_that_only_one_was_asked_is_a_difference() -> None:
    result = compare(Answered(one=0), Answered(one=0, two=0))  # type: ignore[arg-type]
    assert [(each.label, each.kafka) for each in result.unexplained] == [("two (Metadata v1)", "not asked")]


def test_versions_are_told_in_spans() -> None:
    assert spans([5, 1, 2, 3, 3]) == "1-3, 5"


def test_every_reason_stands_in_the_page_that_was_written_last() -> None:
    written = (Path(__file__).parents[2] / "docs" / "ANSWERS.md").read_text()
    assert [reason.why for reason in reasons() if f"| {reason.why} |" not in written] == []
    rest, _, of_users = written.partition(RIGHTS_HEADING)
    assert [reason.why for reason in reasons("rights") if f"| {reason.why} |" not in of_users] == []
    assert "0 unexplained" in rest
    assert "0 unexplained" in of_users
    assert all(reason.why.endswith(".") for reason in reasons() + reasons("rights"))
    assert page(Result({})).startswith("# Magnetar's answers beside Apache Kafka")


def test_a_reason_of_rights_counts_for_answers_to_users_only() -> None:
    servers: Any = (Answered(one=29), Answered(one=100))
    for server in servers:
        server.answers = {
            f"ada: Metadata by id (Metadata v{kept.version})": kept._replace(
                lines=[line._replace(path="topics.None/<id of t>.error_code") for line in kept.lines]
            )
            for kept in server.answers.values()
        }
    assert len(compare(*servers).unexplained) == 1
    result = compare(*servers, of_users=True)
    assert (result.unexplained, result.answers_explained) == ([], 1)
    # what it has no need of is told of its own reasons only
    assert set(result.unused) < set(reasons("rights"))


def test_each_run_writes_its_part_of_the_page_and_leaves_the_other(tmp_path: Path) -> None:
    path = tmp_path / "ANSWERS.md"
    write(path, page(Result({}, answers=5)))
    path.write_text(with_rights(path.read_text(), rights_section(Result({}, answers=6))))
    path.write_text(with_rights(path.read_text(), rights_section(Result({}, answers=7))))
    write(path, page(Result({}, answers=8)))
    text = path.read_text()
    assert [text.count(f"**{count} answers compared") for count in (5, 6, 7, 8)] == [0, 0, 1, 1]
    assert text.index("## Not compared") < text.index(RIGHTS_HEADING)
    assert text.count(RIGHTS_HEADING) == 1
