"""Small files through Hadoop's file system, so that they may lie wherever Spark can read and write."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopFiles:
    """The file system that a path lies on. Its methods raise py4j's `Py4JError`."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.jvm: Any = spark._jvm
        self.configuration: Any = spark.sparkContext._jsc.hadoopConfiguration()
        root = self.path(path)
        self.system: Any = root.getFileSystem(self.configuration)
        self.root = str(self.system.makeQualified(root).toString())
        """The path with its scheme; not percent-encoded."""
        self.uri = str(self.system.makeQualified(root).toUri().toString())
        """The same, percent-encoded."""

    def path(self, name: str) -> Any:
        """Hadoop's Path."""
        return self.jvm.org.apache.hadoop.fs.Path(name)

    def exists(self, name: str) -> bool:
        """Whether there is a file or folder."""
        return bool(self.system.exists(self.path(name)))

    def names(self, folder: str) -> list[str]:
        """What lies in a folder, sorted; nothing when there is no folder."""
        if not self.exists(folder):
            return []
        return sorted(str(status.getPath().getName()) for status in self.system.listStatus(self.path(folder)))

    def has_entries(self, folder: str) -> bool:
        """Whether anything lies in it that is not hidden."""
        return any(not name.startswith(".") for name in self.names(folder))

    def read(self, name: str) -> str:
        """A UTF-8 text."""
        stream = self.system.open(self.path(name))
        try:
            return str(self.jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def replace(self, name: str, text: str) -> None:
        """Write a text in the place of what was there, if anything; a reader sees the one or the other."""
        target = self.path(name)
        scratch = self.path(f"{target.getParent().toString()}/.{target.getName()}.{uuid.uuid4().hex}.tmp")
        stream = self.system.create(scratch, True)
        try:
            self.jvm.org.apache.commons.io.IOUtils.write(text, stream, "UTF-8")
        finally:
            stream.close()
        options = getattr(self.jvm.org.apache.hadoop.fs, "Options$Rename")
        overwrite = self.jvm.java.lang.reflect.Array.newInstance(options.OVERWRITE.getClass(), 1)
        overwrite[0] = options.OVERWRITE
        context = self.jvm.org.apache.hadoop.fs.FileContext.getFileContext(
            scratch.toUri(), self.configuration
        )
        context.rename(scratch, target, overwrite)
