"""`magnetar store verify`: what it says of a store that is whole, damaged, in use, or not there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli.main import main
from store import batch, rocksdb
from store.api import Append, Durability


def verify(data: Path, *args: str) -> Result:
    runner = CliRunner(env={"MAGNETAR_CONFIG": None})
    return runner.invoke(main, ["store", "verify", "--data", str(data), *args], prog_name="magnetar")


async def _fill(folder: Path, meanwhile: Callable[[], None] | None) -> None:
    store = await rocksdb.open(folder)
    for offset in range(3):
        made = batch.build(offset, bytes(200), timestamp=offset, records=1, epoch=1)
        await store.write([Append(1, offset, offset + 1, offset, [made], 1)], Durability.FSYNC)
    if meanwhile is not None:
        meanwhile()
    await store.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A closed store with one log of three batches in one segment."""
    asyncio.run(_fill(tmp_path / "data", None))
    return tmp_path / "data"


def segment(folder: Path) -> Path:
    (found,) = [path for path in (folder / "segments").rglob("*") if path.is_file()]
    return found


def test_a_store_that_is_whole(folder: Path) -> None:
    result = verify(folder)
    assert result.exit_code == 0
    checked, verdict = result.stdout.splitlines()
    assert checked.startswith("checked 1 log, 1 segment, 3 batches, 0.0 MB in ")
    assert verdict == "all is well"


def test_a_damaged_batch_cannot_be_mended(folder: Path) -> None:
    file = segment(folder)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    for args in ([], ["--repair"]):
        result = verify(folder, *args)
        assert result.exit_code == 1
        lines = result.stdout.splitlines()
        assert lines[0].startswith(f"log 1: {file.name} at byte ")
        assert lines[-1].startswith("1 problem in 1 of 1 log; acknowledged records are damaged: restore")
    assert file.read_bytes() == data


def test_what_no_client_was_told_of_is_moved_aside(folder: Path) -> None:
    file = segment(folder)
    good = file.read_bytes()
    file.write_bytes(good + b"half a batch")
    result = verify(folder)
    assert result.exit_code == 1
    assert "12 bytes that no commit speaks of (no client was told that it is stored)" in result.stdout
    assert "--repair mends" in result.stdout
    result = verify(folder, "--repair")
    assert result.exit_code == 0
    assert "repaired: log 1: what stood behind byte" in result.stdout
    assert result.stdout.splitlines()[-1] == "all is well"
    assert file.read_bytes() == good
    assert b"half a batch" in [
        path.read_bytes() for path in (folder / "quarantine").rglob("*") if path.is_file()
    ]


def test_a_gateway_has_the_folder(tmp_path: Path) -> None:
    seen: list[Result] = []
    data = tmp_path / "data"
    asyncio.run(_fill(data, lambda: seen.append(verify(data))))
    (result,) = seen
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("magnetar: ")
    assert str(data) in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_no_store_there(tmp_path: Path) -> None:
    result = verify(tmp_path)
    assert result.exit_code == 1
    assert result.stderr == f"magnetar: There is no store in {tmp_path}.\n"


def test_it_is_listed() -> None:
    runner = CliRunner()
    assert "store" in runner.invoke(main, ["--help"]).stdout
    assert "--repair" in runner.invoke(main, ["store", "verify", "--help"]).stdout
