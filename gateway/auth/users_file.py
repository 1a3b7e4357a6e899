"""users.file: names and passwords for the first start, `name:password` a line.

A password is all behind the first colon, and may hold more of them; so a name in this file holds none. Empty lines, and
lines that begin with #, say nothing.
"""

from __future__ import annotations

from pathlib import Path

from gateway.auth import private_files
from gateway.auth.credentials import UserError, check_name, check_password

LARGEST = 1 << 20
"""Bytes."""


def read(path: Path) -> tuple[dict[str, str], str | None]:
    """(passwords by name, a sentence if others can read the file). Raises UserError, which says the line and nothing of
    what stands there.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    if len(raw) > LARGEST:
        raise UserError(f"{path} has more than {LARGEST:,} bytes.")
    try:
        users = parse(raw)
    except UserError as error:
        raise UserError(f"{path}, {error}") from None
    if not users:
        raise UserError(f"{path} names no user: write name:password, one a line.")
    return users, private_files.warning(path)


def parse(raw: bytes) -> dict[str, str]:
    """Passwords by name. Raises UserError."""
    users: dict[str, str] = {}
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith(b"#"):
            continue
        try:
            # bytes are split and not text, in which more ends a line
            name, colon, password = line.decode().partition(":")
        except UnicodeDecodeError:
            raise UserError(f"line {number}: This is not UTF-8.") from None
        if not colon:
            raise UserError(f"line {number}: There is no colon between name and password.")
        try:
            check_name(name)
            check_password(password)
        except UserError as error:
            raise UserError(f"line {number}: {error}") from None
        if name in users:
            raise UserError(f"line {number}: This user stands there twice.")
        users[name] = password
    return users
