"""Magnetar as a peer: one address and one data folder over many starts, and what it says when it does not start."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from compat.peers.magnetar import MagnetarPeer, PeerError
from compat.peers.process import answers


def cluster(peer: MagnetarPeer) -> str:
    """The id that a data folder gets once."""
    return next(line.split()[-1] for line in peer.lines if line.startswith("magnetar "))


def test_address_and_data_stay_over_a_stop_and_a_kill(tmp_path: Path) -> None:
    with MagnetarPeer(directory=tmp_path, settings={"node.id": 7}) as peer:
        told = peer.told
        first = cluster(peer)
        assert any(" node 7, " in line for line in peer.lines)
        peer.kill()
        assert not peer.running
        assert not answers(peer.host, peer.port)
        peer.start()
        assert cluster(peer) == first
        peer.restart()
        assert cluster(peer) == first
        assert len([line for line in peer.lines if line.startswith("listening on ")]) == 1, (
            "of this start alone"
        )
        assert peer.told == told
        assert answers(peer.host, peer.port)
        with urllib.request.urlopen(f"{peer.admin_url}/health/ready", timeout=30) as answer:
            assert answer.status == 200
        assert peer.stop() == 0
    assert (tmp_path / "data").is_dir()


def test_what_the_admin_command_prints_and_what_it_refuses(tmp_path: Path) -> None:
    with MagnetarPeer(directory=tmp_path) as peer:
        peer.admin("topics", "create-partitioned-topic", "orders", "--partitions", "3")
        assert "orders" in peer.admin("topics", "list")
        with pytest.raises(
            PeerError, match=r"(?s)^magnetar-admin topics stats nowhere: .*/nowhere"
        ) as failed:
            peer.admin("topics", "stats", "nowhere")
        assert failed.value.code


def test_another_checkout_runs_its_own_code_in_its_own_environment(tmp_path: Path) -> None:
    peer = MagnetarPeer(directory=tmp_path / "data", checkout=tmp_path)
    assert peer.folder == tmp_path
    assert peer.command()[0] == sys.executable
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert peer.command()[0] == str(python)
    assert MagnetarPeer(directory=tmp_path / "data").command()[0] == sys.executable


def test_a_temporary_folder_goes_with_it(tmp_path: Path) -> None:
    with MagnetarPeer(scratch=tmp_path / "scratch") as peer:
        folder = peer.directory
        assert folder.parent == tmp_path / "scratch"
        assert peer.data.is_dir()
    assert not folder.exists()


def test_a_start_that_fails_says_what_it_printed(tmp_path: Path) -> None:
    peer = MagnetarPeer(directory=tmp_path, settings={"no.such.setting": 1})
    with pytest.raises(
        PeerError, match=r"(?s)ended with code [12] while starting:.*no\.such\.setting"
    ) as failed:
        peer.start()
    assert failed.value.code in (1, 2)
    assert not peer.running


def test_another_module_may_stand_in_its_place(tmp_path: Path) -> None:
    """A victim has arguments of its own before those of `magnetar`, and finds the modules of the tests."""
    peer = MagnetarPeer(directory=tmp_path, entry=("tests.compat.stand_in", "--arm", "x 1"), wrapper=("env",))
    assert peer.command()[:6] == ["env", sys.executable, "-m", "tests.compat.stand_in", "--arm", "x 1"]
    assert peer.command()[6:] == peer.arguments
    found = subprocess.run([sys.executable, "-c", "import tests.compat"], cwd=peer.folder, check=False)
    assert found.returncode == 0
