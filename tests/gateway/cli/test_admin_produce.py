"""How `topics produce` tells what became of each message."""

from __future__ import annotations

import pytest

from gateway.cli.admin_produce import InOrder


def test_lines_come_in_the_order_of_the_messages(capsys: pytest.CaptureFixture[str]) -> None:
    told = InOrder()
    told.tell(2, "two")
    told.tell(4, "four")
    assert capsys.readouterr().out == ""
    told.tell(1, "one", err=True)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("two\n", "one\n")
    told.tell(3, None)
    assert capsys.readouterr().out == "four\n"


def test_what_waits_for_a_message_of_which_nothing_is_known_is_told_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = InOrder()
    for number in (5, 3, 2):
        told.tell(number, str(number))
    told.rest()
    assert capsys.readouterr().out == "2\n3\n5\n"
