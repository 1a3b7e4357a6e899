"""Every API asked by users of different rights, one script for each user. `USERS` has them by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from compat.compare.rights import changes, cluster, groups, topics, transactions
from compat.compare.rights.world import RIGHTS, World
from compat.compare.server import Server


def script(user: str, server: Server) -> None:
    """All questions of one user, in a world of its own."""
    server.names.start_again()
    world = World(server, user)
    for part in (topics, groups, transactions, cluster, changes):
        part.ask(world)
    world.close()


SCRIPTS: dict[str, Callable[[Server], None]] = {user: partial(script, user) for user in RIGHTS}
