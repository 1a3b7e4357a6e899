"""A drain is killed in every way there is: what is acknowledged is in its output, and nothing is there twice.

`make drain`. A gateway with a queue topic; each round publishes some messages and lets `magnetar-pipeline drain` at
them, which is killed with SIGKILL, its Java process too: before it acknowledges what a finished batch has read, right
after, in the middle of a batch, at any moment; the gateway itself in the middle of a batch; and lanes are added. After
each round the output is read apart from Spark and held against what the group has acknowledged. At the end one drain
runs to its end, and every message is there once. Ends with 1 where something else is found.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from compat.peers.magnetar import MagnetarPeer
from compat.spark.feed import Feed, Record
from compat.spark.jars import PROJECT
from compat.spark.roundtrip import environment
from compat.stopping import stoppable
from tests.proofs.drain.output import batches, counted, finished, wrong

LANES = 4
ROUND = 4_000
"""Messages that are published in a round."""
BATCH = 1_200
KINDS = ("before", "in a batch", "after", "at any moment", "before", "more lanes", "gateway")


class WrongError(Exception):
    """What was promised is not so."""


class Proof:
    """One queue topic, one output, many drains."""

    def __init__(self, gateway: MagnetarPeer, folder: Path, kind: str, dice: random.Random) -> None:
        self.gateway = gateway
        self.folder = folder
        self.output = folder / "out"
        self.checkpoint = self.output / "_magnetar" / "checkpoint"
        self.dice = dice
        self.feed = Feed(gateway.bootstrap)
        self.base = self.feed.create(f"orders-{kind.replace('_', '')}", 3)
        self.name = f"{self.base}-billing-QUEUE"
        self.lanes = LANES
        self.published = 0
        self.gaps = 0
        """rounds after which a finished batch was not acknowledged"""
        self.open_batches = 0
        """rounds after which a batch was begun and not finished"""
        path = (
            f"/admin/v2/persistent/public/default/{self.base}/subscription/billing?type={kind}&lanes={LANES}"
        )
        request = urllib.request.Request(
            gateway.admin_url + path,
            data=json.dumps({"properties": {}}).encode(),
            method="PUT",
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request).close()

    def publish(self) -> None:
        numbers = range(self.published, self.published + ROUND)
        self.feed.produce(self.base, [Record(b"k%d" % (n % 97), b"%d" % n, (), n % 3) for n in numbers])
        self.published += ROUND

    def begin(self, *module: str, endless: bool = True) -> subprocess.Popen[str]:
        arguments = [
            *("drain", "--bootstrap", self.gateway.bootstrap, "--topic", self.name),
            *("--output", str(self.output), "--max-offsets", str(BATCH), "--master", "local[2]"),
            *("--spark-conf", "spark.sql.streaming.minBatchesToRetain=5"),
            *(("--continuous", "--interval", "0 seconds") if endless else ()),
        ]
        scratch = self.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        return subprocess.Popen(
            [sys.executable, "-m", *module, *arguments],
            cwd=PROJECT,
            env={**environment(), "TMPDIR": str(scratch)},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def round(self, kind: str) -> str:
        """One kill, and what there is to say of it."""
        self.publish()
        number = self.dice.randint(1, 4)
        if kind in ("before", "after"):
            drain = self.begin("tests.proofs.drain.victim", kind, str(number))
            said = f"{kind} acknowledgement {number}"
            self._gone(drain, signal.SIGKILL)
            return said
        drain = self.begin("pipeline.cli")
        try:
            # a batch of the round before may be begun and not finished
            enough = self._begun() + self.dice.randint(0, 1)
            self._until(drain, lambda: self._in_a_batch() and self._finished() >= enough)
            if kind == "at any moment":
                time.sleep(self.dice.random() * 2)
            elif kind == "more lanes":
                self.lanes += 2
                self.feed.add_partitions(self.name, self.lanes)
                self.publish()
                self._until(drain, lambda: not self._behind() and len(finished(self.output)) == self.lanes)
            elif kind == "gateway":
                self.gateway.kill()
                time.sleep(self.dice.random())
                self.gateway.start()
                # it goes on, or says what has happened and ends with 1
                self._until(drain, lambda: not self._behind(), may_end=True)
                kind += ", ended" if drain.poll() is not None else ", went on"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(drain.pid, signal.SIGKILL)
            drain.communicate(timeout=60)
        return kind

    def _begun(self) -> int:
        return max(batches(self.checkpoint / "offsets"), default=-1)

    def _finished(self) -> int:
        return max(batches(self.checkpoint / "commits"), default=-1)

    def _in_a_batch(self) -> bool:
        return self._begun() > self._finished()

    def _behind(self) -> bool:
        return sum(finished(self.output).values()) < self.published

    def _until(
        self, drain: subprocess.Popen[str], condition: Callable[[], bool], *, may_end: bool = False
    ) -> None:
        ends = time.monotonic() + 120
        while not condition():
            if drain.poll() is not None:
                if may_end and drain.returncode == 1:
                    return
                raise WrongError(f"a drain ended by itself: {drain.communicate()[1]}")
            if time.monotonic() > ends:
                raise WrongError("a drain came to nothing within 120 s")
            time.sleep(0.002)

    def _gone(self, drain: subprocess.Popen[str], number: signal.Signals) -> None:
        try:
            said = drain.communicate(timeout=120)[1]
        except subprocess.TimeoutExpired:
            os.killpg(drain.pid, signal.SIGKILL)
            raise WrongError("a drain that was to die went on for 120 s") from None
        if drain.returncode != -number:
            raise WrongError(f"a drain that was to die ended with {drain.returncode}: {said}")

    def acknowledged(self) -> dict[int, int]:
        places = [TopicPartition(self.name, lane) for lane in range(self.lanes)]
        asked = ConsumerGroupTopicPartitions("billing", places)
        # a client of its own: librdkafka's admin client may stay without its coordinator once that was killed
        feed = Feed(self.gateway.bootstrap)
        future = feed.admin.list_consumer_group_offsets([asked])["billing"]
        return {place.partition: place.offset for place in future.result(30).topic_partitions}

    def compare(self) -> str:
        """Hold the output against what is acknowledged. Raises WrongError."""
        acknowledged, rows, read = self.acknowledged(), counted(self.output), finished(self.output)
        if (found := wrong(rows, acknowledged)) is not None:
            raise WrongError(found)
        late = sum(max(end - acknowledged[lane], 0) for lane, end in read.items())
        self.gaps += late > 0
        self.open_batches += self._in_a_batch()
        return f"{len(rows):7,} written, {sum(acknowledged.values()):7,} acknowledged, {late:5,} finished and not yet"

    def end(self) -> None:
        """One drain that is let be. Raises WrongError."""
        drain = self.begin("pipeline.cli", endless=False)
        said = drain.communicate(timeout=300)[1]
        if drain.returncode:
            raise WrongError(f"the last drain ended with {drain.returncode}: {said}")
        rows, acknowledged = counted(self.output), self.acknowledged()
        if (found := wrong(rows, acknowledged)) is not None:
            raise WrongError(found)
        values = {int(row["value"]) for row in rows}
        if missing := sorted(set(range(self.published)) - values):
            raise WrongError(f"{len(missing)} messages are missing, the first is {missing[0]}")
        if sum(acknowledged.values()) != self.published or len(rows) != self.published:
            raise WrongError(
                f"{self.published} were published, {len(rows)} written, {sum(acknowledged.values())} acknowledged"
            )
        if not self.gaps or not self.open_batches:
            raise WrongError(
                "no kill fell between a batch and its acknowledgement, or none into a batch: more --kills"
            )
        print(
            f"{self.published:,} messages, each once; {self.gaps} kills fell between a batch and its acknowledgement, "
            f"{self.open_batches} into a batch",
            flush=True,
        )


@stoppable(at_once=True)
def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--kills", type=int, default=14, help="of each kind of subscription [default: %(default)s]"
    )
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    print(f"--seed {seed}", flush=True)
    try:
        for kind in ("shared", "key_shared"):
            with tempfile.TemporaryDirectory(prefix="magnetar-drain-") as name:
                folder = Path(name)
                with MagnetarPeer(directory=folder / "gateway") as gateway:
                    proof = Proof(gateway, folder, kind, random.Random(seed))
                    for number, way in enumerate(itertools.islice(itertools.cycle(KINDS), options.kills), 1):
                        began = time.monotonic()
                        said = proof.round(way)
                        print(
                            f"{kind:10} {number:3} {said:24} {proof.compare()}  {time.monotonic() - began:5.1f} s",
                            flush=True,
                        )
                    proof.end()
    except WrongError as error:
        print(f"WRONG, with --seed {seed}: {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
