"""Kafka's console tools, their output checked as a person would read it: records.py, groups.py, node.py, shares.py."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import common
import groups  # noqa: F401 (registers its cases)
import node  # noqa: F401
import records  # noqa: F401
import shares  # noqa: F401
import tools

if __name__ == "__main__":
    java, jars = sys.argv.pop(1), sys.argv.pop(1)
    if "--list" not in sys.argv:
        tools.start(java, jars)
    common.main(
        "java-console-tools",
        re.findall(r"kafka-tools-([\d.]+)\.jar", " ".join(map(str, Path(jars).iterdir())))[0],
    )
