"""`make explore`: new examples, and how to see a red one again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_TEST = """
from hypothesis import given, settings, strategies as st
from tests.examples import examples

@settings(max_examples=examples(50))
@given(st.integers(0, 10**6))
def test_rare(number):
    assert number % 300 != 7

@given(st.integers())
def test_sound(number):
    pass
"""


def test_what_was_found_is_found_again(tmp_path: Path) -> None:
    """As few examples as in `make test` meet it seldom; the command that is printed meets it each time."""
    tests = tmp_path / "test_rare.py"
    tests.write_text(_TEST)

    def explore(*arguments: str) -> tuple[int, str]:
        run = subprocess.run(
            [sys.executable, "-m", "tests.proofs.explore", "-n", "0", *arguments],
            capture_output=True,
            text=True,
            # the folder of examples that were met
            env=os.environ | {"HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path / "examples")},
        )
        return run.returncode, run.stdout

    code, said = explore("--seed", "3", "--factor", "40", str(tests))
    assert code == 1, said
    assert "To see it again:\n  make explore ARGS=\"--seed 3 --factor 40 '" in said, said
    assert "test_rare.py::test_rare'" in said
    assert "test_sound" not in said.partition("To see it again:")[2]
    again, _ = explore("--seed", "3", "--factor", "40", str(tests) + "::test_rare")
    assert again == 1
    sound, said = explore("--seed", "3", "--factor", "2", str(tests) + "::test_sound")
    assert sound == 0, said
    assert "To see it again" not in said
