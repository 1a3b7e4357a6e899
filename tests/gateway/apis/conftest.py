"""What the tests of the group APIs begin with."""

from __future__ import annotations

import pytest

from tests.gateway.apis.group_client import Client
from tests.gateway.broker.fake_broker import FakeBroker


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


@pytest.fixture
def client(broker: FakeBroker) -> Client:
    return Client(broker)
