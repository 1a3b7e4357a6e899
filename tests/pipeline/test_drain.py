"""The function that a drain calls, and what it says before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.cli_drain import drained_sentence
from pipeline.drain import Drained, Seen, hook_of, lanes_table
from pipeline.errors import PipelineError
from pipeline.group import Stand


def test_a_function_of_a_module_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs_of_this_test.py").write_text("def bill(rows, batch):\n    return (rows, batch)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [])

    assert hook_of("jobs_of_this_test:bill")(None, 3) == (None, 3)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("jobs", "expected module:function"),
        ("jobs:", "expected module:function"),
        ("no_such_module:f", "ModuleNotFoundError"),
        ("json:no_such_function", "AttributeError"),
        ("json:__name__", "is no function"),
    ],
)
def test_what_is_no_function(name: str, sentence: str) -> None:
    with pytest.raises(PipelineError, match=rf"--hook {name}.*{sentence}"):
        hook_of(name)


def test_the_dry_run_shows_lanes_members_and_who_drained_it() -> None:
    stands = [Stand(1_234, ""), Stand(0, "magnetar-pipeline drain 1b4e28ba process 7 on host-a")]

    said = lanes_table(Seen("t-s-QUEUE", "t", "s", ["worker-1 on h (lanes 0)"], stands, [2_234, 0]))

    assert said.splitlines()[:5] == [
        "t-s-QUEUE: subscription s of t",
        "lane  open from    end  ready",
        "   0      1,234  2,234  1,000",
        "   1          0      0      0",
        "members of group s: worker-1 on h (lanes 0)",
    ]
    assert "the last job that drained it: process 7 on host-a" in said
    assert "members of group s: nobody" in lanes_table(Seen("t-s-QUEUE", "t", "s", [], stands, [2_234, 0]))


def test_what_a_run_says() -> None:
    done = Drained(rows=2_000, seconds=4.0, finished=False, swept=3)

    assert drained_sentence(done, "/data") == (
        "drained and acknowledged 2,000 deliveries in 4.0 s (500 a second), to /data; 3 files of an unfinished batch "
        "were removed first; stopped: the same command goes on from here"
    )
    assert drained_sentence(Drained(0, 0.0, True, 0), "jobs:bill").endswith("(0 a second), to jobs:bill")
