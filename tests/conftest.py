"""What holds for all tests."""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.examples import FACTOR, examples
from tests.schedule import order, unit_of

TESTS = Path(__file__).resolve().parent

# No test asserts speed: Hypothesis would fail an example that took longer than 200 ms, on any busy machine.
# Without its database a run depends on the tree alone; `make explore` keeps it, to make what it found smaller.
settings.register_profile("fixed", deadline=None, database=None, max_examples=examples(100))
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=examples(100))
settings.load_profile("explore" if FACTOR > 1 else "fixed")

# A shell has its background jobs ignore Ctrl-C, and so do their children: tests of Ctrl-C start with it heard.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _log() -> Iterator[None]:
    """A command that sets the log up as its process would must not do it for the tests after it."""
    root = logging.getLogger()
    handlers, level, raising = root.handlers[:], root.level, logging.raiseExceptions
    yield
    if root.handlers != handlers:
        root.handlers[:] = handlers
    root.setLevel(level)
    logging.raiseExceptions = raising


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """In a fresh checkout each worker compiles a share of the modules, with their asserts, and keeps it for all."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or [Path(each).resolve() for each in session.config.args] != [TESTS]:
        return
    files = sorted(TESTS.rglob("test_*.py"))[int(worker["workerid"][2:]) :: worker["workercount"]]
    for file in files:
        # one that cannot be imported is told of when its tests are collected
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(TESTS.parent).with_suffix("").parts))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # where one process runs all, the order of the files is as good
    if hasattr(config, "workerinput"):
        items[:] = [items[place] for place in order([item.nodeid for item in items])]


def pytest_collection_finish() -> None:
    """Python's garbage collection passes over what was collected to be run, and runs as seldom as in a gateway."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """For `--dist loadfile`: what shares a Spark goes to one worker, and all begin in the order of `schedule.py`."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    scheduling = LoadFileScheduling(config, log)
    scheduling._split_scope = unit_of
    return scheduling
