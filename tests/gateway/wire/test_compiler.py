"""Classes and functions made from schemas: defaults, what belongs to one message, code that people can read."""

from __future__ import annotations

import pytest

from gateway.wire import compiler, messages


def test_defaults_are_those_of_the_schema() -> None:
    request = messages.FetchRequest()
    assert (request.max_bytes, request.session_epoch, request.cluster_id, request.topics) == (
        2**31 - 1,
        -1,
        None,
        [],
    )
    assert request.replica_state.replica_id == -1
    assert messages.MetadataRequest().allow_auto_topic_creation is True
    assert messages.ConsumerGroupHeartbeatRequest().rebalance_timeout_ms == -1
    assert messages.ShareFetchRequest().max_bytes == 2**31 - 1


def test_messages_do_not_share_their_lists() -> None:
    messages.FetchRequest().topics.append(messages.FetchRequest.FetchTopic())
    assert messages.FetchRequest().topics == []


def test_what_is_generated_can_be_read() -> None:
    assert compiler.source("HeartbeatResponse", 4, "encode") == (
        "def encode(x):\n"
        "    parts = []\n"
        "    a = parts.append\n"
        "    a(pack_ihx(x.throttle_time_ms, x.error_code))\n"
        "    return b''.join(parts)"
    )


def test_generated_code_says_which_version_it_is_of_and_a_version_without_a_schema_has_none() -> None:
    assert "HeartbeatResponse v4" in compiler.source("HeartbeatResponse", 4, "decode")
    for make in (compiler.compile_decoder, compiler.compile_encoder):
        with pytest.raises(LookupError, match="MetadataResponse has versions 0 to 13, not 99"):
            make("MetadataResponse", 99)
    with pytest.raises(LookupError, match="no schema"):
        compiler.compile_decoder("MetadataReply", 1)


def test_a_message_is_decoded_between_two_positions_of_a_longer_buffer() -> None:
    request = messages.HeartbeatRequest(group_id="g", generation_id=5, member_id="m", group_instance_id="i")
    body = compiler.compile_encoder("HeartbeatRequest", 4)(request)
    found = compiler.compile_decoder("HeartbeatRequest", 4)(b"in front" + body, 8, 8 + len(body))
    assert found == request


def test_fields_of_other_versions_keep_their_defaults() -> None:
    """A field that a version does not have is neither written nor asked for."""
    request = messages.HeartbeatRequest(group_id="g", member_id="m", group_instance_id="from version 3")
    body = compiler.compile_encoder("HeartbeatRequest", 2)(request)
    assert b"from version 3" not in body
    assert compiler.compile_decoder("HeartbeatRequest", 2)(body, 0, len(body)).group_instance_id is None
