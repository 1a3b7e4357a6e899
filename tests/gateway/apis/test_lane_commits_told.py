"""What the log says of commits of lanes that do not do what their client meant."""

from __future__ import annotations

import pytest

from gateway.server import Gateway
from gateway.wire.errors import Error
from tests.gateway.apis.test_queue_topics import NAME, commit, queue, read
from tests.gateway.broker.held import run
from tests.gateway.serving import Client


@pytest.mark.parametrize(
    ("metadata", "code", "line", "why"),
    [
        ("ack1;x=1", Error.INVALID_REQUEST, "commit refused", "is no item"),
        ("x" * 5_000, Error.OFFSET_METADATA_TOO_LARGE, "commit refused", "offset.metadata.max.bytes is 4096"),
        ("ACK1;n=0", 0, "commit with metadata that is nearly of a queue topic", "in small letters"),
    ],
)
def test_it_has_a_line_with_the_lane_and_the_reason(
    caplog: pytest.LogCaptureFixture, metadata: str, code: int, line: str, why: str
) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        await read(client)
        with caplog.at_level("WARNING", "magnetar.queues"):
            assert await commit(client, {0: (2, metadata)}) == {0: code}
        (told,) = [each for each in caplog.records if each.name == "magnetar.queues"]
        said = told.__dict__
        assert (told.getMessage(), said["group"], said["topic"], said["lane"]) == (line, "g", NAME, 0)
        assert why in said["reason"]
        refusal = gateway.broker.queues.refusals.of(gateway.broker.topics.get(NAME).partitions[0])
        assert (refusal is not None) == (code != 0)
        if refusal is not None:
            assert (refusal.offset, said["offset"]) == (2, 2)

    run(test)


def test_what_was_refused_is_forgotten_with_the_next_commit_that_is_taken() -> None:
    """It would be told of every message of the lane for ever."""

    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        await read(client)
        lane = gateway.broker.topics.get(NAME).partitions[0]
        assert await commit(client, {0: (2, "ack1;x=1\0")}) == {0: Error.INVALID_REQUEST}
        refusal = gateway.broker.queues.refusals.of(lane)
        assert refusal is not None
        assert refusal.metadata == "ack1;x=1", "without the byte that ends a string in C"
        assert await commit(client, {0: (2, "")}) == {0: 0}
        assert gateway.broker.queues.refusals.of(lane) is None

    run(test)


def test_another_group_that_names_deliveries_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """A typo in group.id: what it says has no effect, and it is answered like any other offset."""

    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        await read(client)
        with caplog.at_level("WARNING", "magnetar.queues"):
            assert await commit(client, {0: (2, "")}, group="billing") == {0: 0}
            assert caplog.records == []
            for metadata in ("ack1;n=0", "ack1;zzz"):
                assert await commit(client, {0: (2, metadata)}, group="biling") == {0: 0}
        (told,) = [each for each in caplog.records if each.name == "magnetar.queues"]
        said = told.__dict__
        assert (said["group"], said["topic"], said["subscription"]) == ("biling", NAME, "g")
        assert "group.id is the subscription's name" in told.getMessage()

    run(test)


@pytest.mark.parametrize("metadata", ["ack1;n=0", "", "{}"])
def test_nothing_is_said_of_commits_that_mean_what_they_say(
    caplog: pytest.LogCaptureFixture, metadata: str
) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        await read(client)
        with caplog.at_level("WARNING", "magnetar.queues"):
            assert await commit(client, {0: (2, metadata)}) == {0: 0}
        assert not [each for each in caplog.records if each.name == "magnetar.queues"]

    run(test)
