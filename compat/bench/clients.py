"""Loads through clients as people use them: the Java perf tools, librdkafka and Spark."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

from compat import tools
from compat.peers.kafka import classpath, java_command
from compat.tools import PROJECT

TOPIC = "bench-clients"
RECORD = 1000  # bytes


class ClientError(Exception):
    """A client failed; the text is the end of what it printed."""


def java_perf_tools(address: str, records: int) -> dict[str, float]:
    """`kafka-producer-perf-test` (default settings) and then `kafka-consumer-perf-test` over what it wrote.

    Figures in MB (10^6 bytes) a second. The consumer's is its time fetching, without joining the group.
    """
    produced = _run(
        java_command(
            "org.apache.kafka.tools.ProducerPerformance",
            [
                *("--bootstrap-server", address, "--topic", TOPIC),
                *("--num-records", str(records), "--record-size", str(RECORD), "--throughput", "-1"),
            ],
            heap="512m",
        )
    )
    consumed = _run(
        java_command(
            "org.apache.kafka.tools.ConsumerPerformance",
            [
                *("--bootstrap-server", address, "--topic", TOPIC),
                *("--num-records", str(records), "--timeout", "30000"),
            ],
            heap="512m",
        )
    )
    return {
        "produce_mb": parse_producer(produced, records) * RECORD / 1e6,
        "consume_mb": parse_consumer(consumed, records) * RECORD / 1e6,
    }


def parse_producer(output: str, records: int) -> float:
    """Records a second of the perf tool's last line, which must speak of all records."""
    lines = re.findall(r"^(\d+) records sent, ([\d.]+) records/sec", output, re.MULTILINE)
    if not lines or int(lines[-1][0]) != records:
        raise ClientError(f"the producer did not send {records} records:\n{output[-1000:]}")
    return float(lines[-1][1])


def parse_consumer(output: str, records: int) -> float:
    """Records a second while fetching: `fetch.nMsg.sec` of the perf tool's table."""
    rows = [[cell.strip() for cell in line.split(",")] for line in output.splitlines()]
    for head, row in itertools.pairwise(rows):
        if "fetch.nMsg.sec" in head and len(row) == len(head):
            values = dict(zip(head, row, strict=True))
            if int(values["data.consumed.in.nMsg"]) < records:
                break
            return float(values["fetch.nMsg.sec"])
    raise ClientError(f"the consumer did not read {records} records:\n{output[-1000:]}")


def librdkafka(address: str, records: int) -> dict[str, float]:
    """Produce and consume through confluent-kafka, in a process of its own."""
    script = Path(__file__).with_name("rdkafka_client.py")
    output = _run([sys.executable, str(script), address, TOPIC, str(records), str(RECORD)])
    result: dict[str, float] = json.loads(output)
    return result


def transactions(address: str, warmup: int, duration: int) -> dict[str, float]:
    """Transactions of one record through confluent-kafka, in a process of its own; times in seconds."""
    script = Path(__file__).with_name("rdkafka_transactions.py")
    output = _run([sys.executable, str(script), address, "bench-transactions", str(warmup), str(duration)])
    result: dict[str, float] = json.loads(output)
    return result


def java_transactions(address: str, warmup: int, duration: int) -> dict[str, float]:
    """The same with Kafka's own producer (Java). The program is compiled when it is run: that needs a JDK."""
    java = tools.ensure_javac().with_name("java")
    options = ["-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classpath()]
    source = Path(__file__).with_name("OneByOne.java")
    output = _run(
        [str(java), *options, str(source), address, "bench-transactions", str(warmup), str(duration)]
    )
    result: dict[str, float] = json.loads(output.splitlines()[-1])
    return result


def spark(address: str, rows: int, size: int, partitions: int, passes: int) -> dict[str, float]:
    """Batch reads by Spark's stock source, local[2], in a process of its own: the best of the passes."""
    what = map(str, (rows, size, partitions, passes))
    output = _run([sys.executable, "-m", "compat.bench.spark_reads", address, *what])
    result: dict[str, float] = json.loads(output.splitlines()[-1])
    return result


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=PROJECT)
    except subprocess.TimeoutExpired:
        raise ClientError(f"{command[-1]} did not end within four minutes") from None
    if done.returncode != 0:
        raise ClientError((done.stdout + done.stderr).strip()[-1500:])
    return done.stdout
