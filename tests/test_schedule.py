from __future__ import annotations

from tests.schedule import order, unit_of

SPARK = "tests/integration/spark/"


def _ordered(*tests: str) -> list[str]:
    return [tests[place] for place in order(list(tests))]


def test_all_that_share_a_spark_go_to_one_worker_and_others_by_file() -> None:
    assert unit_of(SPARK + "test_sink.py::test_a") == unit_of(SPARK + "test_holes.py::TestB::test_b[x::y]")
    assert unit_of(SPARK + "test_demo.py::test_a") == SPARK + "test_demo.py"
    assert unit_of("tests/store/test_api.py::TestA::test_a[1]") == "tests/store/test_api.py"


def test_what_takes_long_begins_first() -> None:
    assert _ordered(
        "tests/gateway/test_a.py::test_a",
        SPARK + "test_sink.py::test_a",
        "tests/proofs/soak/test_soak.py::test_a",
        "tests/store/test_a.py::test_a",
    )[:2] == [SPARK + "test_sink.py::test_a", "tests/proofs/soak/test_soak.py::test_a"]


def test_unit_tests_take_turns_with_tests_of_processes() -> None:
    found = _ordered(
        *(f"tests/gateway/test_{name}.py::test_a" for name in "abcd"),
        *(f"tests/integration/test_{name}.py::test_a" for name in "ab"),
    )
    assert [test.split("/")[1] for test in found] == [
        "gateway", "integration", "gateway", "gateway", "integration", "gateway",
    ]  # fmt: skip


def test_every_test_runs_once_and_those_of_a_file_as_they_stand() -> None:
    tests = [
        f"tests/{folder}/test_{name}.py::test_{number}"
        for folder in ("compat", "gateway", "integration", "integration/spark", "proofs", "store")
        for name in "ab"
        for number in (2, 1, 3)
    ]
    found = _ordered(*tests)
    assert sorted(found) == sorted(tests)
    for file in {test.partition("::")[0] for test in tests}:
        assert [test[-1] for test in found if test.startswith(file)] == ["2", "1", "3"]
