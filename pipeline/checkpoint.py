"""What the finished batches of a streaming query have read, from its checkpoint.

Before a batch Spark writes `offsets/N`: where it ends. When all that it does has been done, `commits/N`. So what lies
below the ends of the newest batch that has both is in the output, whatever became of the process since.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pipeline.hadoop import HadoopFiles

Ends = dict[int, int]
"""Partition -> the offset behind the last record that was read."""


class Finished(NamedTuple):
    """The newest finished batch."""

    batch: int
    ends: Ends


class Checkpoint:
    """The folder of one query that reads one topic. Raises py4j's `Py4JError`."""

    def __init__(self, files: HadoopFiles, folder: str, topic: str) -> None:
        self._files = files
        self._folder = folder
        self._topic = topic
        self._newest: Finished | None = None

    def finished(self) -> Finished | None:
        """The newest finished batch; None before the first. Raises `PipelineError` for a file of another kind."""
        batch = self._newest.batch if self._newest is not None else None
        if batch is None or self._files.exists(f"{self._folder}/commits/{batch + 1}"):
            numbers = [int(name) for name in self._files.names(f"{self._folder}/commits") if name.isdigit()]
            if numbers and max(numbers) != batch:
                batch = max(numbers)
                name = f"{self._folder}/offsets/{batch}"
                self._newest = Finished(batch, ends_of(self._files.read(name), self._topic, name))
        return self._newest


def ends_of(text: str, topic: str, name: str) -> Ends:
    """Where a batch ends, from its file `name` in `offsets`. Raises `PipelineError` when it is not of this topic."""
    try:
        found = json.loads(text.splitlines()[-1])
        if set(found) == {topic}:
            return {int(partition): int(offset) for partition, offset in found[topic].items()}
    except (ValueError, IndexError, AttributeError, TypeError):
        pass
    raise PipelineError(f"{name} is of a query that did not read {topic}: pass another --checkpoint.")
