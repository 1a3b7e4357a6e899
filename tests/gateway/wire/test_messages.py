"""The module of messages: what can be asked of it by name, and what cannot."""

from __future__ import annotations

import pytest

from gateway.wire import messages


def test_a_wrong_name_is_an_error_and_not_a_new_attribute() -> None:
    with pytest.raises(AttributeError):
        messages.MetadataResponse().topisc = []  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        messages.MetadataResponse(topisc=[])  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        messages.MetadataReply  # type: ignore[attr-defined]  # noqa: B018
    assert "MetadataResponse" in dir(messages)


def test_a_struct_is_found_on_the_message_however_deep_it_lies() -> None:
    for holder, name in (
        (messages.MetadataResponse, "MetadataResponsePartition"),
        (messages.ShareFetchResponse, "AcquiredRecords"),
        (messages.ConsumerProtocolSubscription, "TopicPartition"),
    ):
        assert getattr(holder, name)() == getattr(holder, name)()
        assert f"{holder.__name__}.{name}" in repr(getattr(holder, name))


def test_a_message_is_one_class_however_often_it_is_asked_for() -> None:
    once = messages.HeartbeatRequest
    assert messages.HeartbeatRequest is once
    assert messages.HeartbeatRequest(group_id="g") == once(group_id="g") != once(group_id="h")


@pytest.mark.parametrize(
    "name", ["heartbeatRequest", "__wrapped__", "_private", "HeartbeatReply", "RequestHeader2"]
)
def test_tools_that_try_a_name_find_nothing_and_no_other_error(name: str) -> None:
    assert not hasattr(messages, name)
