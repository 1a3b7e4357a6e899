"""What holds for all tests."""

import logging
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.examples import FACTOR, examples

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
