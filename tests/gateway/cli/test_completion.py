"""Shell completion, as the README tells people to switch it on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[3] / "README.md"
TAUGHT = dict(re.findall(r'eval "\$\((_\w+)=bash_source ([\w-]+)\)"', README.read_text()))
PROGRAMS = ["magnetar", "magnetar-admin", "magnetar-pipeline"]


def run(program: str, **variables: str) -> str:
    command = Path(sys.executable).with_name(program)
    done = subprocess.run(
        [str(command)], env={**os.environ, **variables}, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_the_readme_names_all_three() -> None:
    assert sorted(TAUGHT.values()) == PROGRAMS


@pytest.mark.parametrize("variable", TAUGHT, ids=TAUGHT.values())
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_it_prints_what_the_shell_takes_in(variable: str, shell: str) -> None:
    if shell == "bash" and not Path("/bin/bash").exists():
        pytest.fail("bash is needed: click asks it for its version")

    assert f"{variable}={shell}_complete" in run(TAUGHT[variable], **{variable: f"{shell}_source"})


@pytest.mark.parametrize(
    ("variable", "words", "found"),
    [
        ("_MAGNETAR_COMPLETE", "magnetar ser", "plain,serve"),
        ("_MAGNETAR_ADMIN_COMPLETE", "magnetar-admin topics crea", "plain,create-subscription"),
        ("_MAGNETAR_PIPELINE_COMPLETE", "magnetar-pipeline archive --boo", "plain,--bootstrap"),
    ],
)
def test_it_completes(variable: str, words: str, found: str) -> None:
    program = words.split()[0]
    answer = run(
        program,
        **{variable: "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)},
    )

    assert found in answer.splitlines()


def test_what_is_not_served_has_nothing_to_complete() -> None:
    words = {"COMP_WORDS": "magnetar-admin functions l", "COMP_CWORD": "2"}
    assert run("magnetar-admin", _MAGNETAR_ADMIN_COMPLETE="bash_complete", **words).strip() == ""
