"""What others have called things does nothing to a terminal, and reads as what it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from gateway.cli.admin_records import Record, as_json, human
from tests.gateway.cli.conftest import Peer

HOSTILE = [
    "\x1b]0;title\x07\x1b[2J",
    "a\u202egnillib",
    "\u2066x\u2069",
    "zero\u200bwidth",
    "two\nlines",
    "\x9b31m",
]
SHOWN = ["\\x1b]0;title\\x07\\x1b[2J", "a\\u202egnillib", "\\u2066x\\u2069", "zero\\u200bwidth", "\\x9b31m"]
PROGRAM = [sys.executable, "-c", "from gateway.cli.admin import main; main()", "--admin-url"]


def on_a_terminal(*words: str) -> str:
    """What it shows there."""
    ours, its = os.openpty()
    with subprocess.Popen([*PROGRAM, *words], stdout=its, stderr=its, stdin=subprocess.DEVNULL) as program:
        os.close(its)
        said = b""
        while True:
            try:
                some = os.read(ours, 65536)
            except OSError:
                # the other end is closed
                break
            if not some:
                break
            said += some
        program.wait()
    os.close(ours)
    return said.decode()


def harmless(text: str) -> bool:
    return all(each.isprintable() or each in "\r\n" for each in text)


def test_a_terminal_is_shown_all_characters_and_a_pipe_is_given_them(peer: Peer) -> None:
    peer.says("GET", "persistent/public/default/orders/subscriptions", HOSTILE)
    verb = ("topics", "subscriptions", "orders")
    shown = on_a_terminal(peer.url, *verb)
    assert harmless(shown), ascii(shown)
    for each in SHOWN:
        assert each in shown
    # what begins with ESC [ does not come through a pipe: click takes it for colours
    assert peer.run(*verb).output.splitlines()[1:4] == HOSTILE[1:4]


def test_what_the_gateway_refuses_is_told_so_as_well(peer: Peer) -> None:
    peer.says("GET", "persistent/public/default/orders/subscriptions", {"reason": f"No {HOSTILE[0]}."}, 404)
    shown = on_a_terminal(peer.url, "topics", "subscriptions", "orders")
    assert harmless(shown), ascii(shown)
    assert f"Reason: No {SHOWN[0]}." in shown


def test_tables_have_one_line_for_a_row_whatever_stands_in_it(peer: Peer) -> None:
    row = {"transactionalId": "two\nlines\x1b[2J", "state": "Empty", "producerId": 1, "producerEpoch": 0}
    peer.says("GET", "magnetar/transactions", {"transactions": [row]})
    lines = peer.run("transactions", "list").output.splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("two\\nlines\\x1b[2J ")


@pytest.mark.parametrize("text", [*HOSTILE, "\x7f", "\U000e0001", "\ud800"], ids=ascii)
def test_json_says_the_same_in_characters_that_can_be_seen(text: str, peer: Peer) -> None:
    peer.says("GET", "persistent/public/default/orders/subscriptions", [text])
    said = peer.run("--output", "json", "topics", "subscriptions", "orders").output
    assert harmless(said), ascii(said)
    assert json.loads(said) == [text]


def test_records_too_with_the_names_of_their_headers() -> None:
    record = Record(HOSTILE[0].encode(), HOSTILE[1].encode(), [(HOSTILE[0], b"\x1b"), (HOSTILE[1], None)])
    for line in (human(record), as_json(record)):
        assert line.isprintable(), ascii(line)
    assert json.loads(as_json(record))["headers"][1]["key"] == HOSTILE[1]
