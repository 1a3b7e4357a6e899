"""What tests of the broker begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.broker.fake_broker import FakeBroker
from tests.gateway.broker.group_client import Client


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


@pytest.fixture
def client(broker: FakeBroker) -> Client:
    return Client(broker)


@pytest.fixture(params=["memory", "rocksdb"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Both stores, since what holds on one must hold on the other: where a world keeps its data, None for memory."""
    return tmp_path / "data" if request.param == "rocksdb" else None
