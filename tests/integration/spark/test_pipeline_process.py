"""`magnetar-pipeline` as a process of its own: killed, begun again, and told to stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from compat.spark.feed import Feed, Record, topic_name
from compat.spark.jars import PROJECT
from compat.spark.roundtrip import environment
from compat.spark.session import SHORT

pytestmark = [pytest.mark.integration, pytest.mark.spark]


class Archiver:
    """A continuous archive in a process group of its own."""

    def __init__(self, bootstrap: str, topic: str, output: Path) -> None:
        command = [
            *(sys.executable, "-m", "pipeline.cli", "archive", "--continuous", "--interval", "0 seconds"),
            *("--bootstrap", bootstrap, "--topic", topic, "--output", str(output)),
            *("--max-offsets", "1500", "--master", "local[2]"),
            # Spark's own files lie beside the archive, since a killed JVM leaves them behind.
            *("--spark-conf", f"spark.local.dir={output.parent}"),
            *("--spark-conf", f"spark.driver.extraJavaOptions=-Djava.io.tmpdir={output.parent} {SHORT}"),
        ]
        self.process = subprocess.Popen(
            command, cwd=PROJECT, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def records(self, output: Path) -> int:
        """Records in the batches that count so far, from the checkpoint: where the last of them ended."""
        if self.process.poll() is not None:
            raise AssertionError(f"the archive ended by itself: {self.process.communicate()[1]}")
        checkpoint = output / "_magnetar" / "checkpoint"
        numbers = [int(path.name) for path in checkpoint.glob("commits/*") if path.name.isdigit()]
        if not numbers:
            return 0
        ends = json.loads((checkpoint / "offsets" / str(max(numbers))).read_text().splitlines()[-1])
        return sum(sum(offsets.values()) for offsets in ends.values())

    def kill(self) -> None:
        """SIGKILL to Python and to the JVM."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=30)

    def stop(self) -> tuple[int, str]:
        """SIGTERM; the exit code and what it said."""
        self.process.send_signal(signal.SIGTERM)
        said = self.process.communicate(timeout=60)[1]
        return self.process.returncode, said


def test_every_record_is_there_once_after_a_kill_and_a_stop(feed: Feed, tmp_path: Path) -> None:
    topic, output = feed.create(topic_name("process-kill"), 2), tmp_path / "archive"
    feed.produce(topic, [Record(b"k", b"%d" % n, (), n % 2) for n in range(9_000)])

    first = Archiver(feed.bootstrap, topic, output)
    try:
        feed.wait(lambda: first.records(output) >= 4_500, "three batches", timeout=120)
    finally:
        first.kill()
    feed.produce(topic, [Record(b"k", b"%d" % n, (), n % 2) for n in range(9_000, 10_000)])
    second = Archiver(feed.bootstrap, topic, output)
    try:
        feed.wait(lambda: second.records(output) == 10_000, "all records", timeout=120)
        code, said = second.stop()
    finally:
        if second.process.poll() is None:
            second.kill()

    assert code == 0, said
    assert "stopped: the same command goes on from here" in said
    # Read by something that does not know Spark's list of the files that count.
    files = [str(path) for path in output.glob("topic=*/date=*/*.parquet")]
    values = ds.dataset(files).to_table(columns=["value"])["value"].to_pylist()
    assert sorted(map(int, values)) == list(range(10_000))
    assert not (output / "_magnetar" / "writer").exists()


def java_of(scratch: Path) -> list[int]:
    """Java processes whose temporary files lie below the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if "SparkSubmit" in (said := entry.read_text()) and str(scratch) in said:
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def has_folder(scratch: Path) -> bool:
    """Whether Spark has made a folder of its own: it makes its context now."""
    return bool(list(scratch.glob("magnetar-pipeline-*/*/")))


@pytest.mark.parametrize(
    ("moment", "number", "to"),
    [
        (java_of, signal.SIGINT, os.kill),
        (has_folder, signal.SIGINT, os.killpg),
        (has_folder, signal.SIGTERM, os.kill),
    ],
    ids=["as Java starts", "Ctrl-C as Spark starts", "SIGTERM"],
)
def test_an_interrupt_while_spark_starts_ends_java_and_leaves_no_folder(
    moment: Callable[[Path], object],
    number: signal.Signals,
    to: Callable[[int, int], None],
    tmp_path: Path,
) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "pipeline.cli", "replay", "--input", str(tmp_path), "--to", "t"),
            *("--dry-run", "--master", "local[2]"),
        ],
        cwd=PROJECT,
        env={**environment(), "TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        ends = time.monotonic() + 60
        while not moment(tmp_path):
            assert process.poll() is None
            assert time.monotonic() < ends
            time.sleep(0.05)
        to(process.pid, number)
        said = process.communicate(timeout=60)[1]
        # what spark-submit asks for Java's command line may still be at it
        ends = time.monotonic() + 20
        while (left := java_of(tmp_path)) and time.monotonic() < ends:
            time.sleep(0.05)
    finally:
        for pid in java_of(tmp_path):
            os.kill(pid, signal.SIGKILL)
        process.kill()

    assert (process.returncode, said) == (130, "magnetar-pipeline: stopped before it began.\n")
    assert left == []
    assert list(tmp_path.glob("magnetar-pipeline-*")) == []
