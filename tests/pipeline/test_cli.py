"""What a person types: times, pairs, and the combinations that make no sense; no Spark is started here."""

from __future__ import annotations

import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pipeline.archive import Archived
from pipeline.cli import archived_sentence, main, table
from pipeline.errors import PipelineError
from pipeline.options import Instant, Pair, RunningSpark, Starting
from pipeline.progress import Stop
from pipeline.replay import Plan, ReplayJob
from pipeline.slices import Place, Span

DAY = 1_772_323_200_000  # 2026-03-01 00:00 UTC


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-03-01", DAY),
        ("2026-03-01T00:00:00Z", DAY),
        ("2026-03-01 01:30", DAY + 5_400_000),
        ("2026-03-01T02:00:00+02:00", DAY),
        ("2026-03-01T00:00:00.125", DAY + 125),
        (str(DAY), DAY),
    ],
)
def test_times(text: str, ms: int) -> None:
    assert Instant().convert(text, None, None) == ms


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "", "20"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(click.UsageError, match="is no time"):
        Instant().convert(text, None, None)


def test_starting_takes_words_too() -> None:
    assert [Starting().convert(text, None, None) for text in ("earliest", "latest", "2026-03-01")] == [
        "earliest",
        "latest",
        DAY,
    ]


def test_pairs() -> None:
    assert Pair().convert("kafka.sasl.jaas.config=a b=c;", None, None) == ("kafka.sasl.jaas.config", "a b=c;")
    with pytest.raises(click.UsageError, match="expected name=value"):
        Pair().convert("=x", None, None)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("archive --bootstrap h:1 --output o", "either --topic"),
        ("archive --bootstrap h:1 --output o --topic a --pattern b", "either --topic"),
        ("archive --bootstrap h:1 --topic a", "Missing option '--output'"),
        ("archive --bootstrap h:1 --topic a --output o --starting soon", "is no time"),
        ("replay --input i --bootstrap h:1", "exactly one of"),
        ("replay --input i --bootstrap h:1 --to t --suffix s", "exactly one of"),
        ("replay --input i --to t", "--bootstrap (or --dry-run)"),
        ("replay --input i --to t --bootstrap h:1 --rate 0", "x>0"),
        ("drain --bootstrap h:1 --topic t-s-QUEUE", "either --output or --hook"),
        ("drain --bootstrap h:1 --topic t-s-QUEUE --output o --hook m:f", "either --output or --hook"),
        ("drain --bootstrap h:1 --topic t-s-QUEUE --hook m:f", "--hook needs --checkpoint"),
        ("drain --bootstrap h:1 --output o", "Missing option '--topic'"),
    ],
)
def test_combinations_that_make_no_sense(arguments: str, sentence: str) -> None:
    result = CliRunner().invoke(main, arguments.split())

    assert result.exit_code == 2
    assert sentence in result.output


@pytest.mark.parametrize("command", [[], ["archive"], ["replay"], ["drain"]])
def test_help_shows_examples(command: list[str]) -> None:
    result = CliRunner().invoke(main, [*command, "--help"])

    assert result.exit_code == 0
    assert "magnetar-pipeline" in result.output


def test_help_does_not_wait_for_pyspark() -> None:
    code = "import sys, pipeline.cli; sys.exit('pyspark' in sys.modules or 'py4j' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def without_pyspark(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The program where pyspark is not installed, as after `make run`."""
    code = (
        "import sys; sys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "from pipeline.cli import main; main(prog_name='magnetar-pipeline')"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], check=False, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    "arguments",
    [
        "archive --bootstrap 127.0.0.1:1 --topic t --output o",
        "replay --input i --to t --bootstrap 127.0.0.1:1",
        "replay --input i --to t --dry-run",
        "drain --bootstrap 127.0.0.1:1 --topic t-s-QUEUE --output o",
    ],
)
def test_without_pyspark_it_says_what_to_install(arguments: str) -> None:
    result = without_pyspark(*arguments.split())

    assert result.returncode == 1
    assert result.stderr.startswith("magnetar-pipeline: pyspark is not installed: pip install pyspark==")
    assert result.stderr.count("\n") == 1


def test_the_version_needs_no_pyspark() -> None:
    assert without_pyspark("--version").stdout == f"magnetar-pipeline {metadata.version('magnetar')}\n"


def test_spark_that_dies_of_its_memory_is_said_to_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Dead:
        def stop(self) -> None:
            raise ConnectionRefusedError

    log = tmp_path / "log"
    log.write_text("ERROR Executor: Exception in task 0.0\njava.lang.OutOfMemoryError: Java heap space\n")
    monkeypatch.setattr("pipeline.options.connect", lambda app, options: Dead())
    options = {"master": None, "jars": None, "packages": None, "spark_conf": (), "spark_log": log}

    said = r"ran out of memory.*spark\.driver\.memory=4g"
    with pytest.raises(PipelineError, match=said), RunningSpark("test", options, Stop()):
        raise PipelineError("the broker did not answer in time.")
    log.write_text("")
    with pytest.raises(PipelineError, match="Java process has ended"), RunningSpark("test", options, Stop()):
        pass


def test_the_dry_runs_table() -> None:
    job = ReplayJob("in", None, suffix=".again", rate=50)
    planned = Plan(
        {
            Place("orders", 0): Span(1_500, 10, 1_600, DAY, DAY + 1_000),
            Place("orders", 1): Span(500, 0, 499, DAY, DAY),
        },
        {"orders": "orders.again"},
    )

    assert table(planned, job).splitlines() == [
        "topic   partition  to            records  offsets  from                 until",
        "orders  0          orders.again  1,500    10-1600  2026-03-01 00:00:00  2026-03-01 00:00:01",
        "orders  1          orders.again  500      0-499    2026-03-01 00:00:00  2026-03-01 00:00:00",
        "2,000 records in 2 partitions; 40 s at 50 a second; nothing was written.",
    ]


def test_what_an_archive_run_says() -> None:
    done = Archived(rows=2_000, seconds=4.0, lag=12, finished=False, swept=3)

    assert archived_sentence(done, "/data") == (
        "archived 2,000 records in 4.0 s (500 rows/s), lag 12, in /data; 3 files of an unfinished batch were removed "
        "first; stopped: the same command goes on from here"
    )


def test_an_error_is_one_sentence_and_an_exit_code_before_spark_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"127.0.0.1:{server.getsockname()[1]}"

    result = CliRunner().invoke(main, ["archive", "--bootstrap", nobody, "--topic", "t", "--output", "o"])

    assert result.exit_code == 1
    assert result.stderr == (
        f"magnetar-pipeline: nothing answers at {nobody} (Connection refused): is the gateway running?\n"
    )


def test_a_topic_that_the_archive_does_not_have_is_told_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.options.connect", lambda app, options: pytest.fail("Spark was started"))
    for number in range(12):
        (tmp_path / f"topic=orders{number:02}").mkdir()
    (tmp_path / "_spark_metadata").mkdir()

    result = CliRunner().invoke(
        main, ["replay", "--input", str(tmp_path), "--to", "t", "--dry-run", "--topic", "ordrs"]
    )

    assert (result.exit_code, result.stdout) == (1, "")
    kept = ", ".join(f"orders{number:02}" for number in range(10))
    assert result.stderr == (
        f"magnetar-pipeline: the archive has no topic ordrs; it has {kept} and 2 more.\n"
    )
