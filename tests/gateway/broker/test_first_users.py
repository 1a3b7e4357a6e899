"""users.file makes users at the first start, and at no other."""

from __future__ import annotations

from pathlib import Path

import pytest
import uvloop

from gateway.errors import StartError
from store import memory
from store.api import Family
from tests.gateway.broker.held import HeldStore, serving_on


def test_users_of_a_file_are_made_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    file = tmp_path / "users"
    file.write_text("ada:sesame\nbob:open\n")
    file.chmod(0o644)
    store = memory.open()

    async def main() -> None:
        held = HeldStore(store)
        async with serving_on(held, f"users.file={file}") as gateway:
            users = gateway.broker.users
            assert users.names() == ["ada", "bob"]
            assert (await users.identify_password("bob", "open", "PLAIN")).principal == "User:bob"
            with_users = [
                each
                for each in held.commits
                if any(getattr(write, "family", None) is Family.USER for write in each)
            ]
            assert len(with_users) == 1, "all are one fact"
            assert "can be read by others" in caplog.text
            await users.delete("bob")
        # another start does not even look at it
        file.unlink()
        caplog.clear()
        async with serving_on(store, f"users.file={file}") as gateway:
            assert gateway.broker.users.names() == ["ada"]
            assert [each.getMessage() for each in caplog.records if "users.file" in each.getMessage()] == [
                "users.file is left alone: there are users"
            ]

    uvloop.run(main())
    assert "sesame" not in caplog.text


def test_with_a_file_that_cannot_be_taken_nothing_starts(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving_on(memory.open(), f"users.file={tmp_path / 'none'}"):
            raise AssertionError("it has started")

    with pytest.raises(StartError, match=r"users\.file: .*none cannot be read"):
        uvloop.run(main())
