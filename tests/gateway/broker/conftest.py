"""What the tests of classic groups begin with."""

from __future__ import annotations

import pytest

from tests.gateway.broker.fake_broker import FakeBroker
from tests.gateway.broker.group_client import Client


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


@pytest.fixture
def client(broker: FakeBroker) -> Client:
    return Client(broker)
