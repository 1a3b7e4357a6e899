"""aiokafka: the cases lie in records.py, groups.py and administration.py."""

from __future__ import annotations

import sys
from pathlib import Path

import aiokafka

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import administration  # noqa: F401 (registers its cases)
import common
import groups  # noqa: F401
import records  # noqa: F401

if __name__ == "__main__":
    common.main("python-aiokafka", aiokafka.__version__)
