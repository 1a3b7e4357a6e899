"""How many examples Hypothesis draws, and from which seed.

`make check` and `make test` draw the same examples each time, from seed 0 (`addopts` in pyproject.toml), so that a run
is red because of a change and not by luck. `make explore` draws others, many times as many. What it finds becomes a
test of its own before it is mended: see `semantics/subscriptions/test_once_red.py`.
"""

from __future__ import annotations

import os

FACTOR = int(os.environ.get("EXPLORE", "1"))
"""How many times as many examples: set by `make explore`."""


def examples(number: int) -> int:
    """For `settings(max_examples=...)`: half of `number` in `make test`, a multiple of it in `make explore`."""
    return number * FACTOR if FACTOR > 1 else -(-number // 2)
