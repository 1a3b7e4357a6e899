"""Archive and replay, run in the shared Spark: what they keep, what they refuse, and what they say."""

from __future__ import annotations

import os
import shutil
import socket
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compat.spark.feed import Feed, Record, topic_name
from pipeline.archive import ArchiveJob, archive
from pipeline.errors import PipelineError
from pipeline.progress import Stop
from pipeline.replay import ReplayJob, plan, select
from pipeline.slices import Place
from tests.integration.spark.archives import content, midnight, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.integration.spark.conftest import Keep, Play

# One group: pytest-xdist then starts one Spark, in one of its workers.
pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_everything_of_a_record_is_kept_under_its_topic_and_utc_day(
    keep: Keep, feed: Feed, tmp_path: Path
) -> None:
    topic = feed.create(topic_name("keep-all"), 2)
    first = midnight()
    sent = [
        Record(b"k", b"v", (("h", b"1"), ("h", None)), 0, first - 1),
        Record(b"k", None, (), 0, first),
        Record(None, b"", (), 1, first + 123),
    ]
    feed.produce(topic, sent)

    done = keep(topic)

    assert (done.rows, done.lag, done.finished) == (3, 0, True)
    rows = table(tmp_path)
    assert [(row["partition"], row["offset"]) for row in rows] == [(0, 0), (0, 1), (1, 0)]
    assert [(row["key"], row["value"]) for row in rows] == [(b"k", b"v"), (b"k", None), (None, b"")]
    assert rows[0]["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert [round(row["timestamp"].timestamp() * 1000) for row in rows] == [
        record.timestamp for record in sent
    ]
    assert {row["timestampType"] for row in rows} == {0}
    assert {row["topic"] for row in rows} == {topic}
    assert [str(row["date"]) for row in rows] == [
        time.strftime("%Y-%m-%d", time.gmtime(record.timestamp / 1000)) for record in sent
    ]


def test_a_second_run_adds_what_is_new_and_nothing_twice(keep: Keep, feed: Feed, tmp_path: Path) -> None:
    topic = feed.create(topic_name("keep-twice"))
    feed.produce(topic, [Record(None, b"%d" % n) for n in range(30)])
    first = keep(topic, max_offsets=12)
    feed.produce(topic, [Record(None, b"%d" % n) for n in range(30, 45)])

    assert [first.rows, keep(topic).rows, keep(topic).rows] == [30, 15, 0]
    assert [row["value"] for row in table(tmp_path)] == [b"%d" % n for n in range(45)]


def test_a_pattern_and_where_to_start(keep: Keep, feed: Feed, tmp_path: Path) -> None:
    stem = topic_name("keep-pattern")
    first = midnight()
    for suffix in ("-a", "-b"):
        feed.create(stem + suffix)
        feed.produce(stem + suffix, [Record(None, b"%d" % n, (), 0, first + n) for n in range(10)])

    assert keep(pattern=f"{stem}-.*", starting=first + 7).rows == 6
    assert [row["value"] for row in table(tmp_path)] == [b"7", b"8", b"9"] * 2


def test_records_that_are_gone_are_an_error_unless_allowed(keep: Keep, feed: Feed, tmp_path: Path) -> None:
    topic = feed.create(topic_name("keep-loss"))
    feed.produce(topic, [Record(None, b"%d" % n) for n in range(10)])
    keep(topic)
    feed.produce(topic, [Record(None, b"%d" % n) for n in range(10, 20)])
    feed.delete_records(topic, {0: 15})

    with pytest.raises(PipelineError, match="--allow-data-loss"):
        keep(topic)
    keep(topic, allow_data_loss=True)

    assert [row["offset"] for row in table(tmp_path)] == [*range(10), *range(15, 20)]


def test_what_an_archive_refuses(keep: Keep, job_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    topic = feed.create(topic_name("keep-refuse"))
    with pytest.raises(PipelineError, match=f"topic {topic}x does not exist. Did you mean {topic}"):
        keep(f"{topic}x")
    with pytest.raises(PipelineError, match="no topic matches"):
        keep(pattern=f"{topic}-none")
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(PipelineError, match="nothing answers at"):
        archive(job_spark, ArchiveJob(nobody, str(tmp_path), topics=(topic,)), Stop())
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match=r"cannot write to .*/file/archive"):
        archive(
            job_spark, ArchiveJob(feed.bootstrap, str(tmp_path / "file" / "archive"), topics=(topic,)), Stop()
        )
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "mine.txt").touch()
    with pytest.raises(PipelineError, match=r"is not empty \(mine.txt\)"):
        keep(topic)


def test_an_output_and_a_checkpoint_that_do_not_belong_together(
    keep: Keep, feed: Feed, tmp_path: Path
) -> None:
    topic = feed.create(topic_name("keep-pair"))
    feed.produce(topic, [Record(None, b"1")])
    keep(topic)

    with pytest.raises(PipelineError, match="is not its checkpoint"):
        keep(topic, checkpoint=str(tmp_path / "elsewhere"))
    shutil.copytree(tmp_path / "archive" / "_magnetar" / "checkpoint", tmp_path / "moved")
    shutil.rmtree(tmp_path / "archive")
    with pytest.raises(PipelineError, match="belongs to another output"):
        keep(topic, checkpoint=str(tmp_path / "moved"))


def test_files_of_an_unfinished_batch_are_removed_and_nothing_else(
    keep: Keep, feed: Feed, tmp_path: Path
) -> None:
    topic = feed.create(topic_name("keep-sweep"))
    feed.produce(topic, [Record(None, b"1")])
    keep(topic)
    (written,) = (tmp_path / "archive").glob("topic=*/date=*/*.parquet")
    leftover = written.with_name(f"part-00000-{uuid.uuid4()}.c000.zstd.parquet")
    mine = written.with_name("mine.parquet")
    for copy in (leftover, mine):
        shutil.copy(written, copy)

    assert keep(topic).swept == 1
    assert sorted((tmp_path / "archive").glob("topic=*/date=*/*.parquet")) == sorted([written, mine])


def test_one_writer_at_a_time(keep: Keep, feed: Feed, tmp_path: Path) -> None:
    topic = feed.create(topic_name("keep-writer"))
    mark = tmp_path / "archive" / "_magnetar" / "writer"
    mark.parent.mkdir(parents=True)
    host = socket.gethostname()

    mark.write_text(f"{host} {os.getppid()} 1772323200\n")
    with pytest.raises(PipelineError, match=r"is being written by process .* since 2026-03-01 .*--take-over"):
        keep(topic)
    mark.write_text("elsewhere 1 1772323200\n")
    with pytest.raises(PipelineError, match="on elsewhere since"):
        keep(topic)
    assert keep(topic, take_over=True).finished
    mark.write_text(f"{host} 4194304 1772323200\n")  # above the largest pid there is
    assert keep(topic).finished
    assert not mark.exists()


def test_a_replay_gives_back_keys_values_headers_and_order(keep: Keep, play: Play, feed: Feed) -> None:
    topic = feed.create(topic_name("play-all"), 3)
    sent = [
        Record(b"k%d" % (n % 11), None if n % 7 == 0 else b"%d" % n, (("n", b"%d" % n),) * (n % 3), n % 3)
        for n in range(600)
    ]
    feed.produce(topic, sent, "zstd")
    keep(topic, max_offsets=170)

    planned, done = play(suffix=".again", create_topics=True, slice_rows=130, compression="lz4")

    assert planned.count == done.rows == 600
    assert done.slices == done.of_slices == 5
    assert {partition: content(records) for partition, records in feed.records(f"{topic}.again").items()} == {
        partition: content([record for record in sent if record.partition == partition])
        for partition in range(3)
    }


def test_filters_and_the_timestamp_header(keep: Keep, play: Play, feed: Feed) -> None:
    one, two = feed.create(topic_name("play-one"), 2), feed.create(topic_name("play-two"))
    first = midnight()
    feed.produce(one, [Record(b"k%d" % (n % 4), b"%d" % n, (), n % 2, first + n) for n in range(40)])
    feed.produce(two, [Record(b"k1", b"other")])
    keep(one, two)
    target = feed.create(topic_name("play-filtered"), 1)

    planned, _ = play(
        to=target,
        topics=(one,),
        partitions=(1,),
        since=first + 9,
        until=first + 31,
        where="CAST(key AS STRING) = 'k1'",
        timestamp_header="created",
        keep_partitions=False,
    )

    wanted = [n for n in range(9, 31) if n % 4 == 1]
    assert planned.count == len(wanted)
    assert content(feed.records(target)[0]) == [
        (b"k1", b"%d" % n, (("created", b"%d" % (first + n)),)) for n in wanted
    ]


def test_a_plan_counts_and_a_topic_that_looks_like_a_number_keeps_its_name(
    keep: Keep, job_spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    number = feed.create(str(time.time_ns()), 2)
    first = midnight()
    feed.produce(number, [Record(None, b"x", (), n % 2, first + n) for n in range(7)])
    keep(number)
    job = ReplayJob(str(tmp_path / "archive"), None, suffix=".again")

    planned = plan(select(job_spark, job), job)

    assert planned.targets == {number: f"{number}.again"}
    assert planned.spans == {
        Place(number, 0): (4, 0, 3, first, first + 6),
        Place(number, 1): (3, 0, 2, first + 1, first + 5),
    }


def test_what_a_replay_refuses(
    keep: Keep, play: Play, job_spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    with pytest.raises(PipelineError, match="no archive at"):
        play(suffix=".x")
    topic = feed.create(topic_name("play-refuse"), 3)
    feed.produce(topic, [Record(None, b"%d" % n, (), n % 3) for n in range(9)])
    keep(topic)
    with pytest.raises(PipelineError, match=r"does not exist: create it \(with 3 partitions"):
        play(suffix=".x")
    narrow = feed.create(topic_name("play-narrow"))
    with pytest.raises(PipelineError, match="has 1 partitions and 3 are needed"):
        play(to=narrow, keep_partitions=True)
    with pytest.raises(PipelineError, match="nonsense"):
        play(to=narrow, where="nonsense = 1")
    job_spark.range(3).write.parquet(str(tmp_path / "other"))
    with pytest.raises(PipelineError, match="no column topic"):
        select(job_spark, ReplayJob(str(tmp_path / "other"), None, to="x"))

    assert feed.ends(narrow) == {0: (0, 0)}
    play(to=narrow)
    assert feed.ends(narrow) == {0: (0, 9)}


class Clock(Stop):
    """Notes how long it was asked to sleep, and asks to stop after so many sleeps."""

    def __init__(self, stop_after: int | None = None) -> None:
        super().__init__()
        self.sleeps: list[float] = []
        self._stop_after = stop_after

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.asked = len(self.sleeps) == self._stop_after


def test_a_rate_writes_a_seconds_worth_at_a_time_in_order(keep: Keep, play: Play, feed: Feed) -> None:
    topic = feed.create(topic_name("play-rate"), 2)
    feed.produce(topic, [Record(None, b"%d" % n, (), n % 2) for n in range(50)])
    keep(topic)
    target, clock = feed.create(topic_name("play-rated"), 2), Clock()

    play(clock, to=target, rate=20)

    # Not before 0 s, 1 s and 2 s; the last piece holds what is left.
    assert len(clock.sleeps) == 3
    assert clock.sleeps[0] <= 0
    assert clock.sleeps[1] < 1
    assert clock.sleeps[2] < 2
    assert [
        [int(record.value or b"") for record in records] for records in feed.records(target).values()
    ] == [
        list(range(0, 50, 2)),
        list(range(1, 50, 2)),
    ]


def test_a_stopped_replay_says_where_to_go_on(keep: Keep, play: Play, feed: Feed) -> None:
    topic = feed.create(topic_name("play-stop"))
    feed.produce(topic, [Record(None, b"%d" % n) for n in range(100)])
    keep(topic)
    target = feed.create(topic_name("play-stopped"))
    stop = Stop()
    stop.asked = True

    _, none = play(stop, to=target, slice_rows=40)
    _, rest = play(to=target, slice_rows=40, skip_slices=1)

    assert (none.slices, none.of_slices, none.rows) == (0, 3, 0)
    assert (rest.slices, rest.of_slices) == (3, 3)
    assert [record.value for record in feed.records(target)[0]] == [
        b"%d" % n for n in range(100 - rest.rows, 100)
    ]


def test_a_topic_that_the_archive_does_not_have_is_told(
    keep: Keep, job_spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    topic = feed.create(topic_name("typo"))
    feed.produce(topic, [Record(None, b"1")])
    keep(topic)

    with pytest.raises(PipelineError, match=f"the archive has no topic ordrs; it has {topic}\\."):
        select(job_spark, ReplayJob(f"{tmp_path}/archive", None, topics=(topic, "ordrs")))


def test_a_delay_of_old_is_over_when_it_is_played_back(keep: Keep, play: Play, feed: Feed) -> None:
    topic, target = feed.create(topic_name("delays")), feed.create(topic_name("delays-again"))
    sent = midnight()
    after, at = "pulsar-deliver-after", "pulsar-deliver-at"
    most = 2**63 - 1
    cases: list[tuple[tuple[tuple[str, bytes | None], ...], tuple[tuple[str, bytes | None], ...]]] = [
        (((after, b"5000"),), ((at, b"%d" % (sent + 5000)),)),
        (
            (("a", b"\xff"), (after, b"0"), (after, b"07"), ("b", None)),
            (("a", b"\xff"), (at, b"%d" % sent), (at, b"%d" % (sent + 7)), ("b", None)),
        ),
        (((after, b"9999999999999999999"),), ((at, b"%d" % most),)),
        # what means nothing, and what is a time already
        *[
            (((name, value),), ((name, value),))
            for name, value in (
                (after, None), (after, b""), (after, b"5s"), (after, b"-5"), (after, b"1\n"), (after, b"\xff1"),
                (after, b"0" * 20), (at, b"17"), ("Pulsar-Deliver-After", b"5"),
            )
        ],
        ((), ()),
    ]  # fmt: skip
    feed.produce(topic, [Record(None, b"%d" % n, case[0], 0, sent) for n, case in enumerate(cases)])
    keep(topic)

    play(to=target)

    assert [record.headers for record in feed.records(target)[0]] == [case[1] for case in cases]
