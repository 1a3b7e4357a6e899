"""What several tests of the classic group begin with."""

from __future__ import annotations

import pytest

from tests.gateway.coordinators.classic_bench import ClassicBench


@pytest.fixture
def bench() -> ClassicBench:
    """An empty classic group."""
    return ClassicBench()
