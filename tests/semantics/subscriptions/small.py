"""The cursor made anew with chunks of 16 offsets, counts that are wide from 3 on, and room for a few due times; three
records of Key_Shared are many. Few messages then meet every edge. What chunks say is checked as it is written.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import CodeType, ModuleType

PACKAGE = "semantics.subscriptions"
MOST = 8
"""runs of due times in memory"""
KEPT, SHARE = 2, 4
"""of a deep slot, and of what waits: see deep.py"""
CHANGES = {
    "chunks": {
        "SHIFT = 10": "SHIFT = 4",
        "count > 255": "count > 2",
        "import re\n": "import re\n\nfrom tests.semantics.subscriptions.checked import Checked\n",
        "self.state = bytearray(FILL[UNREAD])": "self.state = Checked(FILL[UNREAD])",
    },
    "deliveries": {"FILL_UP = 2_000": "FILL_UP = 3", "WINDOW = 2_048": "WINDOW = 6"},
    "deep": {
        "KEPT = 8": f"KEPT = {KEPT}",
        "SHARE = 64": f"SHARE = {SHARE}",
        "LEAST_GROWN = 1_024": "LEAST_GROWN = 1",
    },
    "strict": {
        "FEW = 64": "FEW = 2",
        "LEAST_SCANNED = 512": "LEAST_SCANNED = 8",
        "_MANY = 16_384": "_MANY = 12",
    },
    "recovery": {"FEW = 8": "FEW = 1", "LOGGED = 16_384": "LOGGED = 20", "LOGS = 128": "LOGS = 3"},
    "rows": {"BUCKET_BITS = 8": "BUCKET_BITS = 11"},
    "due": {
        "MOST = 32_768": f"MOST = {MOST}",
        "ROWS_AT_ONCE = 256": "ROWS_AT_ONCE = 2",
        "RUNS_A_ROW = 512": "RUNS_A_ROW = 3",
        "LINGERING = 4_096": "LINGERING = 2",
    },
}


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path).decode()
        for old, new in CHANGES.get(fullname.rpartition(".")[2], {}).items():
            assert source.count(old) == 1, f"{old} is not in {self.path}"
            source = source.replace(old, new)
        return compile(source, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(PACKAGE):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


def small_cursor() -> ModuleType:
    """The module `cursor` of a second, small package; the first stays what everybody else imports."""
    names = [name for name in sys.modules if name.startswith(PACKAGE)]
    before = {name: sys.modules.pop(name) for name in names}
    parent, attribute = sys.modules["semantics"], PACKAGE.rpartition(".")[2]
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module(f"{PACKAGE}.cursor")
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
            del sys.modules[name]
        sys.modules.update(before)
        setattr(parent, attribute, before[PACKAGE])
