"""What finished batches have read, from the files of a checkpoint."""

from __future__ import annotations

import json
from typing import cast

import pytest

from pipeline.checkpoint import Checkpoint, Finished, ends_of
from pipeline.errors import PipelineError
from pipeline.hadoop import HadoopFiles

TOPIC = "orders-billing-QUEUE"


def written(offsets: object) -> str:
    """As Spark writes it: a version, settings, and a line for each source."""
    return "\n".join(["v1", '{"batchWatermarkMs":0}', json.dumps(offsets)])


class Files:
    """A file system in memory that counts the folders that were listed."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.listed = 0

    def exists(self, name: str) -> bool:
        return name in self.files

    def names(self, folder: str) -> list[str]:
        self.listed += 1
        return [name.removeprefix(f"{folder}/") for name in self.files if name.startswith(f"{folder}/")]

    def read(self, name: str) -> str:
        return self.files[name]

    def begun(self, batch: int, **ends: int) -> None:
        self.files[f"c/offsets/{batch}"] = written({TOPIC: {lane[1:]: end for lane, end in ends.items()}})

    def finished(self, batch: int) -> None:
        self.files[f"c/commits/{batch}"] = "v1\n{}"


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def checkpoint(files: Files) -> Checkpoint:
    return Checkpoint(cast("HadoopFiles", files), "c", TOPIC)


def test_before_the_first_batch_nothing_is_finished(files: Files, checkpoint: Checkpoint) -> None:
    assert checkpoint.finished() is None
    files.begun(0, l0=5, l1=0)
    assert checkpoint.finished() is None


def test_a_batch_that_was_begun_does_not_count(files: Files, checkpoint: Checkpoint) -> None:
    for batch in range(12):
        files.begun(batch, l0=batch * 10, l1=3)
        files.finished(batch)
    files.begun(12, l0=999, l1=999)

    assert checkpoint.finished() == Finished(11, {0: 110, 1: 3})


def test_the_next_batches_are_seen_and_folders_listed_only_for_them(
    files: Files, checkpoint: Checkpoint
) -> None:
    files.begun(0, l0=1)
    files.finished(0)
    checkpoint.finished()
    before = files.listed
    for _ in range(10):
        assert checkpoint.finished() == Finished(0, {0: 1})
    assert files.listed == before

    for batch, end in ((1, 2), (2, 3)):
        files.begun(batch, l0=end)
        files.finished(batch)
    assert checkpoint.finished() == Finished(2, {0: 3})


def test_spark_may_have_deleted_what_is_old(files: Files, checkpoint: Checkpoint) -> None:
    files.begun(107, l0=9)
    files.finished(107)

    assert checkpoint.finished() == Finished(107, {0: 9})


@pytest.mark.parametrize(
    "text", ["", "v1", written({"orders": {"0": 1}}), written([1]), written({TOPIC: 1}), "v1\n{}\n-"]
)
def test_the_checkpoint_of_another_query_is_refused(text: str) -> None:
    with pytest.raises(PipelineError, match=f"c/offsets/0 is of a query that did not read {TOPIC}"):
        ends_of(text, TOPIC, "c/offsets/0")
