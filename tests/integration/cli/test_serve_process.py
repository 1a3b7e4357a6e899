"""`magnetar serve` as a process: what it says, how it stops, and one plain sentence when it cannot start."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from store.api import FORMAT
from store.rocksdb.database import Database

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
SERVE = [sys.executable, "-m", "gateway.cli.main", "serve"]
FREE = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
PATIENCE = 30.0
# root may write everywhere, unless it is told not to
MORTAL = (
    ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
    if os.geteuid() == 0
    else []
)


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAGNETAR_")}
    return kept | {"PYTHONPATH": str(ROOT)}


@contextmanager
def serving(*args: str, wrapper: Sequence[str] = ()) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A gateway that has said its lines, and these lines; `wrapper` is a command that runs it."""
    process = subprocess.Popen(
        [*wrapper, *SERVE, *FREE, *args],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process, lines_until(process, "admin on ")
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE)


def lines_until(process: subprocess.Popen[str], beginning: str) -> list[str]:
    """What it prints up to the line that begins so. One that hangs is killed, which ends its output."""
    assert process.stdout is not None
    lines: list[str] = []
    impatience = threading.Timer(PATIENCE, process.kill)
    impatience.start()
    try:
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if line.startswith(beginning):
                return lines
    finally:
        impatience.cancel()
    raise AssertionError(f"it ended after {lines}: {process.communicate()[1]}")


def refused(*args: str, wrapper: Sequence[str] = ()) -> tuple[int, list[str]]:
    """Exit code and stderr of a start that fails; `wrapper` is a command that runs the gateway's."""
    done = subprocess.run(
        [*wrapper, *SERVE, *args],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stderr.splitlines()


def one_sentence(lines: list[str]) -> str:
    assert len(lines) == 1, lines
    assert lines[0].startswith("magnetar: ")
    assert lines[0].endswith(".")
    return lines[0]


def port_of(line: str) -> int:
    found = re.search(r":(\d+)(?: |$)", line)
    assert found is not None, line
    return int(found[1])


class TestStart:
    def test_it_says_a_few_lines_and_serves(self, tmp_path: Path) -> None:
        with serving("--data", str(tmp_path / "data"), "--durability", "fsync") as (_, lines):
            text = "\n".join(lines)
            assert lines[0].startswith("magnetar ")
            assert str(tmp_path / "data") in text
            assert (
                "durability fsync\nwhat is acknowledged survives a crash of Magnetar and a power cut" in text
            )
            for beginning in ("listening on ", "admin on "):
                (line,) = [line for line in lines if line.startswith(beginning)]
                socket.create_connection(("127.0.0.1", port_of(line)), timeout=PATIENCE).close()

    def test_it_says_what_a_power_cut_may_take_and_how_to_change_that(self, tmp_path: Path) -> None:
        with serving("--data", str(tmp_path / "data")) as (_, lines):
            text = "\n".join(lines)
            assert "durability os\nwhat is acknowledged survives a crash of Magnetar, not a power cut" in text
            assert "--durability fsync" in text

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
    def test_a_signal_stops_it_with_0(self, number: signal.Signals, tmp_path: Path) -> None:
        with serving("--data", str(tmp_path / "data")) as (process, lines):
            (line,) = [line for line in lines if line.startswith("listening on ")]
            with socket.create_connection(("127.0.0.1", port_of(line)), timeout=PATIENCE):
                process.send_signal(number)
                _, errors = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0
            assert "Traceback" not in errors

    def test_every_listener_is_named(self, tmp_path: Path) -> None:
        with serving("--listen", "SECOND://127.0.0.1:0", "--data", str(tmp_path / "data")) as (_, lines):
            listening = [line for line in lines if line.startswith("listening on ")]
            assert ["PLAINTEXT" in listening[0], "SECOND" in listening[1]] == [True, True]
            assert len({port_of(line) for line in listening}) == 2

    @pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="Linux shows limits of a process")
    def test_it_may_open_as_many_files_as_the_system_lets_it(self, tmp_path: Path) -> None:
        few = ("sh", "-c", 'ulimit -Sn 200 && exec "$@"', "sh")
        with serving("--data", str(tmp_path / "data"), wrapper=few) as (process, _):
            text = Path(f"/proc/{process.pid}/limits").read_text()
        (line,) = [line for line in text.splitlines() if line.startswith("Max open files")]
        soft, hard = line.split()[3:5]
        assert soft == hard or int(soft) == 1_048_576


class TestRefused:
    def test_bad_settings(self) -> None:
        code, lines = refused("--set", "num.partitons=4")
        assert code == 2
        assert "Did you mean" in lines[0]

    @pytest.mark.parametrize("flag", ["--listen", "--admin"])
    def test_a_port_in_use(self, flag: str, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            other = "--admin" if flag == "--listen" else "--listen"
            code, lines = refused(flag, address, other, "127.0.0.1:0", "--data", str(tmp_path / "data"))
        assert code == 1
        assert f"{address} is in use" in one_sentence(lines)

    def test_an_address_of_another_machine(self, tmp_path: Path) -> None:
        code, lines = refused("--listen", "203.0.113.7:0", "--insecure", "--data", str(tmp_path / "data"))
        assert code == 1
        assert "203.0.113.7" in one_sentence(lines)

    def test_a_second_process_on_the_folder(self, tmp_path: Path) -> None:
        data = str(tmp_path / "data")
        with serving("--data", data):
            code, lines = refused(*FREE, "--data", data)
        assert code == 1
        assert data in one_sentence(lines)

    def test_a_folder_that_is_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "data"
        file.write_text("not a folder")
        code, lines = refused(*FREE, "--data", str(file))
        assert code == 1
        assert str(file) in one_sentence(lines)

    def test_a_folder_that_cannot_be_made(self) -> None:
        # /proc takes no folders, not from root either
        code, lines = refused(*FREE, "--data", "/proc/magnetar-data")
        assert code == 1
        assert "/proc/magnetar-data" in one_sentence(lines)

    @pytest.mark.parametrize(
        "data", ["/proc/no/such", "/proc/self/task/x", "/dev/null/x", "/tmp/" + 300 * "x"]
    )
    def test_a_place_where_nothing_can_be_made(self, data: str) -> None:
        code, lines = refused(*FREE, "--data", data)
        assert code == 1
        assert "[Errno" not in one_sentence(lines)
        assert "choose another folder with --data" in lines[0]

    @pytest.mark.parametrize("name", ["db", "segments", "mark", "mark.new"])
    def test_a_folder_of_something_else(self, name: str, tmp_path: Path) -> None:
        folder = tmp_path / "data"
        folder.mkdir()
        if name.startswith("mark"):
            (folder / name).mkdir()
        else:
            (folder / name).write_text("something")
        code, lines = refused(*FREE, "--data", str(folder))
        assert code == 1
        assert str(folder / name) in one_sentence(lines)
        assert "is no data folder of Magnetar" in lines[0]

    def test_a_database_that_is_none(self, tmp_path: Path) -> None:
        folder = tmp_path / "data" / "db"
        folder.mkdir(parents=True)
        (folder / "CURRENT").write_text("something")
        code, lines = refused(*FREE, "--data", str(folder.parent))
        assert code == 1
        assert f"The database in {folder.parent} is damaged" in one_sentence(lines)

    def test_a_store_of_a_newer_version(self, tmp_path: Path) -> None:
        data = str(tmp_path / "data")
        with serving("--data", data) as (process, _):
            process.terminate()
            process.communicate(timeout=PATIENCE)
        database = Database(Path(data) / "db")
        batch = database.batch()
        batch.put(FORMAT, b"99", database.handles["meta"])
        database.write(batch)
        database.close()
        code, lines = refused(*FREE, "--data", data)
        assert code == 1
        assert "was written by a newer Magnetar (format 99)" in one_sentence(lines)

    def test_a_mark_that_cannot_be_written(self, tmp_path: Path) -> None:
        folder = tmp_path / "data"
        folder.mkdir()
        (folder / "mark.new").touch(mode=0o400)
        code, lines = refused(*FREE, "--data", str(folder), wrapper=MORTAL)
        assert code == 1
        assert str(folder) in one_sentence(lines)

    def test_a_folder_of_another_user(self, tmp_path: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root may give folders away")
        folder = tmp_path / "data"
        folder.mkdir(mode=0o755)
        os.chown(folder, 12345, 12345)
        code, lines = refused(*FREE, "--data", str(folder), wrapper=MORTAL)
        assert code == 1
        assert "read-only or belongs to another user" in one_sentence(lines)

    def test_a_read_only_folder(self, tmp_path: Path) -> None:
        folder = tmp_path / "data"
        folder.mkdir(mode=0o500)
        code, lines = refused(*FREE, "--data", str(folder), wrapper=MORTAL)
        assert code == 1
        assert str(folder) in one_sentence(lines)
