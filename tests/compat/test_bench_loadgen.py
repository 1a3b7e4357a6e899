"""The load generator's own tests, and each peer's answer to the question whether its port is free."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from compat.bench import generator
from compat.peers.kafka import KafkaPeer, PeerError
from compat.peers.kafka.jars import kafka_version
from compat.peers.process import answers, free_port, process_tree, resident_bytes


@pytest.mark.integration
@pytest.mark.parametrize("arguments", [["vet", "./..."], ["test", "-count=1", "./..."]], ids=["vet", "test"])
def test_the_generator(arguments: list[str]) -> None:
    if shutil.which("go") is None:
        pytest.skip("no Go here: the load generator is not tested")
    done = subprocess.run(["go", *arguments], cwd=generator.SOURCE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_port_in_use_is_refused_before_anything_else(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        peer = KafkaPeer(port=taken.getsockname()[1], directory=tmp_path / "kafka")
        with pytest.raises(PeerError, match="in use"):
            peer.start()
    assert not (tmp_path / "kafka").exists()


def test_nobody_answers_on_a_free_port() -> None:
    assert not answers("127.0.0.1", free_port())


def test_who_asks_for_a_port_at_the_same_time_gets_another() -> None:
    ask = "from compat.peers.process import free_port; print(*(free_port() for _ in range(1500)))"
    asking = [subprocess.Popen([sys.executable, "-c", ask], stdout=subprocess.PIPE) for _ in range(3)]
    given = [port for each in asking for port in each.communicate()[0].split()]
    assert len(given) == len(set(given)) == 4500


def test_the_pinned_version() -> None:
    assert kafka_version() == "4.3.0"


def test_memory_and_children_of_a_process() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            assert resident_bytes(child.pid) > 0
            assert process_tree(child.pid) == [child.pid]
        finally:
            child.kill()
