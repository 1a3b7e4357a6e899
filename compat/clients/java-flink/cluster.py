"""A Flink job in a process of its own, with its checkpoints in a folder that goes when the case ends."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from common import Context, check
from confluent_kafka import Consumer, IsolationLevel, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from security import librdkafka

PARTITIONS = 2


class Desk:
    """The topics, the group and the folder of a case."""

    java: str
    classes: str
    jars: str

    def __init__(self, ctx: Context, naming: str = "POOLING") -> None:
        self.ctx = ctx
        self.naming = naming
        self.folder = Path(tempfile.mkdtemp(prefix="flink-"))
        ctx.closing(lambda: shutil.rmtree(self.folder, ignore_errors=True))
        self.source, self.sink, self.group = ctx.name("in"), ctx.name("out"), ctx.name("g")
        admin = AdminClient({**librdkafka(ctx.bootstrap)})
        topics = [NewTopic(name, PARTITIONS, 1) for name in (self.source, self.sink)]
        for future in admin.create_topics(topics).values():
            future.result(timeout=ctx.left)
        self.written = 0

    def write(self, count: int) -> None:
        """So many further records to the job's source."""
        producer = Producer({**librdkafka(self.ctx.bootstrap)})
        for number in range(self.written, self.written + count):
            producer.produce(self.source, f"{number}".encode(), partition=number % PARTITIONS)
        producer.flush(self.ctx.left)
        self.written += count

    def read(self, isolation: str) -> Counter[int]:
        """What is in the job's sink now, each value with how often it is there."""
        consumer = Consumer(
            {
                **librdkafka(self.ctx.bootstrap),
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "enable.partition.eof": True,
            }
        )
        found: Counter[int] = Counter()
        left = set(range(PARTITIONS))
        try:
            consumer.assign([TopicPartition(self.sink, number, 0) for number in range(PARTITIONS)])
            for _ in self.ctx.wait(f"the end of the sink, {isolation}"):
                for message in consumer.consume(1000, 0.1):
                    if message.error() is None:
                        found[int(message.value())] += 1
                    elif message.error().code() == KafkaError._PARTITION_EOF:
                        left.discard(message.partition())
                if not left:
                    break
        finally:
            consumer.close()
        return found

    def open(self) -> bool:
        """Whether a transaction is open in the sink: then readers of what is committed do not see its end."""
        return self._ends("read_committed") != self._ends("read_uncommitted")

    def _ends(self, isolation: str) -> list[int]:
        level = IsolationLevel[isolation.upper()]
        asked = {TopicPartition(self.sink, number): OffsetSpec.latest() for number in range(PARTITIONS)}
        # a client of its own: after a restart of the server an older one asks by the epochs of before
        admin = AdminClient({**librdkafka(self.ctx.bootstrap)})
        found = admin.list_offsets(asked, isolation_level=level)
        return [found[place].result(timeout=self.ctx.left).offset for place in asked]

    def wait_until_committed(self) -> None:
        """Until all that was written has come through once, and no transaction is open that holds readers up."""
        for _ in self.ctx.wait(f"all {self.written} records to be committed"):
            found = self.read("read_committed")
            self.check_once(found)
            if len(found) == self.written and not self.open():
                return

    def check_once(self, found: Counter[int]) -> None:
        twice = [value for value, count in found.items() if count > 1]
        check(not twice, f"{len(twice)} records came twice, among them {sorted(twice)[:5]}")
        check(set(found) <= set(range(self.written)), "records that nobody wrote")

    def checkpoint(self) -> Path:
        """The newest complete checkpoint."""
        complete = [path.parent for path in self.folder.glob("checkpoints/*/chk-*/_metadata")]
        check(complete, "no checkpoint is complete")
        # that of the last job: its folder is the youngest
        return max(complete, key=lambda path: (path.parent.stat().st_ctime, int(path.name[4:])))

    def hold(self) -> None:
        """From now on nothing is committed that has been pre-committed."""
        (self.folder / "hold").touch()

    def wait_until_held(self) -> None:
        for _ in self.ctx.wait("a commit to be held"):
            if (self.folder / "held").exists():
                return

    def let_go(self) -> None:
        (self.folder / "hold").unlink()
        (self.folder / "held").unlink(missing_ok=True)


class Job:
    """The job of `Job.java`, from a checkpoint or from the beginning. `kill` ends it with its whole cluster."""

    def __init__(self, desk: Desk, parallelism: int = 2, checkpoint: Path | None = None) -> None:
        self._desk = desk
        self._log = desk.folder / f"job-{len(list(desk.folder.glob('*.log')))}.log"
        options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx384m"]
        for package in ("java.lang", "java.util"):
            options += ["--add-opens", f"java.base/{package}=ALL-UNNAMED"]
        arguments = [desk.ctx.bootstrap, desk.source, desk.sink, desk.group, str(desk.folder), desk.naming]
        arguments.append(str(parallelism))
        if checkpoint is not None:
            arguments.append(checkpoint.as_uri())
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [
                    *(desk.java, *options, f"-Djava.io.tmpdir={desk.folder}"),
                    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                    *("-cp", f"{desk.classes}:{desk.jars}/*", "Job", *arguments),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        desk.ctx.closing(self.kill)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def check(self) -> None:
        """Fail if the job has ended."""
        check(self._process.poll() is None, f"the job ended: {self.log()[-1500:]}")
