"""The Spark session of a job: its own on this machine, or the one that spark-submit has made."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import PipelineError, start_failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_PYSPARK = (
    "pyspark is not installed: pip install pyspark==4.2.0 into this environment (it needs Java 17), "
    "or use spark-submit."
)
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
JARS_VARIABLE = "MAGNETAR_SPARK_JARS"

# Held for every job, wherever it runs. Dates are UTC; a topic called "2024" stays a string; timestamps are
# written in a form that other readers of Parquet know, and ones before 1582 are no error.
JOB_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.filterPushdown": "true",
    # Plans name the sink's options, on Spark's pages and in its event log: these without their values. Of its own
    # Spark knows passwords and tokens, and no keys.
    "spark.sql.redaction.options.regex": r"(?i)url|jaas|keystore\.key",
    # Parquet looks at its memory after 100 rows and then as their size says: 100 rows of 20 MB are 2 GB.
    "parquet.block.size.row.check.min": "1",
    "parquet.page.size.row.check.min": "1",
}


@dataclass(frozen=True)
class SparkOptions:
    """How to get Spark. Everything is ignored that spark-submit has decided already."""

    master: str | None = None
    jars: str | None = None
    packages: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    log: Path | None = None
    """Where Spark's own log goes; None: a temporary file that is shown when Spark does not start."""


def submitted() -> bool:
    """Whether spark-submit started us, so that master, jars and memory are settled."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def require_pyspark() -> None:
    """Raise `PipelineError` when there is no pyspark; to be called before anything that imports it."""
    if importlib.util.find_spec("pyspark") is None:
        raise PipelineError(NO_PYSPARK)


def connect(app: str, options: SparkOptions) -> SparkSession:
    """A session with the settings that the jobs need. Raises `PipelineError` when there is none to be had."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise PipelineError(NO_PYSPARK) from None
    builder = SparkSession.builder.appName(app)
    if submitted():
        spark = builder.getOrCreate()
    else:
        for name, value in _local_settings(options, _scratch()).items():
            builder = builder.config(name, value)
        spark = _start(builder, log_file(options))
        spark.sparkContext.setLogLevel("ERROR")
    for name, value in JOB_SETTINGS.items():
        spark.conf.set(name, value)
    return spark


def log_file(options: SparkOptions) -> Path:
    """Where the log of a Spark that we start goes; a temporary one lasts as long as this process."""
    return options.log or Path(_scratch()) / "spark.log"


@functools.cache
def _scratch() -> str:
    scratch = tempfile.mkdtemp(prefix="magnetar-pipeline-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return scratch


def _local_settings(options: SparkOptions, scratch: str = "") -> dict[str, str]:
    settings = {
        "spark.master": options.master or "local[*]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.pyspark.python": sys.executable,
    }
    if settings["spark.master"].startswith("local"):
        # Nobody else has to reach this driver, and the machine's own name may not resolve.
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if scratch:
        # The native parts of lz4 and snappy are unpacked into Java's temporary folder, and are left there by a kill.
        settings["spark.local.dir"] = scratch
        settings["spark.driver.extraJavaOptions"] = f"-Djava.io.tmpdir={scratch}"
    jars = options.jars or os.environ.get(JARS_VARIABLE)
    if jars:
        settings["spark.jars"] = ",".join(_jar_files(jars))
    if options.packages:
        settings["spark.jars.packages"] = options.packages
    elif not jars:
        settings |= _default_connector()
    return settings | dict(options.conf)


def _default_connector() -> dict[str, str]:
    """A checkout's jar cache if it has been filled, else the package that belongs to this Spark."""
    from pyspark.version import __version__ as version

    cache = Path(__file__).resolve().parents[1] / ".cache" / "jars" / f"spark-{version}"
    cached = sorted(cache.glob("*.jar"))
    if any(jar.name.startswith("spark-sql-kafka") for jar in cached):
        return {"spark.jars": ",".join(map(str, cached))}
    return {"spark.jars.packages": f"{CONNECTOR}:{version}"}


def _jar_files(jars: str) -> list[str]:
    """`jars` is a folder, or a list of files and URLs with commas between them."""
    folder = Path(jars)
    if folder.is_dir():
        found = sorted(str(jar) for jar in folder.glob("*.jar"))
        if not found:
            raise PipelineError(f"there are no jars in {folder}.")
        return found
    return [jar.strip() for jar in jars.split(",") if jar.strip()]


def _start(builder: SparkSession.Builder, log: Path) -> SparkSession:
    """Start the JVM with its standard error in a log, so that the terminal shows our lines only."""
    try:
        with _stderr_into(log):
            return builder.getOrCreate()
    except Exception as error:
        said = log.read_text(errors="replace")
        raise PipelineError(f"Spark did not start: {start_failure(said) or error}") from None


@contextlib.contextmanager
def _stderr_into(path: Path) -> Iterator[None]:
    """Point descriptor 2 at a file while a child is started: the child keeps it, we get ours back."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with path.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
