"""The right to read, and members of share groups: sessions, fetches that wait, what is held; whose a session is."""

from __future__ import annotations

from gateway.apis.rights_table import Kind
from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from tests.gateway.apis.rights_double import Granted, RightsDouble, changed, client_with
from tests.gateway.apis.rights_world import build
from tests.gateway.apis.test_rights import run
from tests.gateway.broker.held import until
from tests.gateway.broker.share_asking import (
    ACCEPT,
    FOR_LONG,
    GROUP,
    ack_errors,
    acquired,
    errors,
    put,
    share_acknowledge,
    share_fetch,
    share_fetch_body,
    topic,
)
from tests.gateway.broker.share_members import assigned, beat
from tests.gateway.serving import Client

FORBIDDEN = Error.TOPIC_AUTHORIZATION_FAILED
IN_GROUP: set[Granted] = {(Kind.GROUP, Operation.READ, GROUP)}
BOTH: set[Granted] = {*IN_GROUP, (Kind.TOPIC, Operation.READ, "t")}


def test_what_a_member_holds_goes_to_others_when_it_may_read_the_topic_no_more() -> None:
    """It counts as a delivery, and what the member says of it is refused."""

    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        topic_id = await topic(gateway, admin, 2)
        double.granted = set(BOTH)
        assert acquired(await share_fetch(client, "m", 0, topic_id, [0])) == {0: {0: 1, 1: 1}}
        double.granted = set(IN_GROUP)
        changed(gateway)
        said = await share_acknowledge(client, "m", 1, topic_id, {0: [(0, 0, ACCEPT)]})
        assert errors(said) == {0: FORBIDDEN}
        assert acquired(await share_fetch(admin, "n", 0, topic_id, [0])) == {0: {0: 2, 1: 2}}
        # its session goes on, and says so each time
        for epoch in (2, 3):
            answer = await share_fetch(client, "m", epoch)
            assert (errors(answer), acquired(answer)) == ({0: FORBIDDEN}, {})

    run(test)


def test_an_acknowledgement_within_a_fetch_is_refused_too() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        topic_id = await topic(gateway, admin, 1)
        double.granted = set(BOTH)
        await share_fetch(client, "m", 0, topic_id, [0])
        # nobody has told the sessions
        double.granted = set(IN_GROUP)
        answer = await share_fetch(client, "m", 1, topic_id, [0], acks={0: [(0, 0, ACCEPT)]})
        assert ack_errors(answer) == {0: FORBIDDEN}
        double.granted = set(BOTH)
        said = await share_acknowledge(client, "m", 2, topic_id, {0: [(0, 0, ACCEPT)]})
        assert errors(said) == {0: 0}

    run(test)


def test_a_fetch_that_waits_is_answered_when_the_topic_may_be_read_no_more() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        topic_id = await topic(gateway, admin)
        double.granted = set(BOTH)
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 0, topic_id, [0], max_wait=FOR_LONG))
        await until(lambda: gateway.broker.metrics.fetches_parked.value == 1)
        # what takes nothing from it wakes it not
        double.granted = {*BOTH, (Kind.TOPIC, Operation.WRITE, "t")}
        changed(gateway)
        assert gateway.broker.metrics.fetches_parked.value == 1
        double.granted = set(IN_GROUP)
        changed(gateway)
        _, answer = await client.receive()
        assert (errors(answer), acquired(answer)) == ({0: FORBIDDEN}, {})
        # a record that comes is another's
        await put(admin, b"x")
        assert acquired(await share_fetch(admin, "n", 0, topic_id, [0])) == {0: {0: 1}}

    run(test)


def test_a_fetch_that_waits_says_so_when_the_group_may_be_read_no_more() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        topic_id = await topic(gateway, admin)
        double.granted = set(BOTH)
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 0, topic_id, [0], max_wait=FOR_LONG))
        await until(lambda: gateway.broker.metrics.fetches_parked.value == 1)
        double.granted = set()
        changed(gateway)
        _, answer = await client.receive()
        assert (answer.error_code, answer.responses) == (Error.GROUP_AUTHORIZATION_FAILED, [])
        assert gateway.broker.metrics.fetches_parked.value == 0
        await put(admin, b"x")
        assert acquired(await share_fetch(admin, "n", 0, topic_id, [0])) == {0: {0: 1}}

    run(test)


def test_a_topic_that_may_be_read_again_is_read_again() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        topic_id = await topic(gateway, admin, 1)
        double.granted = set(IN_GROUP)
        assert errors(await share_fetch(client, "m", 0, topic_id, [0])) == {0: FORBIDDEN}
        double.granted = set(BOTH)
        changed(gateway)
        assert acquired(await share_fetch(client, "m", 1)) == {0: {0: 1}}

    run(test)


def test_who_may_read_in_the_group_no_more_has_no_session_any_more() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        topic_id = await topic(gateway, admin, 1)
        double.granted = set(BOTH)
        await share_fetch(client, "m", 0, topic_id, [0])
        double.granted -= IN_GROUP
        changed(gateway)
        assert len(gateway.broker.share_sessions) == 0
        assert acquired(await share_fetch(admin, "n", 0, topic_id, [0])) == {0: {0: 2}}
        for answer in (
            await share_fetch(client, "m", 1),
            await share_acknowledge(client, "m", 1, topic_id, {0: [(0, 0, ACCEPT)]}),
        ):
            assert answer.error_code == Error.GROUP_AUTHORIZATION_FAILED

    run(test)


def test_a_retry_topic_that_a_member_names_is_made_for_who_may_make_it() -> None:
    """Who may not is a member all the same, and has the topic when it is there."""

    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        base, retries = await topic(gateway, admin), f"t-{GROUP}-RETRY"
        double.granted = {*BOTH, (Kind.TOPIC, Operation.READ, retries)}
        said = await beat(client, GROUP, "m", 0, "t", retries)
        assert assigned(said) == {base: [0]}
        assert gateway.broker.catalog.get(retries) is None
        double.granted |= {(Kind.TOPIC, Operation.CREATE, retries)}
        changed(gateway)
        said = await beat(client, GROUP, "m", said.member_epoch, "t", retries)
        made = gateway.broker.catalog.get(retries)
        assert made is not None
        assert assigned(said) == {base: [0], made.topic_id: [0]}
        # and nobody is asked again when it is there
        double.granted -= {(Kind.TOPIC, Operation.CREATE, retries)}
        changed(gateway)
        assert assigned(await beat(client, GROUP, "n", 0, "t", retries)) == {base: [0], made.topic_id: [0]}

    run(test)


def test_that_a_group_is_not_there_is_told_to_who_may_delete_it_and_read_none_of_its_topics() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        await topic(gateway, admin, 1)
        said = build(ApiKey.DELETE_SHARE_GROUP_OFFSETS, {"group_id": "none", "topics": [{"topic_name": "t"}]})
        refused = await client.ask(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, said)
        assert refused.error_code == Error.GROUP_AUTHORIZATION_FAILED
        double.granted = {(Kind.GROUP, Operation.DELETE, "none")}
        answer = await client.ask(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, said)
        assert (answer.error_code, answer.responses) == (Error.GROUP_ID_NOT_FOUND, [])

    run(test)


def test_a_share_session_is_of_its_principal_whoever_else_names_the_member() -> None:
    """From the same address, with the same client id."""

    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        topic_id = await topic(gateway, admin, 1)
        double.granted = set(BOTH)
        await share_fetch(client, "m", 0, topic_id, [0])
        async with client_with(gateway, RightsDouble(BOTH), principal="User:eve") as eve:
            for answer in (
                await share_fetch(eve, "m", 1),
                await share_fetch(eve, "m", 0, topic_id, [0]),
                await share_acknowledge(eve, "m", 1, topic_id, {0: [(0, 0, ACCEPT)]}),
            ):
                assert answer.error_code == Error.SHARE_SESSION_NOT_FOUND
        # another connection of the same one goes on with it
        async with client_with(gateway, RightsDouble(BOTH)) as again:
            said = await share_acknowledge(again, "m", 1, topic_id, {0: [(0, 0, ACCEPT)]})
            assert errors(said) == {0: 0}

    run(test)
