"""Rights of clients at home in another namespace are asked for by the catalog's names and the ids that are kept."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.apis.rights_table import Kind
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from semantics.group_names import scoped
from tests.gateway.apis.homes_asking import EU, OTHERS, OWN, by_id, run
from tests.gateway.apis.rights_double import Granted, RightsDouble
from tests.gateway.broker.asking import errors, fetch
from tests.gateway.serving import Client, batch, create, produce_body

FORBIDDEN = Error.TOPIC_AUTHORIZATION_FAILED
ABSENT_ID = Error.UNKNOWN_TOPIC_ID


def restrict(gateway: Gateway, listener: str, granted: set[Granted]) -> RightsDouble:
    """Give the one client of a listener these rights, and no others."""
    double = RightsDouble(granted)
    (its,) = [each for each in gateway.listeners if each.name == listener]
    (connection,) = its.connections
    connection.peer.rights = double
    return double


def topic(operation: Operation, name: str) -> Granted:
    return Kind.TOPIC, operation, name


@pytest.mark.parametrize("version", [9, 13])
def test_records_are_written_by_the_right_to_the_catalogs_topic(version: int) -> None:
    async def test(gateway: Gateway, client: Client, eu: Client, us: Client) -> None:
        topic_id = await create(eu, "orders")
        # a right to what is called so elsewhere is none to this
        double = restrict(gateway, "EU", {topic(Operation.WRITE, "orders"), topic(Operation.WRITE, OTHERS)})
        codes = []
        for granted in (double.granted, {topic(Operation.WRITE, OWN)}):
            double.granted = granted
            body = by_id(produce_body("orders", batch(b"x")), topic_id)
            (told,) = (await eu.ask(ApiKey.PRODUCE, version, body)).responses
            codes.append(told.partition_responses[0].error_code)
        assert codes == [FORBIDDEN, 0]

    run(test)


def test_a_topic_that_is_not_there_is_forbidden_by_its_name_in_the_catalog() -> None:
    async def test(gateway: Gateway, client: Client, eu: Client, us: Client) -> None:
        double = restrict(gateway, "EU", {topic(Operation.WRITE, "nobodys")})
        codes = []
        for granted in (double.granted, {topic(Operation.WRITE, "shop/eu/nobodys")}):
            double.granted = granted
            (told,) = (await eu.ask(ApiKey.PRODUCE, 9, produce_body("nobodys", batch(b"x")))).responses
            codes.append((told.name, told.partition_responses[0].error_code))
        assert codes == [("nobodys", FORBIDDEN), ("nobodys", Error.UNKNOWN_TOPIC_OR_PARTITION)]

    run(test)


@pytest.mark.parametrize("version", [11, 16])
def test_records_are_read_by_the_right_to_the_catalogs_topic(version: int) -> None:
    async def test(gateway: Gateway, client: Client, eu: Client, us: Client) -> None:
        topic_id = await create(eu, "orders")
        named: Any = topic_id if version >= 13 else "orders"
        double = restrict(gateway, "EU", {topic(Operation.READ, "orders")})
        codes = []
        for granted in (double.granted, {topic(Operation.READ, OWN)}):
            double.granted = granted
            codes.append(errors(await fetch(eu, {named: {0: 0}}, version=version)))
        assert codes == [{0: FORBIDDEN}, {0: 0}]

    run(test)


def test_the_id_of_another_homes_topic_names_nothing_whatever_rights_there_are() -> None:
    """Also none that it could have been forbidden for."""

    async def test(gateway: Gateway, client: Client, eu: Client, us: Client) -> None:
        await create(eu, "orders")
        foreign = await create(us, "orders")
        double = restrict(gateway, "EU", set())
        for granted in (set[Granted](), {topic(Operation.READ, OTHERS), topic(Operation.WRITE, OTHERS)}):
            double.granted = granted
            assert errors(await fetch(eu, {foreign: {0: 0}}, version=16)) == {0: ABSENT_ID}
            body = by_id(produce_body("orders", batch(b"x")), foreign)
            (told,) = (await eu.ask(ApiKey.PRODUCE, 13, body)).responses
            assert told.partition_responses[0].error_code == ABSENT_ID

    run(test)


def test_groups_are_asked_for_by_the_ids_that_are_kept_and_told_by_their_names() -> None:
    async def test(gateway: Gateway, client: Client, eu: Client, us: Client) -> None:
        await create(eu, "orders")
        own = scoped(EU, "g")
        double = restrict(gateway, "EU", {(Kind.GROUP, Operation.READ, "g"), topic(Operation.READ, OWN)})
        asked = messages.OffsetCommitRequest
        partition = asked.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=""
        )
        commit = asked(
            group_id="g", topics=[asked.OffsetCommitRequestTopic(name="orders", partitions=[partition])]
        )
        codes = []
        for granted in (double.granted, {(Kind.GROUP, Operation.READ, own), topic(Operation.READ, OWN)}):
            double.granted = granted
            answer = await eu.ask(ApiKey.OFFSET_COMMIT, 8, commit)
            codes.append((answer.topics[0].name, answer.topics[0].partitions[0].error_code))
        assert codes == [("orders", Error.GROUP_AUTHORIZATION_FAILED), ("orders", 0)]
        listed = messages.ListGroupsRequest()
        double.granted = {(Kind.GROUP, Operation.DESCRIBE, "g")}
        assert (await eu.ask(ApiKey.LIST_GROUPS, 4, listed)).groups == []
        double.granted = {(Kind.GROUP, Operation.DESCRIBE, own)}
        assert [each.group_id for each in (await eu.ask(ApiKey.LIST_GROUPS, 4, listed)).groups] == ["g"]

    run(test)


def test_metadata_of_a_home_has_what_may_be_described_of_it() -> None:
    async def test(gateway: Gateway, client: Client, eu: Client, us: Client) -> None:
        for name in ("orders", "bills"):
            await create(eu, name)
        await create(us, "orders")
        restrict(gateway, "EU", {topic(Operation.DESCRIBE, OWN), topic(Operation.DESCRIBE, OTHERS)})
        answer = await eu.ask(ApiKey.METADATA, 9, messages.MetadataRequest(topics=None))
        assert [each.name for each in answer.topics] == ["orders"]
        named = [
            messages.MetadataRequest.MetadataRequestTopic(name=name) for name in ("orders", "bills", "none")
        ]
        answer = await eu.ask(ApiKey.METADATA, 9, messages.MetadataRequest(topics=named))
        codes = {each.name: each.error_code for each in answer.topics}
        assert codes == {"orders": 0, "bills": FORBIDDEN, "none": FORBIDDEN}

    run(test)
