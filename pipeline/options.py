"""What the commands have in common: types of what a person types, options, and Spark for the length of a block."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from pipeline.client_config import options_of
from pipeline.errors import SPARK_IS_GONE, PipelineError, died
from pipeline.progress import Stop
from pipeline.session import SparkOptions, connect, log_file, submitted
from pipeline.starting import breakable


class Instant(click.ParamType[Any]):
    """A point in time: ISO 8601 (UTC unless it names a zone) or milliseconds since 1970. Becomes int ms."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Ms since 1970."""
        if isinstance(value, int):
            return value
        if value.isdigit() and len(value) > 8:
            return int(value)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is no time: write 2026-03-01, 2026-03-01T12:30:00Z or ms since 1970", param, ctx
            )
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


class Starting(Instant):
    """`earliest`, `latest` or an instant."""

    name = "earliest|latest|time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The word, or ms since 1970."""
        return value if value in ("earliest", "latest") else super().convert(value, param, ctx)


class Pair(click.ParamType[Any]):
    """`name=value`."""

    name = "name=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Name and value."""
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not equals or not name:
            self.fail(f"{value!r}: expected name=value", param, ctx)
        return name, text


def spark_options(command: Any) -> Any:
    """The options that say which Spark; the same for every command."""
    for decorate in (
        click.option(
            "--spark-log", type=click.Path(path_type=Path), help="Put Spark's own log into this file."
        ),
        click.option("--spark-conf", type=Pair(), multiple=True, help="A Spark setting; repeatable."),
        click.option(
            "--packages", help="Maven coordinates of the Kafka connector [default: that of this Spark]."
        ),
        click.option("--jars", help="A folder or list of the connector's jars [env MAGNETAR_SPARK_JARS]."),
        click.option("--master", help="Spark's master URL [default: local[*]; spark-submit's own wins]."),
    ):
        command = decorate(command)
    return command


def kafka_options(command: Any) -> Any:
    """What Spark's Kafka source or sink is told beside topics: `chosen` makes one mapping of both options."""
    for decorate in (
        click.option(
            "--option",
            "options",
            type=Pair(),
            multiple=True,
            help="An option for Spark's Kafka source or sink, e.g. kafka.fetch.max.bytes=1000000; repeatable.",
        ),
        click.option(
            "--client-config",
            metavar="FILE",
            type=click.Path(path_type=Path, dir_okay=False),
            help="TLS and login: a file of client settings as Kafka's tools take it (--command-config).",
        ),
    ):
        command = decorate(command)
    return command


def chosen(client_config: Path | None, options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Spark's Kafka options: those of the file, and those that are typed, which count where both say something."""
    return {**(options_of(client_config) if client_config else {}), **dict(options)}


def stream_options(command: Any) -> Any:
    """The options of what reads topics in batches and writes Parquet."""
    for decorate in (
        click.option(
            "--compression",
            type=click.Choice(["zstd", "snappy", "gzip", "lz4", "none"]),
            default="zstd",
            help="Of the Parquet files.",
        ),
        click.option(
            "--max-offsets",
            type=click.IntRange(min=0),
            default=1_000_000,
            help="Records a batch; 0: no bound.",
        ),
        click.option("--interval", default="10 seconds", help="With --continuous: how often a batch starts."),
        click.option("--continuous", is_flag=True, help="Go on until Ctrl-C or SIGTERM."),
    ):
        command = decorate(command)
    return command


take_over_option = click.option(
    "--take-over", is_flag=True, help="The job that was writing to the output, on another machine, is dead."
)


class RunningSpark:
    """Spark for the length of a block, with our handlers for SIGINT and SIGTERM."""

    def __init__(self, app: str, options: Mapping[str, Any], stop: Stop) -> None:
        self._app = app
        self._stop = stop
        self._options = SparkOptions(
            master=options["master"],
            jars=options["jars"],
            packages=options["packages"],
            conf=dict(options["spark_conf"]),
            log=options["spark_log"],
        )

    def __enter__(self) -> Any:
        # py4j logs each call that a dead JVM does not answer; what we say of it is enough.
        logging.getLogger().addHandler(logging.NullHandler())
        with breakable():
            self._session = connect(self._app, self._options)
            self._stop.listen()
        return self._session

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._session.stop()
        except Exception:
            # It is gone already. An error of ours then says what followed from that; the log says why.
            if submitted():
                raise PipelineError(SPARK_IS_GONE) from None
            log = log_file(self._options)
            raise PipelineError(died(log.read_text(errors="replace"))) from None
