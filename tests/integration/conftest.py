"""Gateways for the tests: one shared by all that only need topics of their own, fresh ones for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from compat.peers.magnetar import MagnetarPeer


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MagnetarPeer]:
    """A running gateway on RocksDB. Tests may restart it, and leave it running."""
    with MagnetarPeer(directory=tmp_path_factory.mktemp("gateway")) as process:
        yield process


@pytest.fixture
def own_gateway(tmp_path: Path) -> Iterator[Callable[..., MagnetarPeer]]:
    """`own_gateway(*flags)` starts a gateway for one test."""
    started: list[MagnetarPeer] = []

    def start(*flags: str, directory: Path = tmp_path, wrapper: Sequence[str] = ()) -> MagnetarPeer:
        process = MagnetarPeer(*flags, directory=directory, wrapper=wrapper)
        started.append(process)
        return process.start()

    yield start
    for process in started:
        process.close()
