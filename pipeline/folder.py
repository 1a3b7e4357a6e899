"""The folder of an archive: what may lie in it, who is writing, and what a killed run left behind.

    DIR/topic=orders/date=2026-03-01/part-….parquet     the records
    DIR/_spark_metadata/                                Spark's list of the files that count (`filelist.py`)
    DIR/_magnetar/checkpoint/                           how far the topics have been read
    DIR/_magnetar/checkpoint/magnetar.json              which topics, and who this archive is (`identity.py`)
    DIR/_magnetar/writer                                who is writing now: host, pid, since

Spark writes the files of a batch first and then names them in `_spark_metadata`: a batch counts in that
instant. Files of a batch that was killed before are in the way of every reader that does not know
`_spark_metadata` (DuckDB, pyarrow, `ls`), so the next run removes them. That needs to be sure that nobody
else is writing: hence `writer`. And it needs to be sure that this archive wrote them: each file that it writes
carries the archive's name, and a file that has none, or another, is left alone. Everything goes through
Hadoop's file system, so that DIR may be anything that Spark can write to.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JError  # type: ignore[import-untyped,unused-ignore]

from pipeline.errors import PipelineError, explain
from pipeline.filelist import SPARK_LOG, FileLists, place
from pipeline.hadoop import HadoopFiles
from pipeline.identity import FILE, Identity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN = "_magnetar"
STAMP = "magnetar.archive"
"""The name, in the Parquet file's schema, under which a file says which archive wrote it."""
# Only what looks like this is ever deleted.
DATA_FILE = re.compile(r"/(topic=[^/]+/date=[^/]+/part-\d+-[0-9a-f-]{36}[^/]*\.parquet)$")


class Swept(NamedTuple):
    """What a look for leftovers came to."""

    removed: int
    strangers: list[str]
    """Data files that no batch counts and that this archive did not write: left alone."""


class ArchiveFolder:
    """One archive's folder and checkpoint. Raises `PipelineError` in plain words."""

    def __init__(self, spark: SparkSession, output: str, checkpoint: str | None) -> None:
        try:
            self._files = HadoopFiles(spark, output)
            self.output = self._files.root
            self.checkpoint = checkpoint or f"{self.output}/{OWN}/checkpoint"
            self._checkpoint_files = HadoopFiles(spark, self.checkpoint)
            self.checkpoint = self._checkpoint_files.root
        except Py4JError as error:
            raise PipelineError(f"cannot use {output}: {explain(error)}") from None

    @contextmanager
    def writing(self, take_over: bool) -> Iterator[None]:
        """Be the only writer for the length of the block.

        A mark left by a process of this machine that is dead does not count; one of another machine does,
        until the person says so with `take_over`.
        """
        system = self._files.system
        mark = self._files.path(f"{self.output}/{OWN}/writer")
        try:
            system.mkdirs(mark.getParent())
            if system.exists(mark):
                self._refuse_if_alive(self._files.read(str(mark.toString())), take_over)
                system.delete(mark, False)
            if not system.createNewFile(mark):
                raise PipelineError(f"another job has just begun to write to {self.output}.")
            stream = system.create(mark, True)
            stream.writeBytes(f"{socket.gethostname()} {os.getpid()} {int(time.time())}\n")
            stream.close()
        except Py4JError as error:
            raise PipelineError(f"cannot write to {self.output}: {explain(error)}") from None
        try:
            yield
        finally:
            # If the JVM is gone the mark stays; it names a process that is about to be dead.
            with suppress(Py4JError, OSError):
                system.delete(mark, False)

    def check(self) -> bool:
        """Whether there is an archive here to go on with. Raises when it is something else, or half of one.

        Spark skips, without a word, batches whose number its file list has already: an output without its
        checkpoint would lose records. The other way round it would leave out all that was read before.
        """
        committed = self._files.has_entries(f"{self.output}/{SPARK_LOG}")
        resumed = self._checkpoint_files.has_entries(f"{self.checkpoint}/commits")
        if committed and not self._checkpoint_files.has_entries(f"{self.checkpoint}/offsets"):
            raise PipelineError(
                f"{self.output} holds an archive but {self.checkpoint} is not its checkpoint: pass the "
                "--checkpoint it was written with, or another --output."
            )
        if resumed and not committed:
            raise PipelineError(
                f"the checkpoint {self.checkpoint} belongs to another output: pass that --output, "
                "or another --checkpoint."
            )
        if not committed and not resumed and not self._checkpoint_files.exists(f"{self.checkpoint}/metadata"):
            strangers = [name for name in self._files.names(self.output) if not name.startswith(("_", "."))]
            if strangers:
                raise PipelineError(
                    f"{self.output} is not empty ({strangers[0]}) and is no archive: choose an empty folder."
                )
        return committed

    def identity(self) -> Identity:
        """What is kept beside the checkpoint; a new one for a new archive, or one older than this file."""
        name = f"{self.checkpoint}/{FILE}"
        try:
            if not self._checkpoint_files.exists(name):
                return Identity()
            return Identity.parse(self._checkpoint_files.read(name))
        except ValueError as error:
            raise PipelineError(f"{name} cannot be read: {error}.") from None
        except Py4JError as error:
            raise PipelineError(f"{name} cannot be read: {explain(error)}") from None

    def keep(self, identity: Identity) -> None:
        """Write it beside the checkpoint."""
        identity.output, identity.checkpoint = self.output, self.checkpoint
        try:
            self._checkpoint_files.system.mkdirs(self._checkpoint_files.path(self.checkpoint))
            self._checkpoint_files.replace(f"{self.checkpoint}/{FILE}", identity.text())
        except Py4JError as error:
            raise PipelineError(f"cannot write to {self.checkpoint}: {explain(error)}") from None

    def read_topics(self) -> set[str]:
        """Topics that the checkpoint has offsets of."""
        numbers = [
            int(name) for name in self._checkpoint_files.names(f"{self.checkpoint}/offsets") if name.isdigit()
        ]
        if not numbers:
            return set()
        last = self._checkpoint_files.read(f"{self.checkpoint}/offsets/{max(numbers)}").splitlines()[-1]
        found = json.loads(last)
        return set(found) if isinstance(found, dict) else set()

    def settle(self, identity: Identity) -> str | None:
        """See to it that the list of files names files of this folder: an archive may be copied or moved.

        Returns where it lay before, or None when it is where it was. Raises `PipelineError`, with nothing
        changed, when files are missing here, or when a copy has no checkpoint of its own. Only within `writing`.
        """
        lists = FileLists(self._files)
        before = lists.elsewhere()
        if not before:
            return None
        home = identity.output
        copied = home and place(home) != place(self.output) and self._is_archive(home)
        if copied and place(identity.checkpoint) == place(self.checkpoint):
            raise PipelineError(
                f"{self.output} is a copy of {home}, and {self.checkpoint} is the checkpoint of that one: copy the "
                "checkpoint as well, and pass the copy as --checkpoint."
            )
        missing = sorted(lists.counted() - set(self._below()))
        if missing:
            raise PipelineError(
                f"{self.output} was copied or moved from {before[0]}, and {len(missing)} of its files are not here "
                f"(first: {missing[0]}): copy all of it. Nothing was changed."
            )
        lists.move()
        return before[0]

    def sweep(self, identity: Identity) -> Swept:
        """Delete the data files of batches that never counted. Only within `writing`."""
        counted = FileLists(self._files).counted()
        removed, strangers = 0, []
        for below in sorted(self._below()):
            if below in counted:
                continue
            path = self._files.path(f"{self.output}/{below}")
            if self._wrote(path, identity):
                self._files.system.delete(path, False)
                removed += 1
            else:
                strangers.append(below)
        return Swept(removed, strangers)

    def _wrote(self, path: Any, identity: Identity) -> bool:
        """Whether this archive wrote the file: it says so, or it was never finished and nobody can read it."""
        parquet = self._files.jvm.org.apache.parquet.hadoop
        try:
            source = parquet.util.HadoopInputFile.fromPath(path, self._files.configuration)
            reader = parquet.ParquetFileReader.open(source)
            try:
                kept = reader.getFooter().getFileMetaData().getKeyValueMetaData()
                schema = kept.get("org.apache.spark.sql.parquet.row.metadata") or "{}"
            finally:
                reader.close()
        except Py4JError as error:
            return "is not a Parquet file" in str(error) or "ChecksumException" in str(error)
        fields = json.loads(schema).get("fields", [])
        return any(entry.get("metadata", {}).get(STAMP) == identity.archive for entry in fields)

    def _below(self) -> Iterator[str]:
        """The data files that are there, below the folder."""
        found = self._files.system.listFiles(self._files.path(self.output), True)
        while found.hasNext():
            if match := DATA_FILE.search(str(found.next().getPath().toString())):
                yield match[1]

    def _is_archive(self, output: str) -> bool:
        try:
            return self._files.has_entries(f"{output}/{SPARK_LOG}")
        except Py4JError:
            return False  # another file system than this one's

    def _refuse_if_alive(self, mark: str, take_over: bool) -> None:
        host, pid, since = [*mark.split(), "?", "0", "0"][:3]
        dead = host == socket.gethostname() and not _alive(int(pid))
        if not (dead or take_over or host == "?"):
            started = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(int(since)))
            raise PipelineError(
                f"{self.output} is being written by process {pid} on {host} since {started}. "
                "If that one is dead, pass --take-over."
            )


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
