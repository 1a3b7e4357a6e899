"""A gateway that kills itself at a numbered step. `python -m tests.proofs.soak.victim [--arm "STEP PASS"] serve ...`

The code that serves is the one of `magnetar serve`. Its functions name their steps themselves (`store/steps.py`), but
for four that both kinds of groups share. A line "STEP PASS" on stdin arms a step while the gateway
serves. Checkpoints come twice a second instead of twice a minute.

`--sabotage NAME` breaks one promise instead, so that the proof itself can be proven.
"""

from __future__ import annotations

import importlib
import sys
import threading
from pathlib import Path
from typing import Any

from store import steps
from tests.proofs.soak import killing
from tests.proofs.soak.killing import arm, wrap
from tests.proofs.soak.steps import NUMBERS


def place() -> None:
    """Every step of `STEPS` to its place. Raises SystemExit when one has none, or a place has no step."""
    # before anything that has steps is imported, which is why nothing of the product is imported above
    steps.weave = killing.weave
    from gateway import apis
    from gateway.broker import groups, share_groups

    importlib.import_module("gateway.server")
    # a gateway imports these when it knows that it needs them
    importlib.import_module("store.rocksdb")
    apis.load_all()
    # what both kinds of groups do, and each has a step of its own for
    wrap(groups.Groups, "_step", "group.step")
    wrap(groups.Groups, "_landed", "group.landed")
    wrap(share_groups.ShareGroups, "_step", "member.step")
    wrap(share_groups.ShareGroups, "_landed", "member.landed")
    if killing.placed != NUMBERS.keys():
        raise SystemExit(
            f"steps without a place, or places without a step: {killing.placed ^ NUMBERS.keys()}"
        )


def often() -> None:
    """Checkpoints twice a second."""
    from semantics.subscriptions import due, recovery
    from store import rocksdb

    opened = rocksdb.open

    async def open_often(path: Path, **given: Any) -> rocksdb.RocksStore:
        return await opened(path, **{**given, "checkpoint_seconds": 0.5, "checkpoint_pause": 0.3})

    rocksdb.open = open_often
    # acknowledgements of one chunk are logged, too, and logs and bundles go early
    recovery.FEW, recovery.LOGGED, recovery.LOGS = 0, 100, 5
    due.LINGERING = 2


def listen() -> None:
    """Steps that are armed while the gateway serves."""
    for line in sys.stdin:
        name, passes = line.split()
        arm(name, int(passes))


def main() -> None:
    arguments = sys.argv[1:]
    promise = ""
    while arguments[0] in ("--arm", "--sabotage"):
        option, value, *arguments = arguments
        if option == "--arm":
            name, passes = value.split()
            arm(name, int(passes))
        else:
            promise = value
    place()
    often()
    if promise:
        from tests.proofs.soak.sabotage import SABOTAGES

        SABOTAGES[promise]()
    threading.Thread(target=listen, daemon=True).start()
    sys.argv[1:] = arguments
    from gateway.cli.main import main as magnetar

    magnetar(prog_name="magnetar")


if __name__ == "__main__":
    main()
