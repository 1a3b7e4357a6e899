"""Users for the first start: made of users.file while there are none, all in one commit."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path

from gateway.auth import users_file
from gateway.auth.credentials import UserRow
from gateway.broker.users import Users, verifiers_of

log = logging.getLogger("magnetar.users")


async def make_first(users: Users, location: str) -> None:
    """Raises UserError for a file that cannot be taken; StoreError."""
    if users.names():
        log.info("users.file is left alone: there are users", extra={"file": location})
        return
    path = Path(location)

    def made() -> tuple[dict[str, UserRow], str | None]:
        # 3 ms a user
        passwords, warning = users_file.read(path)
        return {name: UserRow(verifiers_of(each)) for name, each in passwords.items()}, warning

    rows, warning = await asyncio.to_thread(made)
    if warning is not None:
        log.warning(warning)
    await users.change({name: partial(_in_place, row) for name, row in rows.items()})
    log.info("users were made of users.file, which is not needed any more", extra={"users": len(rows)})


def _in_place(row: UserRow, old: UserRow | None) -> UserRow:
    return row
