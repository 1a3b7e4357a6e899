"""`magnetar users`: users of a store whose gateway is stopped."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.auth.credentials import SHA_256, UserRow, check
from gateway.broker.users import Users
from gateway.cli.main import main
from store import rocksdb
from store.api import Write

SECRET = "open sesame"


def users(data: Path, *args: str, stdin: str = "") -> Result:
    runner = CliRunner(env={"MAGNETAR_CONFIG": None})
    return runner.invoke(main, ["users", *args, "--data", str(data)], prog_name="magnetar", input=stdin)


def kept(data: Path) -> dict[str, UserRow]:
    """As a gateway finds them at its start."""

    async def found() -> dict[str, UserRow]:
        store = await rocksdb.open(data)

        async def nothing(
            writes: Sequence[Write], done: Callable[[], None], again: Callable[[], None]
        ) -> None:
            raise AssertionError("nothing is changed")

        there = Users(store, nothing)
        rows = {name: row for name in there.names() if (row := there.get(name)) is not None}
        await store.close()
        return rows

    return asyncio.run(found())


def test_the_first_user_is_made_before_the_first_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = users(data, "create", "ada", "--home", "shop/eu", stdin=f"{SECRET}\n{SECRET}\n")
    assert made.exit_code == 0, made.output
    assert made.stdout == "Created user ada.\n"
    assert "namespaces create shop/eu" in made.stderr
    (row,) = kept(data).values()
    assert row.home == "shop/eu"
    assert all(check(each, SECRET) for each in row.verifiers.values())
    assert users(data, "list").stdout == "ada\n"
    shown = users(data, "show", "ada").stdout
    assert "User:ada" in shown
    assert "shop/eu" in shown
    assert "SCRAM-SHA-512, 4096 iterations" in shown
    assert SECRET not in made.output + shown


@pytest.mark.parametrize(
    "verb", [["list"], ["show", "ada"], ["passwd", "ada"], ["delete", "ada"], ["set-home", "ada", "shop/eu"]]
)
@pytest.mark.parametrize("there", [True, False])
def test_only_create_makes_a_data_folder(tmp_path: Path, verb: list[str], there: bool) -> None:
    folder = tmp_path / "typo"
    if there:
        folder.mkdir()
    done = users(folder, *verb)
    assert done.exit_code == 1
    assert f"{folder} is no data folder of a gateway" in done.stderr
    assert (list(folder.iterdir()) if there else folder.exists()) in ([], False)


def test_a_user_changes_and_goes(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert users(data, "create", "ada", "--password-stdin", stdin="one\n").exit_code == 0
    first = kept(data)["ada"]
    assert check(first.verifiers[SHA_256], "one"), "the line's end is not part of it"
    changed = users(data, "passwd", "ada", "--password-stdin", "--iterations", "8192", stdin="two")
    assert changed.stdout == "The password of ada is another now.\n"
    assert users(data, "set-home", "ada", "shop/eu").stdout == "ada is at home in shop/eu.\n"
    row = kept(data)["ada"]
    assert (row.home, row.verifiers[SHA_256].iterations) == ("shop/eu", 8192)
    assert check(row.verifiers[SHA_256], "two")
    assert row.epoch > first.epoch
    assert users(data, "set-home", "ada").stdout == "ada is at home nowhere.\n"
    assert kept(data)["ada"].home is None
    assert users(data, "delete", "ada").stdout == "Deleted user ada.\n"
    assert kept(data) == {}


@pytest.mark.parametrize(
    ("args", "stdin", "code", "words"),
    [
        (("create", "a,b"), "x\nx\n", 2, "no comma"),
        (("create", "CN=ops"), "x\nx\n", 2, "no equals sign"),
        (("create", "eve", "--home", "shop"), "x\nx\n", 2, "tenant/namespace"),
        (("create", "eve", "--password-stdin"), "", 2, "no password"),
        (("create", "eve", "--password-stdin"), "\n", 2, "no password"),
        (("create", "eve", "--iterations", "100", "--password-stdin"), "x", 2, "4096"),
        (("create", "eve"), "x\ny\n", 1, "do not match"),
        (("set-home", "ada", "a.b/c"), "", 2, "tenant/namespace"),
    ],
)
def test_what_cannot_be_does_not_even_open_a_store(
    args: tuple[str, ...], stdin: str, code: int, words: str, tmp_path: Path
) -> None:
    result = users(tmp_path / "data", *args, stdin=stdin)
    assert result.exit_code == code, result.output
    assert words in result.stderr
    assert not (tmp_path / "data").exists()


def test_users_that_are_there_or_not(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert users(data, "create", "ada", "--password-stdin", stdin="one").exit_code == 0
    for args, stdin, words in (
        (("create", "ada", "--password-stdin"), "x", "There is a user 'ada' already."),
        (("show", "eve"), "", "There is no user 'eve'."),
        (("passwd", "eve", "--password-stdin"), "x", "There is no user 'eve'."),
        (("set-home", "eve", "shop/eu"), "", "There is no user 'eve'."),
        (("delete", "eve"), "", "There is no user 'eve'."),
    ):
        result = users(data, *args, stdin=stdin)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == f"magnetar: {words}\n"
    assert check(kept(data)["ada"].verifiers[SHA_256], "one")


def test_while_a_gateway_runs_it_says_what_to_use_instead(tmp_path: Path) -> None:
    data = tmp_path / "data"

    async def main() -> Result:
        store = await rocksdb.open(data)
        try:
            return await asyncio.to_thread(users, data, "list")
        finally:
            await store.close()

    result = asyncio.run(main())
    assert result.exit_code == 1
    assert "a gateway runs on" in result.stderr
    assert "magnetar-admin users" in result.stderr
    assert "kafka-configs.sh" in result.stderr


def test_where_there_is_no_terminal_no_password_is_asked_for(tmp_path: Path) -> None:
    # in a session of its own it has none
    done = subprocess.run(
        [sys.executable, "-m", "gateway.cli.main", "users", "create", "ada", "--data", str(tmp_path / "data")],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "There is no terminal to ask for a password at: --password-stdin" in done.stderr
    assert "Warning" not in done.stderr
    assert not (tmp_path / "data").exists()
