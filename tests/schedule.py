"""Which tests of `make test` share a worker, and which begin first.

A worker that runs one test of Spark starts a JVM and warms it up. So one worker runs them all. Tests of gateways in
processes of their own mostly wait, and unit tests never do. So they take turns, and both cores have work all the time.
What takes long begins early: nobody works alone at the end.
"""

from __future__ import annotations

SPARK = "tests/integration/spark/"
OWN_SPARK = (SPARK + "test_demo.py", SPARK + "test_pipeline_process.py", SPARK + "test_roundtrip.py")
"""They start Spark in processes of their own, and share nothing with the others; or run commands that end it."""
LONG = (
    SPARK,
    "tests/proofs/soak/test_soak.py",
    "tests/integration/test_clients.py",
    "tests/integration/test_powercut.py",
    *OWN_SPARK,
)
"""What begins first, in this order."""
PROCESSES = ("tests/integration/", "tests/proofs/")


def unit_of(test: str) -> str:
    """What goes to one worker as a whole: the file of a test, or all that share a Spark."""
    file = test.partition("::")[0]
    return SPARK if file.startswith(SPARK) and file not in OWN_SPARK else file


def order(tests: list[str]) -> list[int]:
    """The places of tests in the order in which they are to run. Tests of a unit stay together, and as they stood."""
    units: dict[str, list[int]] = {}
    for place, test in enumerate(tests):
        units.setdefault(unit_of(test), []).append(place)
    first = [unit for unit in LONG if unit in units]
    rest = [unit for unit in units if unit not in LONG]
    slow = [unit for unit in rest if unit.startswith(PROCESSES)]
    quick = [unit for unit in rest if not unit.startswith(PROCESSES)]
    return [place for unit in (*first, *_in_turn(slow, quick)) for place in units[unit]]


def _in_turn(some: list[str], others: list[str]) -> list[str]:
    """Both, each spread evenly over the whole."""
    spread = [((place + 0.5) / len(each), unit) for each in (some, others) for place, unit in enumerate(each)]
    return [unit for _, unit in sorted(spread)]
