"""The command of a peer on the JVM: what is wrong is said in a sentence, and a stop keeps the folder."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compat.peers import jvm
from compat.peers.jvm import JvmPeer
from compat.peers.process import free_port

FAKE = """
import sys
from pathlib import Path
from tests.compat.test_peers_jvm import Fake
from compat.peers import jvm
sys.exit(jvm.main(Fake, lambda: Path("/jars")))
"""

SERVER = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print("stopped")))
print("up", flush=True)
signal.pause()
"""


class Fake(JvmPeer):
    """Serves nobody, and says so when it is asked to stop."""

    name = "Fake"
    HEAP = "1m"
    PATIENCE = 30.0

    def prepare(self) -> None:
        self.configure("fake.properties", {"a": "ours", "b": "ours"})

    def command(self) -> list[str]:
        return [sys.executable, "-c", SERVER]

    def answers(self) -> bool:
        return "up" in self.log_tail()


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", FAKE, *arguments]


def test_the_folder_of_the_jars_is_printed() -> None:
    done = subprocess.run(command("jars"), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "/jars\n")


def test_a_setting_without_a_value_is_refused(tmp_path: Path) -> None:
    given = ("run", "--dir", str(tmp_path / "fake"), "--set", "a")
    done = subprocess.run(command(*given), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "--set a: expected key=value\n")
    assert not (tmp_path / "fake").exists()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_runs_until_it_is_asked_to_stop_and_stops_in_order(tmp_path: Path, how: signal.Signals) -> None:
    port = free_port()
    given = ("run", "--dir", str(tmp_path / "fake"), "--port", str(port), "--set", "b=theirs")
    with subprocess.Popen(command(*given), stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == f"listening on 127.0.0.1:{port}\n"
        running.send_signal(how)
        assert running.wait(30) == 0
    assert (tmp_path / "fake" / "fake.properties").read_text() == "a=ours\nb=theirs\n"
    assert (tmp_path / "fake" / "stdout.log").read_text() == "up\nstopped\n"


def test_its_log_and_what_it_unpacks_stay_in_its_folder(tmp_path: Path) -> None:
    peer = Fake(directory=tmp_path)
    peer.prepare()
    assert f"fileName = {tmp_path}/server.log" in (tmp_path / "log4j2.properties").read_text()
    assert all(str(tmp_path) in option for option in peer.places())
    assert jvm.LOGGING.count("{folder}") == 1
