"""What the tests of logins begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.auth.issuing import CA


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system trusts the server's CA."""
    CA.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
