"""For all tests of the gateway."""

from __future__ import annotations

import pytest

from gateway.admin import audit_reading, browsing, open_messages, tracing
from gateway.console import find, sought

FOR_EVER_S = 3600


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches that end after some time find what they would on a machine that nobody else uses. Tests of their bounds
    set these.
    """
    for module in (browsing, tracing, audit_reading):
        for name in ("WORK_NS", "LONGEST_NS", "PAGE_NS"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, FOR_EVER_S * 1_000_000_000)
    monkeypatch.setattr(open_messages, "SECONDS", FOR_EVER_S)
    monkeypatch.setattr(sought, "SECONDS", FOR_EVER_S)
    monkeypatch.setattr(sought, "MOST_SECONDS", FOR_EVER_S)
    monkeypatch.setattr(find, "BUDGET_SECONDS", FOR_EVER_S)
