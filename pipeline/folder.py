"""The folder of an archive: what may lie in it, who is writing, and what a killed run left behind.

    DIR/topic=orders/date=2026-03-01/part-….parquet     the records
    DIR/_spark_metadata/                                Spark's list of the files that count
    DIR/_magnetar/checkpoint/                           how far the topics have been read
    DIR/_magnetar/writer                                who is writing now: host, pid, since

Spark writes the files of a batch first and then names them in `_spark_metadata`: a batch counts in that
instant. Files of a batch that was killed before are in the way of every reader that does not know
`_spark_metadata` (DuckDB, pyarrow, `ls`), so the next run removes them. That needs to be sure that nobody
else is writing: hence `writer`. Everything goes through Hadoop's file system, so that DIR may be anything
that Spark can write to.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped,unused-ignore]

from pipeline.errors import PipelineError, explain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN = "_magnetar"
SPARK_LOG = "_spark_metadata"
# Only what looks like this is ever deleted.
DATA_FILE = re.compile(r"/topic=[^/]+/date=[^/]+/part-\d+-[0-9a-f-]{36}[^/]*\.parquet$")


class ArchiveFolder:
    """One archive's folder and checkpoint. Raises `PipelineError` in plain words."""

    def __init__(self, spark: SparkSession, output: str, checkpoint: str | None) -> None:
        self._spark = spark
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._configuration = spark.sparkContext._jsc.hadoopConfiguration()
        try:
            root = self._path(output)
            self._files = root.getFileSystem(self._configuration)
            self.output = str(self._files.makeQualified(root).toString())
            self.checkpoint = checkpoint or f"{self.output}/{OWN}/checkpoint"
            place = self._path(self.checkpoint)
            self._checkpoint_files = place.getFileSystem(self._configuration)
        except Py4JError as error:
            raise PipelineError(f"cannot use {output}: {explain(error)}") from None

    @contextmanager
    def writing(self, take_over: bool) -> Iterator[None]:
        """Be the only writer for the length of the block.

        A mark left by a process of this machine that is dead does not count; one of another machine does,
        until the person says so with `take_over`.
        """
        mark = self._path(f"{self.output}/{OWN}/writer")
        try:
            self._files.mkdirs(mark.getParent())
            if self._files.exists(mark):
                self._refuse_if_alive(self._read(mark), take_over)
                self._files.delete(mark, False)
            if not self._files.createNewFile(mark):
                raise PipelineError(f"another job has just begun to write to {self.output}.")
            stream = self._files.create(mark, True)
            stream.writeBytes(f"{socket.gethostname()} {os.getpid()} {int(time.time())}\n")
            stream.close()
        except Py4JError as error:
            raise PipelineError(f"cannot write to {self.output}: {explain(error)}") from None
        try:
            yield
        finally:
            # If the JVM is gone the mark stays; it names a process that is about to be dead.
            with suppress(Py4JError, OSError):
                self._files.delete(mark, False)

    def check(self) -> bool:
        """Whether there is an archive here to go on with. Raises when it is something else, or half of one.

        Spark skips, without a word, batches whose number its file list has already: an output without its
        checkpoint would lose records. The other way round it would leave out all that was read before.
        """
        committed = self._has_entries(self._files, f"{self.output}/{SPARK_LOG}")
        resumed = self._has_entries(self._checkpoint_files, f"{self.checkpoint}/commits")
        if committed and not self._has_entries(self._checkpoint_files, f"{self.checkpoint}/offsets"):
            raise PipelineError(
                f"{self.output} holds an archive but {self.checkpoint} is not its checkpoint: pass the "
                "--checkpoint it was written with, or another --output."
            )
        if resumed and not committed:
            raise PipelineError(
                f"the checkpoint {self.checkpoint} belongs to another output: pass that --output, "
                "or another --checkpoint."
            )
        if (
            not committed
            and not resumed
            and not self._files.exists(self._path(f"{self.checkpoint}/metadata"))
        ):
            strangers = [name for name in self._names(self.output) if not name.startswith(("_", "."))]
            if strangers:
                raise PipelineError(
                    f"{self.output} is not empty ({strangers[0]}) and is no archive: choose an empty folder."
                )
        return committed

    def sweep(self) -> int:
        """Delete the data files of batches that never counted; how many there were. Only within `writing`."""
        there = {path for path in self._walk() if DATA_FILE.search(path)}
        if not there:
            return 0
        # Spark's own reader answers with the files its list names, and with all files when there is no list
        # yet.
        counted: set[str] = set()
        if self._has_entries(self._files, f"{self.output}/{SPARK_LOG}"):
            counted = {_plain(path) for path in self._spark.read.parquet(self.output).inputFiles()}
        leftover = [path for path in there if _plain(path) not in counted]
        for path in leftover:
            self._files.delete(self._path(path), False)
        return len(leftover)

    def _refuse_if_alive(self, mark: str, take_over: bool) -> None:
        host, pid, since = [*mark.split(), "?", "0", "0"][:3]
        dead = host == socket.gethostname() and not _alive(int(pid))
        if not (dead or take_over or host == "?"):
            started = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(int(since)))
            raise PipelineError(
                f"{self.output} is being written by process {pid} on {host} since {started}. "
                "If that one is dead, pass --take-over."
            )

    def _read(self, path: Any) -> str:
        stream = self._files.open(path)
        try:
            return str(stream.readLine() or "")
        finally:
            stream.close()

    def _walk(self) -> Iterator[str]:
        found = self._files.listFiles(self._path(self.output), True)
        while found.hasNext():
            yield str(found.next().getPath().toString())

    def _names(self, folder: str) -> list[str]:
        path = self._path(folder)
        if not self._files.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in self._files.listStatus(path))

    def _has_entries(self, files: Any, folder: str) -> bool:
        path = self._path(folder)
        return bool(files.exists(path)) and any(
            not str(status.getPath().getName()).startswith(".") for status in files.listStatus(path)
        )


def _plain(path: str) -> str:
    """A path without its scheme, so that file:/a, file:///a and /a are one; URI escapes are undone."""
    from urllib.parse import unquote

    return unquote(re.sub(r"^[a-z][a-z0-9+.-]*:(?://[^/]*)?", "", path))


def _alive(pid: int) -> bool:
    # In a container every run may have the same pid: our own number on an old mark is not us.
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
