"""Queue topics: the client's example of docs/QUEUE-CLIENTS.md, as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from adapter import LIBRARY
from common import Context, case, check, same

from queue_topics.topic import QueueTopic

PAGE = Path(__file__).resolve().parents[4] / "docs" / "QUEUE-CLIENTS.md"

WORK = """
_refused = []
def work(value):
    print(value.decode(), flush=True)
    if value == b"2" and not _refused:
        _refused.append(value)
        raise ValueError("not now")
"""


@case
def queue_example(ctx: Context) -> None:
    found = re.search(rf"^## {LIBRARY.name}\n[^#]*?```python\n(.*?)```", PAGE.read_text(), re.M | re.S)
    check(found, f"{PAGE.name} has no example for {LIBRARY.name}")
    queue = QueueTopic(ctx, 1, partitions=1)
    queue.feed(range(5))
    sample = found[1].replace("127.0.0.1:9092", ctx.bootstrap).replace("orders-billing-QUEUE", queue.name)
    sample = sample.replace('"billing"', f'"{queue.group}"')
    working = subprocess.Popen([sys.executable, "-c", WORK + sample], stdout=subprocess.PIPE, text=True)
    ctx.closing(working.kill)
    assert working.stdout is not None
    lines = [working.stdout.readline().strip() for _ in range(6)]
    check("" not in lines, f"the example ended with {working.poll()}")
    same(Counter(lines), Counter({"0": 1, "1": 1, "2": 2, "3": 1, "4": 1}), "how often each was worked on")
    same(lines[-1], "2", "what came last")
    for _ in ctx.wait("all to be acknowledged"):
        if queue.committed()[0] == 6:
            break
