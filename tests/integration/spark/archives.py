"""What the archive's tests share: an archive as a reader sees it that knows nothing of Spark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from compat.spark.feed import Record

DAY = 86_400_000


def table(folder: Path, name: str = "archive") -> list[dict[str, Any]]:
    """The archive `name` in the folder."""
    files = sorted(str(path) for path in folder.glob(f"{name}/topic=*/date=*/*.parquet"))
    rows = ds.dataset(files, partitioning="hive", partition_base_dir=str(folder / name))
    return sorted(
        rows.to_table().to_pylist(), key=lambda row: (row["topic"], row["partition"], row["offset"])
    )


def content(records: list[Record]) -> list[tuple[Any, ...]]:
    return [(record.key, record.value, record.headers) for record in records]


def midnight() -> int:
    """The last midnight but one, UTC: within every retention."""
    return (int(time.time() * 1000) // DAY - 1) * DAY
