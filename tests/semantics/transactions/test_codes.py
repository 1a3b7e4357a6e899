"""Which error a request of which version is told."""

from __future__ import annotations

import pytest

from gateway.wire.errors import Error
from semantics.transactions.codes import Api, Code, spoken


@pytest.mark.parametrize("code", list(Code))
def test_a_code_is_the_error_of_its_name(code: Code) -> None:
    assert Error[code.name].value == code.value


@pytest.mark.parametrize(
    ("api", "version", "told"),
    [
        (Api.INIT_PRODUCER_ID, 3, 47),
        (Api.INIT_PRODUCER_ID, 4, 90),
        (Api.ADD_PARTITIONS_TO_TXN, 0, 47),
        (Api.ADD_PARTITIONS_TO_TXN, 1, 47),
        (Api.ADD_PARTITIONS_TO_TXN, 2, 90),
        (Api.ADD_OFFSETS_TO_TXN, 1, 47),
        (Api.ADD_OFFSETS_TO_TXN, 2, 90),
        (Api.END_TXN, 1, 47),
        (Api.END_TXN, 2, 90),
        (Api.END_TXN, 5, 90),
        (Api.PRODUCE, 3, 47),
        (Api.PRODUCE, 13, 47),
        (Api.TXN_OFFSET_COMMIT, 0, 47),
        (Api.TXN_OFFSET_COMMIT, 5, 47),
        (Api.WRITE_TXN_MARKERS, 1, 47),
    ],
)
def test_a_fenced_producer(api: Api, version: int, told: int) -> None:
    assert spoken(Code.PRODUCER_FENCED, api, version) == told


@pytest.mark.parametrize(
    ("api", "version", "told"),
    [
        (Api.PRODUCE, 10, 48),
        (Api.PRODUCE, 11, 120),
        (Api.TXN_OFFSET_COMMIT, 3, 48),
        (Api.TXN_OFFSET_COMMIT, 4, 120),
        (Api.ADD_PARTITIONS_TO_TXN, 4, 120),
    ],
)
def test_what_was_not_added(api: Api, version: int, told: int) -> None:
    assert spoken(Code.TRANSACTION_ABORTABLE, api, version) == told


def test_all_else_is_said_as_it_is() -> None:
    for code in set(Code) - {Code.PRODUCER_FENCED, Code.TRANSACTION_ABORTABLE}:
        assert {spoken(code, api, 0) for api in Api} == {code}
    assert spoken(15, Api.END_TXN, 0) == 15
