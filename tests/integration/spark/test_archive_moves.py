"""Archives that were copied or moved, and topics that were made again: nothing is deleted, nothing is left out."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compat.spark.feed import Feed, Record, topic_name
from pipeline.errors import PipelineError
from pipeline.identity import FILE
from tests.integration.spark.archives import content, table

if TYPE_CHECKING:
    from tests.integration.spark.conftest import Keep, Play

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.xdist_group("spark")]


def numbers(first: int, end: int) -> list[Record]:
    return [Record(None, b"%d" % n) for n in range(first, end)]


def values(rows: list[dict[str, object]]) -> list[bytes]:
    return [row["value"] for row in rows]  # type: ignore[misc]


def parquet(folder: Path) -> list[Path]:
    return sorted(folder.glob("topic=*/date=*/*.parquet"))


def test_a_copy_keeps_its_files_and_goes_on_by_itself(
    keep: Keep, play: Play, feed: Feed, tmp_path: Path
) -> None:
    # a name that is percent-encoded both in folders' names and in Spark's list
    topic = feed.create(topic_name("copied"))
    feed.produce(topic, numbers(0, 30))
    keep(topic, max_offsets=10)
    shutil.copytree(tmp_path / "archive", tmp_path / "a copy")
    feed.produce(topic, numbers(30, 40))

    done = keep(topic, output="a copy")

    assert (done.rows, done.swept) == (10, 0)
    assert str(tmp_path / "archive") in done.notes[0]
    assert values(table(tmp_path, "a copy")) == [b"%d" % n for n in range(40)]
    assert values(table(tmp_path)) == [b"%d" % n for n in range(30)]
    # each stands alone: the original may go, and the copy is played back whole
    shutil.rmtree(tmp_path / "archive")
    target = feed.create(topic_name("copied-again"))
    _, played = play(source="a copy", to=target)
    assert played.rows == 40


def test_a_moved_archive_goes_on_and_is_played_back_before_that(
    keep: Keep, play: Play, feed: Feed, tmp_path: Path
) -> None:
    topic = feed.create(topic_name("moved"))
    feed.produce(topic, numbers(0, 20))
    keep(topic, max_offsets=7)
    (tmp_path / "archive").rename(tmp_path / "elsewhere")
    target = feed.create(topic_name("moved-again"))

    planned, played = play(source="elsewhere", to=target, topics=(topic,))
    feed.produce(topic, numbers(20, 25))
    done = keep(topic, output="elsewhere")

    assert (planned.count, played.rows, done.rows, done.swept) == (20, 20, 5, 0)
    assert content(feed.records(target)[0]) == content(numbers(0, 20))
    assert values(table(tmp_path, "elsewhere")) == [b"%d" % n for n in range(25)]
    assert keep(topic, output="elsewhere").notes == ()


def test_a_copy_of_a_part_is_refused_and_left_as_it_is(keep: Keep, feed: Feed, tmp_path: Path) -> None:
    topic = feed.create(topic_name("part"))
    feed.produce(topic, numbers(0, 20))
    keep(topic, max_offsets=10)
    shutil.copytree(tmp_path / "archive", tmp_path / "copy")
    first, *rest = parquet(tmp_path / "copy")
    first.unlink()

    with pytest.raises(PipelineError, match=r"1 of its files are not here .*: copy all of it"):
        keep(topic, output="copy")

    assert parquet(tmp_path / "copy") == rest


def test_a_copy_has_a_checkpoint_of_its_own(keep: Keep, feed: Feed, tmp_path: Path) -> None:
    topic = feed.create(topic_name("apart"))
    feed.produce(topic, numbers(0, 5))
    apart = str(tmp_path / "apart")
    keep(topic, checkpoint=apart)
    shutil.copytree(tmp_path / "archive", tmp_path / "copy")
    shutil.copytree(apart, f"{apart}-copy")
    feed.produce(topic, numbers(5, 9))

    with pytest.raises(PipelineError, match="copy the checkpoint as well"):
        keep(topic, output="copy", checkpoint=apart)
    keep(topic, output="copy", checkpoint=f"{apart}-copy")
    keep(topic, checkpoint=apart)

    assert values(table(tmp_path)) == values(table(tmp_path, "copy")) == [b"%d" % n for n in range(9)]


def test_what_other_hands_put_there_is_left_alone(keep: Keep, feed: Feed, tmp_path: Path) -> None:
    topic = feed.create(topic_name("strangers"))
    feed.produce(topic, numbers(0, 5))
    keep(topic)
    keep(topic, output="other")
    (theirs,) = parquet(tmp_path / "other")
    stranger = next(iter((tmp_path / "archive").glob("topic=*/date=*"))) / theirs.name
    shutil.copy(theirs, stranger)
    torn = stranger.with_name(f"part-00000-{uuid.uuid4()}.c000.zstd.parquet")
    torn.write_bytes(theirs.read_bytes()[:-20])

    done = keep(topic)

    assert done.swept == 1
    assert not torn.exists()
    assert stranger.exists()
    assert stranger.name in done.notes[0]


def test_a_topic_that_was_made_again_is_refused(keep: Keep, feed: Feed, tmp_path: Path) -> None:
    topic, other = feed.create(topic_name("again")), feed.create(topic_name("again-other"))
    feed.produce(topic, numbers(0, 10))
    feed.produce(other, numbers(0, 3))
    keep(topic, other)
    feed.delete(topic)
    feed.create(topic)
    feed.produce(topic, numbers(100, 116))
    feed.produce(other, numbers(3, 6))

    with pytest.raises(PipelineError, match=rf"{topic} was deleted and made again .* another --output"):
        keep(topic, other)
    # both ways that the message names
    assert keep(topic, output="second").rows == 16
    keep(other, allow_data_loss=True)

    assert keep(other).rows == 0
    kept = table(tmp_path)
    assert values([row for row in kept if row["topic"] == topic]) == [b"%d" % n for n in range(10)]
    assert values([row for row in kept if row["topic"] == other]) == [b"%d" % n for n in range(6)]


def test_an_archive_from_before_ids_were_kept_takes_them_with_a_note(
    keep: Keep, feed: Feed, tmp_path: Path
) -> None:
    topic = feed.create(topic_name("adopted"))
    feed.produce(topic, numbers(0, 4))
    keep(topic)
    kept = tmp_path / "archive" / "_magnetar" / "checkpoint" / FILE
    ids = json.loads(kept.read_text())["topics"]
    kept.unlink()
    feed.produce(topic, numbers(4, 6))

    done = keep(topic)

    assert done.rows == 2
    assert f"knows {topic} by id" in done.notes[0]
    assert json.loads(kept.read_text())["topics"] == ids
    assert keep(topic).notes == ()
