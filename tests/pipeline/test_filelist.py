"""Spark's list of files: which of its files count, and how it is written anew for an archive that was moved."""

from __future__ import annotations

import json

from pipeline.filelist import Listed, listed, live, moved, place


def entry(path: str) -> str:
    return json.dumps({"path": path, "size": 9, "isDir": False, "action": "add"})


def test_the_last_compact_file_and_what_follows_it_count() -> None:
    names = ["0", "9.compact", "10", "19.compact", "18", "20", "21", ".20.crc", "21.tmp"]

    assert live(names) == ["19.compact", "20", "21"]
    assert live(["1", "0", "2"]) == ["0", "1", "2"]
    assert live([]) == []


def test_what_a_batch_names() -> None:
    text = "v1\n" + entry("file:///data/my%20archive/topic=a%253Ab/date=2026-03-01/part-1.parquet")

    assert list(listed(text)) == [Listed("/data/my archive", "topic=a%3Ab/date=2026-03-01/part-1.parquet")]
    assert list(listed("v1")) == []


def test_a_moved_list_names_the_same_files_in_the_new_place_and_nothing_else_changes() -> None:
    text = "v1\n" + entry("s3a://old/x/topic=t/date=2026-03-01/part-1.parquet")

    after = moved(text, "s3a://new/y")

    assert json.loads(after.splitlines()[1]) == json.loads(
        entry("s3a://new/y/topic=t/date=2026-03-01/part-1.parquet")
    )
    assert after.splitlines()[0] == "v1"
    assert [each.below for each in listed(after)] == [each.below for each in listed(text)]


def test_one_place_has_many_names() -> None:
    assert place("file:/a/b%20c") == place("file:///a/b%20c/") == place("/a/b c")
    assert place("s3a://one/a") != place("s3a://two/a")
