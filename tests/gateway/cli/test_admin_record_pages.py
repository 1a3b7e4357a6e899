"""`magnetar-admin topics records`."""

from __future__ import annotations

import json
from typing import Any

from tests.gateway.cli.conftest import Peer

PATH = "persistent/public/default/orders/magnetar/records"


def said(kind: str, decoded: Any, **more: Any) -> dict[str, Any]:
    return {"size": 1, "base64": "", "kind": kind, "decoded": decoded, **more}


def record(offset: int, value: Any, key: Any = None) -> dict[str, Any]:
    return {
        "topic": "orders", "partition": 1, "offset": offset, "timestamp": 0, "time": "1970-01-01T00:00:00.000Z",
        "key": key, "value": value, "headers": [],
    }  # fmt: skip


def test_a_record_is_a_line_that_does_nothing_to_a_terminal(peer: Peer) -> None:
    listed = [
        record(9, said("json", {"a": [1, "\u009b2J"]}, schemaId=7), said("text", "ada")),
        record(8, said("text", "x" * 200)),
        record(7, said("hex", "ff00", cut=True)),
        record(6, None),
    ]
    peer.says("GET", PATH, {"records": listed, "looked": 4, "of": 9, "next": "abc"})
    result = peer.run("topics", "records", "orders", "-n", "4", "--key", "ada")
    assert [line.split(maxsplit=4)[1:] for line in result.stdout.splitlines()[2:]] == [
        ["1", "9", "ada", '(schema 7) {"a":[1,"\\u009b2J"]}'],
        ["1", "8", "x" * 100 + "…"],
        ["1", "7", "0xff00…"],
        ["1", "6"],
    ]
    assert result.stderr == "Looked at 4 of 9 records.\nThere are more: --after abc\n"
    assert peer.asked == [("GET", f"/admin/v2/{PATH}?key=ada&limit=4", "")]


def test_where_is_said_in_the_query(peer: Peer) -> None:
    peer.says("GET", PATH, {"records": [], "looked": 0, "of": 0})
    arguments = ["--from", "7", "--newer", "--text", "a b", "--header", "h=1", "--after", "abc"]
    result = peer.run("topics", "records", "orders", *arguments)
    assert result.exit_code == 0
    (asked,) = peer.asked
    assert set(asked[1].partition("?")[2].split("&")) == {
        "from=7", "dir=newer", "text=a+b", "header=h%3D1", "after=abc", "limit=50",
    }  # fmt: skip


def test_as_json_it_is_what_the_gateway_says(peer: Peer) -> None:
    page = {"records": [record(9, None)], "looked": 1, "of": 1}
    peer.says("GET", PATH, page)
    assert json.loads(peer.run("--output", "json", "topics", "records", "orders").stdout) == page
