"""The proof of Streams would notice: a result that is missing, comes twice, or was made of an aborted record."""

from __future__ import annotations

import copy

import pytest

from tests.proofs.streams.day import (
    CLOSING,
    HOUR_MS,
    OUTPUTS,
    PAID_AFTER_MS,
    QUARTER_MS,
    Line,
    closing,
    expected,
    lines,
    region_of,
    wrong,
)

BEGIN = 480_000 * HOUR_MS
LINES = lines(7, 300, BEGIN)
SHOULD = expected(LINES)


def results() -> dict[str, dict[str, list[str]]]:
    """What comes out when all is well."""
    found = copy.deepcopy(SHOULD)
    sums: dict[str, tuple[int, int]] = {}
    found["regions"] = {}
    for line in LINES:
        if line.topic == "sales":
            region = region_of(int(line.key.removeprefix("shop-")))
            count, total = sums.get(region, (0, 0))
            sums[region] = count + 1, total + int(line.value.split()[1])
            found["regions"].setdefault(region, []).append("{} {}".format(*sums[region]))
    return found


def test_the_day_has_all_its_hours_in_the_order_of_time() -> None:
    times = [line.time for line in LINES]
    assert times == sorted(times)
    assert times[0] == BEGIN
    assert BEGIN + 23 * HOUR_MS < times[-1] < BEGIN + 24 * HOUR_MS + PAID_AFTER_MS
    assert lines(7, 300, BEGIN) == LINES
    assert lines(8, 300, BEGIN) != LINES


def test_the_sums_by_hand() -> None:
    found = expected(
        [
            Line("sales", "shop-1", "0 50", QUARTER_MS),
            Line("sales", "shop-8", "1 20", QUARTER_MS + 1),
            Line("sales", "shop-1", "2 7", 2 * QUARTER_MS - 1),
            Line("sales", "shop-1", "3 1", 2 * QUARTER_MS),
            Line("streams-plaintext-input", "", "tea milk", 0),
            Line("streams-plaintext-input", "", "tea tea", 0),
        ]
    )
    assert found["quarters"] == {
        f"shop-1@{QUARTER_MS}": ["57"],
        f"shop-8@{QUARTER_MS}": ["20"],
        f"shop-1@{2 * QUARTER_MS}": ["1"],
    }
    assert found["regions"] == {"region-1": ["4 78"]}
    assert found["paid"] == {"shop-1": ["0 0", "2 2", "3 3"], "shop-8": ["1 1"]}
    assert found["streams-wordcount-output"] == {"tea": ["1", "2", "3"], "milk": ["1"]}


@pytest.mark.parametrize("topic", OUTPUTS)
def test_what_is_exact_is_right(topic: str) -> None:
    found = results()[topic]
    assert wrong(topic, found, SHOULD[topic]) is None
    assert wrong(topic, {**found, f"{CLOSING}-1": ["0"]}, SHOULD[topic]) is None


@pytest.mark.parametrize("topic", OUTPUTS)
def test_a_result_that_comes_twice_or_never(topic: str) -> None:
    for values in results()[topic].values():
        found = results()[topic]
        key = next(each for each in found if found[each] == values)
        for changed in (values[:-1], [*values, values[-1]], [*values, "999 9"], []):
            assert wrong(topic, {**found, key: changed}, SHOULD[topic]) is not None
        del found[key]
        assert f"{topic} has nothing of {key}" in (wrong(topic, found, SHOULD[topic]) or "")


@pytest.mark.parametrize("topic", OUTPUTS)
def test_a_key_that_should_not_be(topic: str) -> None:
    assert wrong(topic, {**results()[topic], "nobody": ["1 1"]}, SHOULD[topic]) is not None


def test_counts_out_of_their_order() -> None:
    found = results()["streams-wordcount-output"]
    found["tea"][:2] = reversed(found["tea"][:2])
    assert wrong("streams-wordcount-output", found, SHOULD["streams-wordcount-output"]) is not None


def test_a_sum_that_is_wrong_in_the_end() -> None:
    found = results()["regions"]
    count = len(found["region-0"])
    found["region-0"][-1] = f"{count} 1"
    assert wrong("regions", found, SHOULD["regions"]) is not None


def test_each_partition_has_a_record_that_closes_its_windows() -> None:
    assert sorted(partition for _, partition in closing(BEGIN, 4)) == [0, 1, 2, 3]
