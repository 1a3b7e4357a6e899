"""The right to read, and fetches that remember: sessions, fetches that wait, the short way; whose a session is."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.apis.rights_table import Kind
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from tests.gateway.apis.rights_double import Granted, RightsDouble, changed, client_with
from tests.gateway.apis.test_rights import run
from tests.gateway.broker.asking import errors, fetch, offsets, told
from tests.gateway.broker.held import until
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body

FORBIDDEN = Error.TOPIC_AUTHORIZATION_FAILED
LONG = 60_000
SHORT_WAY = 16
"""A version that asks by id, and is answered the short way where it can be."""


def read(*topics: str) -> set[Granted]:
    return {(Kind.TOPIC, Operation.READ, topic) for topic in topics}


async def written(client: Client, topic: str, *values: bytes) -> None:
    for value in values:
        await client.ask(ApiKey.PRODUCE, 9, produce_body(topic, batch(value)))


@pytest.mark.parametrize("version", [11, SHORT_WAY])
def test_a_session_reads_a_topic_no_more_once_the_right_is_gone_and_again_when_it_is_back(
    version: int,
) -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        topic: str | bytes = await create(admin, "t")
        topic = topic if version >= 13 else "t"
        await written(admin, "t", b"a", b"b")
        double.granted = read("t")
        first = await fetch(client, {topic: {0: 0}}, version=version, session=(0, 0))
        assert (errors(first), offsets(told(first)[0].records)) == ({0: 0}, [0, 1])
        session = first.session_id
        double.granted = set()
        changed(gateway)
        gone = await fetch(client, {topic: {0: 0}}, version=version, session=(session, 1))
        assert (errors(gone), told(gone)[0].records, told(gone)[0].high_watermark) == (
            {0: FORBIDDEN},
            b"",
            -1,
        )
        # an error is told until it is over, though nothing is asked anew
        assert errors(await fetch(client, version=version, session=(session, 2))) == {0: FORBIDDEN}
        double.granted = read("t")
        changed(gateway)
        back = await fetch(client, version=version, session=(session, 3))
        assert (errors(back), offsets(told(back)[0].records)) == ({0: 0}, [0, 1])

    run(test)


@pytest.mark.parametrize("version", [11, SHORT_WAY])
@pytest.mark.parametrize("session", [(0, 0), (0, -1)], ids=["session", "without"])
def test_a_fetch_that_waits_is_answered_when_the_right_goes(version: int, session: tuple[int, int]) -> None:
    """Another, whose rights are as they were, waits on and gets what comes."""

    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        ids = {name: await create(admin, name) for name in ("t", "u")}
        double.granted = read("t", "u")
        other_rights = RightsDouble(read("t"))
        async with client_with(gateway, other_rights, principal="User:eve") as other:
            for who, topic in ((client, "u"), (other, "t")):
                named: Any = ids[topic] if version >= 13 else topic
                body = fetch_body(topic, 0, max_wait=LONG, session=session)
                body.topics[0].topic_id = named if version >= 13 else bytes(16)
                who.send(ApiKey.FETCH, version, body)
            await until(lambda: gateway.broker.metrics.fetches_parked.value == 2)
            double.granted = read("t")
            changed(gateway)
            _, answer = await client.receive()
            assert errors(answer) == {0: FORBIDDEN}
            assert gateway.broker.metrics.fetches_parked.value == 1
            await written(admin, "t", b"a")
            _, answer = await other.receive()
            assert (errors(answer), offsets(told(answer)[0].records)) == ({0: 0}, [0])

    run(test)


def test_of_a_session_that_waits_only_what_is_forbidden_is_told_and_the_rest_goes_on() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        for name in ("t", "u"):
            await create(admin, name)
        double.granted = read("t", "u")
        first = await fetch(client, {"t": {0: 0}, "u": {0: 0}}, session=(0, 0))
        session = first.session_id
        client.send(ApiKey.FETCH, 11, fetch_body("t", -1, max_wait=LONG, session=(session, 1)))
        await until(lambda: gateway.broker.metrics.fetches_parked.value == 1)
        double.granted = read("t")
        changed(gateway)
        _, answer = await client.receive()
        assert [(each.topic, each.partitions[0].error_code) for each in answer.responses] == [
            ("u", FORBIDDEN)
        ]
        await written(admin, "t", b"a")
        answer = await fetch(client, session=(session, 2))
        codes = {each.topic: each.partitions[0].error_code for each in answer.responses}
        assert codes == {"t": 0, "u": FORBIDDEN}

    run(test)


def test_the_short_way_of_a_fetch_asks_too() -> None:
    """A fetch without a session of records that were just written: nothing remembers what was found before."""

    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        topic = await create(admin, "t")
        await written(admin, "t", b"a")
        codes = []
        for granted in (read("t"), set(), read("t")):
            double.granted = granted
            answer = await fetch(client, {topic: {0: 0}}, version=SHORT_WAY)
            codes.append(errors(answer)[0])
        assert codes == [0, FORBIDDEN, 0]

    run(test)


def test_the_short_way_of_a_fetch_remembers_no_right_to_one_topic_for_another() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        mine, theirs = await create(admin, "mine"), await create(admin, "theirs")
        for name in ("mine", "theirs"):
            await written(admin, name, b"a")
        double.granted = read("mine")
        codes = []
        for topic in (mine, theirs, mine, theirs):
            answer = await fetch(client, {topic: {0: 0}}, version=SHORT_WAY)
            codes.append(errors(answer)[0])
        assert codes == [0, FORBIDDEN, 0, FORBIDDEN]

    run(test)


def test_a_fetch_session_is_of_its_connection_whoever_else_names_it() -> None:
    """Neither somebody else goes on with it, though he may read all of it, nor its own principal by another."""

    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        topic = await create(admin, "t")
        await written(admin, "t", b"a")
        double.granted = read("t")
        opened = await fetch(client, {topic: {0: 0}}, version=SHORT_WAY, session=(0, 0))
        for principal in ("User:eve", "User:ada"):
            async with client_with(gateway, RightsDouble(read("t")), principal=principal) as other:
                for epoch in (1, 2):
                    session = (opened.session_id, epoch)
                    answer = await fetch(other, {topic: {0: 0}}, version=SHORT_WAY, session=session)
                    assert answer.error_code == Error.FETCH_SESSION_ID_NOT_FOUND
                # nor is it ended by another that begins anew in its name
                await fetch(other, {topic: {0: 0}}, version=SHORT_WAY, session=(opened.session_id, 0))
        answer = await fetch(client, {topic: {0: 0}}, version=SHORT_WAY, session=(opened.session_id, 1))
        assert (answer.error_code, errors(answer)) == (0, {0: 0})

    run(test)


def test_a_change_that_takes_nothing_wakes_nobody() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        await create(admin, "t")
        double.granted = read("t")
        client.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_wait=LONG))
        await until(lambda: gateway.broker.metrics.fetches_parked.value == 1)
        double.granted = read("t", "more")
        changed(gateway)
        assert gateway.broker.metrics.fetches_parked.value == 1
        await written(admin, "t", b"a")
        _, answer = await client.receive()
        assert offsets(told(answer)[0].records) == [0]

    run(test)


def test_to_read_a_queue_topic_the_right_to_it_is_enough() -> None:
    """What it is over need not be readable, and its group's lanes are acknowledged with READ on the group."""

    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        await create(admin, "t")
        await create(admin, "t-g-QUEUE")
        await written(admin, "t", b"a")
        double.granted = {*read("t-g-QUEUE"), (Kind.GROUP, Operation.READ, "g")}
        answer = await fetch(client, {"t-g-QUEUE": {0: 0}}, max_wait=LONG)
        assert errors(answer) == {0: 0}
        assert errors(await fetch(client, {"t": {0: 0}})) == {0: FORBIDDEN}
        asked = messages.OffsetCommitRequest
        partition = asked.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=0, committed_metadata=""
        )
        topic = asked.OffsetCommitRequestTopic(name="t-g-QUEUE", partitions=[partition])
        committed = await client.ask(ApiKey.OFFSET_COMMIT, 8, asked(group_id="g", topics=[topic]))
        assert committed.topics[0].partitions[0].error_code == 0

    run(test)
