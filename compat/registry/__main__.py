"""`python -m compat.registry`: a schema registry on a gateway, its topic compacted, both restarted in between."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from compat.peers.magnetar import MagnetarPeer
from compat.registry import karapace
from compat.registry.karapace import Karapace
from compat.stopping import stoppable
from compat.tools import MissingToolError

SUBJECTS, VERSIONS, CHANGES = 20, 5, 30


def schema(subject: int, version: int) -> dict[str, str]:
    """A schema that the one of the version before can be read with."""
    fields = [{"name": f"f{number}", "type": "long", "default": 0} for number in range(version + 1)]
    return {"schema": json.dumps({"type": "record", "name": f"S{subject}", "fields": fields})}


def fill(registry: Karapace) -> None:
    """Subjects with versions, and what compaction is for: keys that are written many times, and tombstones."""
    for subject in range(SUBJECTS):
        for version in range(VERSIONS):
            registry.ask("POST", f"/subjects/s{subject}-value/versions", schema(subject, version))
    for number in range(CHANGES):
        level = ("BACKWARD", "FULL")[number % 2]
        for subject in range(SUBJECTS):
            registry.ask("PUT", f"/config/s{subject}-value", {"compatibility": level})
    registry.ask("DELETE", "/subjects/s0-value")
    registry.ask("DELETE", "/subjects/s0-value?permanent=true")
    registry.ask("DELETE", "/subjects/s1-value/versions/1")


def known(registry: Karapace) -> dict[str, Any]:
    """All that it answers: of each subject its versions with their ids and schemas, and its config."""
    found: dict[str, Any] = {}
    for subject in sorted(registry.ask("GET", "/subjects")):
        versions = registry.ask("GET", f"/subjects/{subject}/versions")
        found[subject] = [registry.ask("GET", f"/subjects/{subject}/versions/{each}") for each in versions]
        found[f"{subject} config"] = registry.ask("GET", f"/config/{subject}?defaultToGlobal=true")
        for each in found[subject]:
            by_id = registry.ask("GET", f"/schemas/ids/{each['id']}")
            check(
                json.loads(by_id["schema"]) == json.loads(each["schema"]),
                f"id {each['id']} is another schema",
            )
    return found


def keys(bootstrap: str) -> Counter[bytes]:
    """How often each key is in `_schemas`."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True})
    consumer.assign([TopicPartition("_schemas", 0, 0)])
    found: Counter[bytes] = Counter()
    try:
        while (message := consumer.poll(30)) is not None and message.error() is None:
            found[message.key()] += 1
    finally:
        consumer.close()
    return found


def check(condition: object, what: str) -> None:
    if not condition:
        raise AssertionError(what)


def admin(gateway: MagnetarPeer, *words: str) -> str:
    command = [sys.executable, "-m", "gateway.cli.admin", *words, "--admin-url", gateway.admin_url]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def run(folder: Path, say: Callable[[str], None]) -> None:
    with (
        tempfile.TemporaryDirectory() as scratch,
        MagnetarPeer() as gateway,
        Karapace(folder, gateway.bootstrap, Path(scratch)) as registry,
    ):
        fill(registry)
        before = known(registry)
        check(len(before) == 2 * (SUBJECTS - 1), f"{len(before)} subjects and configs")
        registry.restart(gateway.bootstrap)
        check(known(registry) == before, "another answer after a restart")
        say(f"{SUBJECTS * VERSIONS} schemas are there after a restart of the registry")
        registry.stop()

        written = keys(gateway.bootstrap)
        admin(gateway, "topics", "compact", "_schemas")
        admin(gateway, "topics", "compaction-status", "_schemas", "--wait-complete")
        left = keys(gateway.bootstrap)
        check(set(left) == set(written), "a key is gone as a whole")
        check(max(left.values()) == 1, f"a key is there {max(left.values())} times after compaction")
        say(f"_schemas was compacted from {written.total()} records to {left.total()}")

        registry.start()
        check(known(registry) == before, "another answer after compaction")
        gateway.stop()
        gateway.start()
        registry.restart(gateway.bootstrap)
        check(known(registry) == before, "another answer after a restart of the gateway")
        say(
            "schemas, ids and configs are the same on the compacted topic, and after a restart of the gateway"
        )

        taken = {each["id"] for subject in range(1, SUBJECTS) for each in before[f"s{subject}-value"]}
        python = folder / "venv" / "bin" / "python"
        program = Path(__file__).with_name("roundtrip.py")
        done = subprocess.run(
            [python, "-W", "ignore", program, gateway.bootstrap, registry.url, "orders"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        check(int(done.stdout) not in taken, f"id {done.stdout.strip()} is given twice")
        say("a record in the registry's format comes back by the id of its schema")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m compat.registry",
        description="Karapace against a gateway: schemas are registered, _schemas is compacted, both are restarted.",
    )
    parser.add_argument(
        "--git", default=karapace.GIT, help="a repository with Karapace's source (default: its own)"
    )
    options = parser.parse_args()
    began = time.monotonic()
    try:
        folder = karapace.ensure(options.git)
    except MissingToolError as error:
        print(error, file=sys.stderr)
        return 1
    run(folder, print)
    print(f"all as it should be, in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    with stoppable():
        sys.exit(main())
