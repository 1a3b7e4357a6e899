"""The Python samples of the README, as they stand there, against a gateway."""

from __future__ import annotations

import re
import textwrap
from importlib import metadata
from pathlib import Path

import pytest

from compat.peers.magnetar import MagnetarPeer
from compat.spark.feed import Feed, Record
from tests.integration.sharing import make_group

pytestmark = pytest.mark.integration

README = (Path(__file__).parents[2] / "README.md").read_text()
SAMPLES = [
    textwrap.dedent(sample)
    for sample in re.findall(r"^(    from confluent_kafka .*\n(?:(?:    .*)?\n)*)", README, re.MULTILINE)
]


def run(sample: str, gateway: MagnetarPeer) -> None:
    code = sample.split("\n$ ")[0].replace("127.0.0.1:9092", gateway.bootstrap)
    exec(compile(code, "README.md", "exec"), {})


def test_the_samples(gateway: MagnetarPeer, capsys: pytest.CaptureFixture[str]) -> None:
    consume, share = SAMPLES
    feed = Feed(gateway.bootstrap)
    feed.create("orders")
    values = (b"3 apples", b"1 pear", b"2 plums")
    feed.produce("orders", [Record(b"ada", value) for value in values])
    make_group(gateway.bootstrap, "packing")

    run(consume, gateway)
    run(share, gateway)

    assert "3 apples" in capsys.readouterr().out
    assert [record.value for record in feed.records("orders-packing-DLQ")[0]] == [b"1 pear"]


def test_the_consumers_sample_tells_of_a_typo(
    gateway: MagnetarPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    run(SAMPLES[0].replace('"orders"', '"ordrs"'), gateway)

    said = capsys.readouterr().out
    assert (said.count("\n"), "UNKNOWN_TOPIC_OR_PART" in said) == (1, True), said


def test_the_client_is_new_enough() -> None:
    """The lock pins one that the README's least version allows."""
    (least,) = set(re.findall(r"confluent-kafka>=([\d.]+)", README))
    pinned = metadata.version("confluent-kafka")

    assert [int(part) for part in pinned.split(".")[:2]] >= [int(part) for part in least.split(".")]
