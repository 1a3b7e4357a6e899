"""`python -m compat.spark.roundtrip --records 1000000`: topic → Parquet → topic, compared record by record.

Produces with every compression, with tombstones, null keys, headers and none; archives and replays with
`magnetar-pipeline` as a user would (two processes); then reads source, Parquet and target apart from Spark.
Without `--bootstrap` it starts a gateway of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compat.peers.magnetar import MagnetarPeer
from compat.spark.feed import COMPRESSIONS, Feed, Record, as_record, topic_name
from compat.spark.jars import PROJECT, ensure_spark_jars, java_home

CODECS = len(COMPRESSIONS)


@dataclass
class Figures:
    """What a round trip took."""

    records: int
    tombstones: int
    produce_s: float
    archive_s: float
    replay_s: float
    compare_s: float
    parquet_mb: float
    equal: bool


class Digest:
    """A running hash over records in order: equal hashes, equal sequences."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.records = 0
        self.tombstones = 0

    def add(
        self, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
    ) -> None:
        """One more record."""
        self._hash.update(repr((key, value, [tuple(header) for header in headers])).encode())
        self.records += 1
        self.tombstones += value is None

    def hex(self) -> str:
        """The hash so far."""
        return self._hash.hexdigest()


def made_up(count: int, partitions: int, seed: int = 1) -> Iterator[Record]:
    """Records of all kinds; the same for the same arguments."""
    chance = random.Random(seed)
    filler = chance.randbytes(400)
    for number in range(count):
        kind = chance.randrange(20)
        key = None if kind == 0 else b"customer-%d" % chance.randrange(5_000)
        value: bytes | None = b'{"order": %d, "note": "%b"}' % (
            number,
            filler[: chance.randrange(80)].hex().encode(),
        )
        if kind in (1, 2):
            value = None
        elif kind == 3:
            value = b""
        elif kind == 4:
            value = filler[: chance.randrange(400)]
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if kind % 3 == 0:
            headers = (("trace", b"%016x" % number), ("retry", None))[: 1 + kind % 2]
        yield Record(key, value, headers, number % partitions)


def fill(feed: Feed, topic: str, count: int, partitions: int) -> None:
    """Produce `count` records, a fifth of them with each compression."""
    share = -(-count // CODECS)
    for number, codec in enumerate(COMPRESSIONS):
        size = max(0, min(share, count - number * share))
        feed.produce(
            topic, made_up(size, partitions, seed=number), codec, linger_ms=20, batch_num_messages=2_000
        )


def pipeline(*arguments: str, timeout: float = 1_200.0) -> None:
    """Run `magnetar-pipeline` in a process of its own; its lines go on to our standard error too."""
    command = [sys.executable, "-m", "pipeline.cli", *arguments]
    done = subprocess.run(
        command, cwd=PROJECT, env=environment(), capture_output=True, text=True, timeout=timeout, check=False
    )
    sys.stderr.write(done.stderr)
    if done.returncode:
        raise SystemExit(f"magnetar-pipeline {arguments[0]} ended with {done.returncode}")


def environment() -> dict[str, str]:
    """The environment for a `magnetar-pipeline` process: the connector's jars, Java, this project's packages."""
    jars = ensure_spark_jars()
    found = {**os.environ, "MAGNETAR_SPARK_JARS": str(jars[0].parent), "PYTHONPATH": str(PROJECT)}
    if home := java_home():
        found["JAVA_HOME"] = home
    return found


def of_topic(feed: Feed, topic: str) -> dict[int, Digest]:
    """The digest of each partition, read by librdkafka."""
    digests = {partition: Digest() for partition in range(feed.partitions(topic))}
    for message in feed.messages(topic):
        record = as_record(message)
        digests[record.partition].add(record.key, record.value, record.headers)
    return digests


def of_parquet(folder: Path, topic: str, partitions: int) -> tuple[dict[int, Digest], list[str]]:
    """The digest of each partition in offset order, read by pyarrow, and what is wrong with offsets or times."""
    import pyarrow.dataset as ds  # type: ignore[import-untyped,unused-ignore]

    files = sorted(str(path) for path in folder.glob(f"topic={topic}/date=*/*.parquet"))
    rows = ds.dataset(files, format="parquet").to_table()
    digests, problems = {partition: Digest() for partition in range(partitions)}, []
    for partition, digest in digests.items():
        mine = rows.filter(ds.field("partition") == partition).sort_by("offset")
        offsets = mine["offset"].to_pylist()
        if offsets != list(range(len(offsets))):
            problems.append(f"partition {partition}: offsets are not 0 to {len(offsets) - 1}, each once")
        if len(offsets) and (mine["timestamp"].null_count or mine["timestampType"].null_count):
            problems.append(f"partition {partition}: timestamps are missing")
        for batch in mine.select(["key", "value", "headers"]).to_batches(max_chunksize=20_000):
            for key, value, headers in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                digest.add(key, value, [(header["key"], header["value"]) for header in headers or ()])
    return digests, problems


def differences(name: str, found: Mapping[int, Digest], wanted: Mapping[int, Digest]) -> list[str]:
    """One line for each partition that is not as it should be."""
    return [
        f"{name}, partition {partition}: {found[partition].records} records, {digest.records} expected"
        + ("" if found[partition].records != digest.records else ", of which some differ or are out of order")
        for partition, digest in wanted.items()
        if found[partition].hex() != digest.hex()
    ]


def roundtrip(
    bootstrap: str, records: int, partitions: int, folder: Path, run: Callable[..., None] = pipeline
) -> tuple[Figures, list[str]]:
    """Do it all; `run` is given the command lines. What differs, if anything, is in the second value."""
    feed = Feed(bootstrap, timeout=120)
    source, target = topic_name("roundtrip"), topic_name("roundtrip-again")
    feed.create(source, partitions)
    feed.create(target, partitions)
    output = folder / "archive"

    marks = [time.monotonic()]
    fill(feed, source, records, partitions)
    marks.append(time.monotonic())
    steps = (
        ("archive", "--topic", source, "--output", str(output)),
        ("replay", "--input", str(output), "--topic", source, "--to", target, "--compression", "lz4"),
    )
    for step in steps:
        run(*step, "--bootstrap", bootstrap, "--master", "local[2]")
        marks.append(time.monotonic())

    wanted = of_topic(feed, source)
    kept, problems = of_parquet(output, source, partitions)
    problems += differences("Parquet", kept, wanted)
    problems += differences("target topic", of_topic(feed, target), wanted)
    found = sum(digest.records for digest in wanted.values())
    if found != records:
        problems.append(f"the source topic holds {found} records, {records} were produced")
    marks.append(time.monotonic())
    size = sum(path.stat().st_size for path in output.glob("topic=*/date=*/*.parquet"))
    produce, archived, replayed, compared = (
        round(after - before, 2) for before, after in itertools.pairwise(marks)
    )
    figures = Figures(
        records=records,
        tombstones=sum(digest.tombstones for digest in wanted.values()),
        produce_s=produce,
        archive_s=archived,
        replay_s=replayed,
        compare_s=compared,
        parquet_mb=round(size / 1e6, 1),
        equal=not problems,
    )
    return figures, problems


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m compat.spark.roundtrip", description=__doc__)
    parser.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="a broker that is running; else one is started"
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="magnetar-roundtrip-"))
    try:
        with contextlib.ExitStack() as stack:
            bootstrap = options.bootstrap
            if bootstrap is None:
                bootstrap = stack.enter_context(MagnetarPeer(directory=folder)).bootstrap
            figures, problems = roundtrip(bootstrap, options.records, options.partitions, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result: dict[str, Any] = asdict(figures)
    for step in ("produce", "archive", "replay"):
        result[f"{step}_per_s"] = round(figures.records / result[f"{step}_s"])
    print(json.dumps(result, indent=2))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
