"""Gateways for the tests: one shared by all that only need topics of their own, fresh ones for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.process import GatewayProcess


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A running gateway on RocksDB. Tests may restart it, and leave it running."""
    with GatewayProcess(tmp_path_factory.mktemp("gateway") / "data") as process:
        yield process


@pytest.fixture
def own_gateway(tmp_path: Path) -> Iterator[Callable[..., GatewayProcess]]:
    """`own_gateway(*flags)` starts a gateway for one test."""
    started: list[GatewayProcess] = []

    def start(*flags: str, name: str = "data", **options: object) -> GatewayProcess:
        process = GatewayProcess(tmp_path / name, *flags, **options)  # type: ignore[arg-type]
        started.append(process)
        return process.start()

    yield start
    for process in started:
        process.__exit__()
