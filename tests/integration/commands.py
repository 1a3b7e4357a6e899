"""`magnetar-admin` in the test's own process: a start of Python for each call would take longer than the tests.

Tests of the command as users start it are in `cli/`, and take `MagnetarPeer.admin`.
"""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from compat.peers.magnetar import MagnetarPeer
from gateway.cli.admin import main


def run(gateway: MagnetarPeer, *words: str, stdin: str | None = None) -> Result:
    """Its exit code, and what it says on stdout and stderr."""
    return CliRunner().invoke(main, ["--admin-url", gateway.admin_url, *words], input=stdin)


def admin(gateway: MagnetarPeer, *words: str, code: int = 0) -> Any:
    """What it answers, None for nothing; or what it says on stderr where it fails with this code."""
    done = run(gateway, "--output", "json", *words)
    assert done.exit_code == code, done.output
    if code:
        return done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else None
