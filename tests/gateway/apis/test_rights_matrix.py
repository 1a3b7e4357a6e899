"""Every API, with and without each right that the table says it needs: what it answers, and what is stored then."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import uvloop

from gateway import apis, audit
from gateway.apis.audited import DENIED
from gateway.apis.registry import APIS
from gateway.apis.rights_table import NEEDS, How, Kind, Need, Right
from gateway.wire import schema
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from tests.gateway.apis.rights_cases import CASES, OURS, Case
from tests.gateway.apis.rights_double import Granted, RightsDouble, everything, two_clients
from tests.gateway.apis.rights_world import NAMES, OVER, QUEUE, World, build, codes, names

apis.load_all()

ELSEWHERE = {
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, 2): "test_rights_patterns.py",
    (ApiKey.SHARE_GROUP_HEARTBEAT, 2): "test_rights_sharing.py",
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, 1): "test_quotas.py",
    (ApiKey.ALTER_CLIENT_QUOTAS, 1): "test_quotas.py",
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 1): "test_scram_credentials.py",
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 1): "test_scram_credentials.py",
}
"""Rows that one request of a client at home in public/default does not show, and who asks."""
FLAGS = ("authorization=true", "super.users=User:ANONYMOUS")
"""There are ACLs, and whoever prepares may do everything."""
UNKNOWN_TO_KAFKA = ("pulsar.", "errors.deadletterqueue.", QUEUE, OVER)
"""Some of these is in a request that only a gateway understands."""


@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: APIS[key].name)
def test_of_every_api_it_is_known_what_it_needs_and_each_need_is_asked(key: int) -> None:
    asked = {row for case in CASES if case.key == key for row in case.rows}
    assert any(case.key == key for case in CASES), "no case"
    assert asked | {row for known, row in ELSEWHERE if known == key} == set(range(len(NEEDS[key])))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_a_right_it_is_refused_and_nothing_has_happened(case: Case) -> None:
    async def test(world: World) -> None:
        for need in case.needs:
            if need.how is How.LESS:
                continue
            world.rights.granted = everything(*NAMES) - _of(case, need)
            before = world.state()
            answer = await _ask(world, case)
            if need.how is How.LEFT_OUT:
                assert set(codes(answer)) <= case.fine
                assert _shown(case, need) not in names(answer)
            elif need.how is How.WHOLE:
                assert _all_codes(case, answer) == {need.error}, need
            else:
                assert need.error in set(codes(answer)), need
            assert world.state() == before, need
        # nor without any
        world.rights.granted = set()
        before = world.state()
        answer = await _ask(world, case)
        if any(need.error and need.how is not How.LESS for need in case.needs):
            assert set(codes(answer)) & {need.error for need in case.needs}
        assert world.state() == before

    _run(case, test)


@pytest.mark.parametrize(
    ("case", "rights"),
    [(case, rights) for case in CASES for rights in product(*(need.any_of for need in case.needs))],
    ids=str,
)
def test_with_what_it_needs_and_nothing_else_it_is_done(case: Case, rights: Sequence[Right]) -> None:
    async def test(world: World) -> None:
        world.rights.granted = {
            granted
            for need, right in zip(case.needs, rights, strict=True)
            for granted in _granted(case, need, right)
        }
        before = world.state()
        answer = await _ask(world, case)
        assert set(codes(answer)) <= case.fine, answer
        for need in case.needs:
            if need.how is How.LEFT_OUT:
                assert _shown(case, need) in names(answer)
        await asyncio.sleep(0)
        assert (world.state() != before) is case.changes
        # what is asked of Kafka too, by `make rights`, is what Kafka knows
        assert any(each in repr(case.said(world)) for each in UNKNOWN_TO_KAFKA) is (case.label in OURS)

    _run(case, test)


UNTOLD = {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE}
"""What is refused here its client was refused before; see `gateway/apis/audited.py`."""
REFUSING = [
    case
    for case in CASES
    if case.key not in UNTOLD
    and any(need.how is not How.LESS and need.error in DENIED for need in case.needs)
]


@pytest.mark.parametrize("case", REFUSING, ids=str)
def test_what_is_refused_is_told_by_the_audit(case: Case) -> None:
    async def test(world: World) -> None:
        told = world.gateway.broker.audit
        for need in case.needs:
            if need.how is How.LESS or need.error not in DENIED:
                continue
            world.rights.granted = everything(*NAMES) - _of(case, need)
            # the same is not told again at once
            told._lately.clear()
            before = told.last(1)
            await _ask(world, case)
            (entry,) = told.last(1)
            assert [entry] != before, need
            assert (entry.kind, entry.what) == (audit.Kind.REFUSED, APIS[case.key].name)
            if need.any_of[0].kind not in (Kind.CLUSTER, Kind.GATEWAY):
                assert entry.target, need

    _run(case, test)


LESS = [(case, need) for case in CASES for need in case.needs if need.how is How.LESS]


@pytest.mark.parametrize(("case", "need"), LESS, ids=str)
def test_without_a_right_it_is_done_and_less_is_told(case: Case, need: Need) -> None:
    async def test(world: World) -> None:
        world.rights.granted = everything(*NAMES) - _of(case, need)
        before = world.state()
        answer = await _ask(world, case)
        assert set(codes(answer)) <= {0, need.error}
        assert (world.state() != before) is case.changes
        if need.error is not Error.NONE:
            assert need.error in set(codes(answer))
            (topic,) = answer.topics
            assert (topic.configs, topic.num_partitions) == ([], -1)
        else:
            assert answer.cluster_authorized_operations == 0

    _run(case, test)


# -- how ------------------------------------------------------------------------------------------------------------


def _run(case: Case, test: Any) -> None:
    async def main() -> None:
        rights = RightsDouble(everything(*NAMES))
        async with two_clients(rights, *FLAGS) as (gateway, admin, client):
            world = World(gateway, admin, client, rights)
            await world.begin()
            if case.begin is not None:
                await case.begin(world)
            await test(world)

    uvloop.run(main())


async def _ask(world: World, case: Case) -> Any:
    said = case.said(world)
    request = build(case.key, said) if isinstance(said, dict) else said
    answer = await world.client.ask(case.key, case.version, request)
    if not getattr(answer, "error_code", 0):
        world.share_epoch += 1
    return answer


def _all_codes(case: Case, answer: Any) -> set[int]:
    """Those of its version: the answer as a whole may have none."""
    fields = schema.load(schema.api_name(case.key) + "Response").fields
    found = list(codes(answer))
    if any(each.attribute == "error_code" and case.version not in each.versions for each in fields):
        found.remove(answer.error_code)
    return set(found)


def _granted(case: Case, need: Need, right: Right) -> set[Granted]:
    kind = Kind.TOPIC if right.kind is Kind.ANY_TOPIC else right.kind
    return {(kind, right.operation, case.name(need, right.kind))}


def _of(case: Case, need: Need) -> set[Granted]:
    """All that would be enough."""
    found = set().union(*(_granted(case, need, right) for right in need.any_of))
    if any(right.kind is Kind.ANY_TOPIC for right in need.any_of):
        found |= {(Kind.TOPIC, Operation.WRITE, name) for name in NAMES}
    return found


def _shown(case: Case, need: Need) -> str:
    return case.shown or case.name(need, need.any_of[-1].kind)
