"""A small local Spark for tests, the demo and the round trip: two threads, one gigabyte, loopback only."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from compat.spark.jars import ensure_spark_jars, java_home, require_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
SHORT = "-XX:TieredStopAtLevel=1 -Xshare:auto"
"""Options of a JVM that runs for minutes at most: what it compiles for speed would cost more than it gains."""
SHORT_JOB = ("--spark-conf", f"spark.driver.defaultJavaOptions={SHORT}")
"""The same for `magnetar-pipeline`, which has options of its own for its JVM."""


def session(app: str, *, log: Path | None = None, short: bool = True, **conf: str) -> SparkSession:
    """Start Spark (about 6 s), or return the one this process has already started.

    `log`: a file for what the JVM says on standard error. `conf`: further Spark settings with `__` in place of the
    dot (`spark__sql__ansi__enabled="false"`). `short`: nobody asks how fast it is, and it need not compile for speed.
    Its warehouse and scratch space lie in one temporary folder that goes away with the process.
    Raises `SparkMissingError` when Java or the connector cannot be had.
    """
    require_java()
    jars = ensure_spark_jars()
    if home := java_home():
        os.environ["JAVA_HOME"] = home
    # Without it Spark asks for the machine's host name, which need not resolve to loopback.
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    scratch = tempfile.mkdtemp(prefix="magnetar-spark-")
    builder = SparkSession.builder.appName(app)
    for name, value in _settings(scratch, [str(jar) for jar in jars], short).items():
        builder = builder.config(name, value)
    for name, value in conf.items():
        builder = builder.config(name.replace("__", "."), value)
    with _stderr_into(log):
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    # atexit runs in reverse order: Spark stops first, then its folder goes.
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    atexit.register(spark.stop)
    return spark


def _settings(scratch: str, jars: list[str], short: bool) -> dict[str, str]:
    options = ["-XX:+UseSerialGC", f"-Djava.io.tmpdir={scratch}", *([SHORT] if short else [])]
    return {
        "spark.master": "local[2]",
        "spark.jars": ",".join(jars),
        "spark.driver.memory": "1g",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.extraJavaOptions": " ".join(options),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        # A query that waits for data looks again this often.
        "spark.sql.streaming.pollingDelay": "10ms",
    }


@contextlib.contextmanager
def _stderr_into(log: Path | None) -> Iterator[None]:
    """Point descriptor 2 at a file while the JVM is started: it keeps it, we get ours back."""
    if log is None:
        yield
        return
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
