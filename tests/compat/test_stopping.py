"""Ctrl-C: one sentence, exit code 130, and processes that leave it to who started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compat.tools import PROJECT

PROGRAM = """
import multiprocessing, signal, sys, time
from compat.stopping import deaf, stoppable

def work(pipe):
    pipe.send(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
    time.sleep(60)

def main():
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    process = context.Process(target=work, args=(its,))
    with deaf():
        process.start()
    try:
        print(ours.recv(), flush=True)
        # Python 3.14 does not look for signals after a call with a keyword: one sleep would not end
        for _ in range(600):
            time.sleep(0.1)
    finally:
        process.kill()
        process.join()
        print(process.exitcode)

if __name__ == "__main__":
    # it is ignored where the tests themselves run in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with stoppable(at_once="at-once" in sys.argv):
        main()
"""


@pytest.mark.parametrize("how", ["in-order", "at-once"])
def test_one_sentence_and_nobody_left(tmp_path: Path, how: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, str(program), how],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n", "the worker does not hear it"
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "-9\n", "\nstopped; nothing was proven\n")
