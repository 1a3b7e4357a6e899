"""The `magnetar` command: what it takes, what it shows, and how it fails."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import gateway
from gateway.cli import show
from gateway.cli.main import main
from gateway.config import SETTINGS, Settings
from gateway.errors import StartError


def magnetar(*args: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner(env={"MAGNETAR_CONFIG": None, **(env or {})}).invoke(main, args, prog_name="magnetar")


def serve_with(monkeypatch: pytest.MonkeyPatch, run: Callable[[Settings, object], Awaitable[None]]) -> None:
    """Put `run` in the place of the server's, without importing the server."""
    module = types.ModuleType("gateway.server")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gateway.server", module)
    monkeypatch.setattr(gateway, "server", module, raising=False)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """What `serve` would have started with, instead of starting it."""
    seen: list[Settings] = []

    async def run(settings: Settings, announce: object) -> None:
        seen.append(settings)
        assert callable(announce)
        announce("listening")

    serve_with(monkeypatch, run)
    return seen


class TestServe:
    def test_flags(self, started: list[Settings], tmp_path: Path) -> None:
        file = tmp_path / "m.toml"
        file.write_text("num.partitions = 3\nnode.id = 3\n")
        result = magnetar(
            "serve",
            *("--listen", "127.0.0.1:0", "--listen", "IN://[::1]:0", "--admin", "127.0.0.1:0", "--data", "d"),
            *("--set", "num.partitions=4", "--durability", "fsync", "--config", str(file)),
            *("--log-level", "error", "--log-format", "json"),
            env={"MAGNETAR_NODE_ID": "5"},
        )
        assert (result.exit_code, result.stdout) == (0, "listening\n")
        (settings,) = started
        assert [str(listener) for listener in settings.listeners] == ["127.0.0.1:0", "[::1]:0"]
        assert str(settings.admin) == "127.0.0.1:0"
        assert settings.text("data") == "d"
        assert settings.text("durability") == "fsync"
        assert settings.integer("num.partitions") == 4
        assert settings.integer("node.id") == 5
        assert (settings.text("log.level"), settings.text("log.format")) == ("error", "json")

    def test_insecure(self, started: list[Settings]) -> None:
        assert magnetar("serve", "--listen", ":9092").exit_code == 2
        assert magnetar("serve", "--listen", ":9092", "--insecure").exit_code == 0

    def test_the_file_by_variable(self, started: list[Settings], tmp_path: Path) -> None:
        file = tmp_path / "m.toml"
        file.write_text("num.partitions = 3\n")
        assert magnetar("serve", env={"MAGNETAR_CONFIG": str(file)}).exit_code == 0
        assert started[0].integer("num.partitions") == 3

    def test_bad_settings_are_all_named(self, started: list[Settings]) -> None:
        result = magnetar(
            "serve", "--set", "num.partitons=4", "--durability", "disk", env={"MAGNETAR_NODE": "1"}
        )
        assert result.exit_code == 2
        assert result.stderr.splitlines() == [
            "magnetar: variable MAGNETAR_NODE: there is no such setting. Did you mean MAGNETAR_NODE_ID?",
            'magnetar: --set num.partitons=4: there is no setting "num.partitons". '
            'Did you mean "num.partitions"?',
            'magnetar: --durability: must be os or fsync, not "disk".',
        ]
        assert started == []

    def test_a_start_that_fails_is_one_sentence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def run(settings: Settings, announce: object) -> None:
            raise StartError("127.0.0.1:9092 is in use by another process.")

        serve_with(monkeypatch, run)
        result = magnetar("serve")
        assert result.exit_code == 1
        assert result.stderr == "magnetar: 127.0.0.1:9092 is in use by another process.\n"

    def test_no_traceback_when_the_system_refuses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def run(settings: Settings, announce: object) -> None:
            raise OSError(28, "No space left on device", "data/x")

        serve_with(monkeypatch, run)
        result = magnetar("serve")
        assert result.exit_code == 1
        assert (
            result.stderr == "magnetar: the system refused: [Errno 28] No space left on device: 'data/x'.\n"
        )

    def test_ctrl_c_before_it_is_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def run(settings: Settings, announce: object) -> None:
            raise KeyboardInterrupt

        serve_with(monkeypatch, run)
        assert magnetar("serve").exit_code == 130

    def test_help_teaches(self) -> None:
        text = magnetar("serve", "--help").stdout
        for flag in (
            "--listen",
            "--admin",
            "--data",
            "--set",
            "--config",
            "--insecure",
            "MAGNETAR_NUM_PARTITIONS",
        ):
            assert flag in text

    def test_every_flag_of_the_table_is_there(self) -> None:
        flags = {flag for parameter in main.commands["serve"].params for flag in parameter.opts}
        assert {setting.flag for setting in SETTINGS.values() if setting.flag} <= flags


class TestConfig:
    def test_the_table(self) -> None:
        lines = magnetar("config", "--set", "num.partitions=4").stdout.splitlines()
        assert lines[0].split() == ["SETTING", "VALUE", "FROM"]
        assert len(lines) == len(SETTINGS) + 1
        assert "num.partitions 4 --set num.partitions" in [" ".join(line.split()) for line in lines]
        assert "broker.rack (open) default" in [" ".join(line.split()) for line in lines]

    def test_changed(self) -> None:
        assert magnetar("config", "--changed").stdout == "Every setting has its default.\n"
        result = magnetar("config", "--changed", "--format", "toml", env={"MAGNETAR_NUM_PARTITIONS": "4"})
        assert result.stdout == "num.partitions = 4\n"

    def test_one_setting_explained(self) -> None:
        text = magnetar("config", "durability").stdout
        assert text.startswith("durability = os  (default)\n  What an acknowledgement survives")
        assert "--durability, --set durability=..., MAGNETAR_DURABILITY" in text

    def test_the_example_file(self) -> None:
        assert magnetar("config", "--defaults").stdout == show.example()

    def test_a_name_that_is_not_there(self) -> None:
        result = magnetar("config", "durabilty")
        assert result.exit_code == 2
        assert 'Did you mean "durability"?' in result.stderr


def test_version() -> None:
    from gateway.version import VERSION

    assert magnetar("version").stdout == f"magnetar {VERSION}\n"
    assert magnetar("--version").stdout == f"magnetar {VERSION}\n"


def test_commands_import_only_what_they_need() -> None:
    code = (
        "import sys; from gateway.cli.main import main\n"
        "try: main(['version'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'asyncio', 'uvloop', 'rocksdict', 'aiohttp', 'tqdm', 'kafka', 'store', 'logging'}"
        " & set(sys.modules)))"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"
