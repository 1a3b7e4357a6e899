"""What a drain has written, as far as it counts, and what its checkpoint says; read apart from Spark."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]

from pipeline.filelist import SPARK_LOG, listed, live


def counted(output: Path) -> list[dict[str, Any]]:
    """The rows of the files that Spark's list names: lane, offset and value."""
    folder = output / SPARK_LOG
    names = live(path.name for path in folder.iterdir()) if folder.exists() else []
    files = [each.below for name in names for each in listed((folder / name).read_text())]
    rows: list[dict[str, Any]] = []
    for file in files:
        # a file by itself: the folders' names are no columns
        with (output / file).open("rb") as opened:
            rows += pq.read_table(opened, columns=["partition", "offset", "value"]).to_pylist()
    return rows


def finished(output: Path) -> dict[int, int]:
    """Where the newest finished batch ends, by lane."""
    checkpoint = output / "_magnetar" / "checkpoint"
    numbers = batches(checkpoint / "commits")
    if not numbers:
        return {}
    last = (checkpoint / "offsets" / str(max(numbers))).read_text().splitlines()[-1]
    (ends,) = json.loads(last).values()
    return {int(lane): offset for lane, offset in ends.items()}


def batches(folder: Path) -> list[int]:
    """The batches that a folder of the checkpoint has a file of."""
    return [int(path.name) for path in folder.glob("*") if path.name.isdigit()]


def wrong(rows: list[dict[str, Any]], acknowledged: dict[int, int]) -> str | None:
    """What is wrong with an output when lanes are acknowledged up to there, or None."""
    places = Counter((row["partition"], row["offset"]) for row in rows)
    twice = [place for place, times in places.items() if times > 1]
    if twice:
        return f"delivery {min(twice)} is in the output {places[min(twice)]} times"
    values = Counter(row["value"] for row in rows)
    if again := [value for value, times in values.items() if times > 1]:
        return f"message {min(again)!r} was delivered and written twice"
    for lane, offset in acknowledged.items():
        missing = next((each for each in range(offset) if (lane, each) not in places), None)
        if missing is not None:
            return f"lane {lane} is acknowledged up to {offset}, and {missing} is not in the output"
    return None
