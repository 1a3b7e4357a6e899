"""The Python samples of the README and of the recipes, as they stand there, against a gateway."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
import urllib.request
from importlib import metadata
from pathlib import Path

import pytest

from compat.peers.magnetar import MagnetarPeer
from compat.spark.feed import Feed, Record
from tests.integration.sharing import make_group

pytestmark = pytest.mark.integration

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text()


def samples(page: str) -> list[str]:
    found = re.findall(r"^(    from confluent_kafka .*\n(?:(?:    .*)?\n)*)", page, re.MULTILINE)
    return [textwrap.dedent(sample) for sample in found]


SAMPLES = samples(README)


def run(sample: str, gateway: MagnetarPeer) -> None:
    code = sample.split("\n$ ")[0].replace("127.0.0.1:9092", gateway.bootstrap)
    exec(compile(code, "README.md", "exec"), {})


def test_the_samples(gateway: MagnetarPeer, capsys: pytest.CaptureFixture[str]) -> None:
    consume, share, queue = SAMPLES
    feed = Feed(gateway.bootstrap)
    feed.create("orders")
    values = (b"3 apples", b"1 pear", b"2 plums")
    feed.produce("orders", [Record(b"ada", value) for value in values])
    make_group(gateway.bootstrap, "packing")

    path = "admin/v2/persistent/public/default/orders/subscription/shipping?type=key_shared&lanes=4"
    made = urllib.request.Request(
        f"{gateway.admin_url}/{path}",
        data=b'{"ledgerId": -1, "entryId": -1}',
        method="PUT",
        headers={"Content-Type": "application/json"},
    )
    urllib.request.urlopen(made).close()

    run(consume, gateway)
    run(share, gateway)
    assert "3 apples" in capsys.readouterr().out
    run(queue, gateway)
    said = capsys.readouterr().out
    assert (said.count("3 apples"), said.count("1 pear"), said.count("2 plums")) == (1, 2, 1), said

    assert [record.value for record in feed.records("orders-packing-DLQ")[0]] == [b"1 pear"]


def test_the_consumers_sample_tells_of_a_typo(
    gateway: MagnetarPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    run(SAMPLES[0].replace('"orders"', '"ordrs"'), gateway)

    said = capsys.readouterr().out
    assert (said.count("\n"), "UNKNOWN_TOPIC_OR_PART" in said) == (1, True), said


def test_the_recipes_consumer_leaves_with_ctrl_c(gateway: MagnetarPeer) -> None:
    (sample,) = samples((PROJECT / "docs" / "SEMANTICS.md").read_text())
    feed = Feed(gateway.bootstrap)
    feed.create("fruit")
    feed.produce("fruit", [Record(b"ada", b"1 pear")])
    make_group(gateway.bootstrap, "courier")
    code = "def process(message):\n    print(message.value(), flush=True)\n\n" + sample.replace(
        "127.0.0.1:9092", gateway.bootstrap
    )
    working = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert working.stdout is not None
        assert working.stdout.readline() == "b'1 pear'\n"
        working.send_signal(signal.SIGINT)
        said = working.communicate(timeout=60)[1]
    finally:
        working.kill()

    assert (working.returncode, "Traceback" in said) == (0, False), said


def test_what_the_tour_makes_is_no_change_of_the_checkout() -> None:
    made = {f"/{name}/" for name in re.findall(r"(?:--output|--input) \./(\w+)", README)}
    made |= {f"/{name}" for name in re.findall(r"> (\w+\.toml)", README)}
    made |= {f"/{name}/" for name in re.findall(r"tls self-signed (\w+)", README)}
    made |= {f"/{name}" for name in re.findall(r"--command-config (\S+)", README)}

    assert made == {"/archive/", "/magnetar.toml", "/tls/", "/ada.properties"}
    assert made <= set((PROJECT / ".gitignore").read_text().split())


def test_the_client_is_new_enough() -> None:
    """The lock pins one that the README's least version allows."""
    (least,) = set(re.findall(r"confluent-kafka>=([\d.]+)", README))
    pinned = metadata.version("confluent-kafka")

    assert [int(part) for part in pinned.split(".")[:2]] >= [int(part) for part in least.split(".")]
