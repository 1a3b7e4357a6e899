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

COUNT = 1_400
WORK = """
_refused = set()
def work(value):
    print(value.decode(), flush=True)
    number = int(value)
    if number >= 200 and number % 4 and number not in _refused:
        _refused.add(number)
        raise ValueError("not now")
"""
"""After 200, when windows have grown, more fail once than a commit could name singly, or by 100 spans."""


@case
def queue_example(ctx: Context) -> None:
    found = re.search(rf"^## {LIBRARY.name}\n[^#]*?```python\n(.*?)```", PAGE.read_text(), re.M | re.S)
    check(found, f"{PAGE.name} has no example for {LIBRARY.name}")
    queue = QueueTopic(ctx, 1, partitions=1)
    queue.feed(range(COUNT))
    twice = Counter(str(number) for number in range(200, COUNT) if number % 4)
    sample = found[1].replace("127.0.0.1:9092", ctx.bootstrap).replace("orders-billing-QUEUE", queue.name)
    sample = sample.replace('"billing"', f'"{queue.group}"')
    working = subprocess.Popen([sys.executable, "-c", WORK + sample], stdout=subprocess.PIPE, text=True)
    ctx.closing(working.kill)
    assert working.stdout is not None
    lines = [working.stdout.readline().strip() for _ in range(COUNT + twice.total())]
    check("" not in lines, f"the example ended with {working.poll()}")
    same(Counter(lines), Counter(map(str, range(COUNT))) + twice, "how often each was worked on")
    for _ in ctx.wait("all to be acknowledged"):
        if queue.committed()[0] == COUNT + twice.total():
            break
