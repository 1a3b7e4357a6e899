"""`magnetar-admin` against a small HTTP server that records what it is asked and says what it is told to."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gateway.cli.admin import main

FULL = "persistent://public/default/"


@dataclass
class Peer:
    """Answers by (method, path without query): status, headers, body. Anything else is 204."""

    url: str = ""
    answers: dict[tuple[str, str], tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    def says(self, method: str, path: str, value: object, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.answers[method, "/admin/v2/" + path] = (status, {"Content-Type": "application/json"}, body)

    def says_text(self, path: str, text: str) -> None:
        self.answers["GET", "/admin/v2/" + path] = (
            200,
            {"Content-Type": "text/plain; charset=utf-8"},
            text.encode(),
        )

    def run(self, *arguments: str, url: str | None = None, env: dict[str, str] | None = None) -> Result:
        flags = ["--admin-url", url or self.url] if env is None else []
        return CliRunner().invoke(main, [*flags, *arguments], env={"MAGNETAR_ADMIN_URL": None, **(env or {})})


@pytest.fixture
def peer() -> Iterator[Peer]:
    known = Peer()

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            known.asked.append((self.command, self.path, body))
            path = self.path.split("?")[0]
            status, headers, answer = known.answers.get((self.command, path), (204, {}, b""))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_POST = do_DELETE = _any  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    known.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield known
    server.shutdown()
    thread.join()
    server.server_close()


P = "/admin/v2/persistent/public/default/"


@pytest.mark.parametrize(
    ("arguments", "method", "path", "body"),
    [
        ("topics create orders", "PUT", P + "orders", "{}"),
        ("topics create orders -m a=b -m c=d=e", "PUT", P + "orders", '{"a": "b", "c": "d=e"}'),
        ("topics create-partitioned-topic orders -p 4", "PUT", P + "orders/partitions", "4"),
        (
            "topics create-partitioned-topic orders --partitions 4 -m a=b",
            "PUT",
            P + "orders/partitions",
            '{"partitions": 4, "properties": {"a": "b"}}',
        ),
        (
            "topics update-partitioned-topic orders -p 8 -f",
            "POST",
            P + "orders/partitions?updateLocalTopicOnly=false&force=true",
            "8",
        ),
        ("topics delete orders", "DELETE", P + "orders?force=false", ""),
        ("topics delete -f shop/eu/orders", "DELETE", "/admin/v2/persistent/shop/eu/orders?force=true", ""),
        ("topics delete-partitioned-topic orders", "DELETE", P + "orders/partitions?force=false", ""),
        ("topics create-missed-partitions orders", "POST", P + "orders/createMissedPartitions", "null"),
        (
            "topics create non-persistent://shop/eu/a%b",
            "PUT",
            "/admin/v2/non-persistent/shop/eu/a%25b",
            "{}",
        ),
    ],
)
def test_writes_send_what_pulsar_admin_sends(
    peer: Peer, arguments: str, method: str, path: str, body: str
) -> None:
    result = peer.run(*arguments.split())
    assert (result.exit_code, result.stderr) == (0, "")
    # one sentence says what was done, by the name that was typed
    assert result.stdout.count("\n") == 1
    assert "orders" in result.stdout or "a%b" in result.stdout
    assert peer.asked == [(method, path, body)]


@pytest.mark.parametrize(
    ("arguments", "asked", "result", "sentence"),
    [
        ("create orders", ("PUT", ""), {}, "Created orders."),
        ("create-partitioned-topic orders -p 4", ("PUT", "/partitions"), {}, "Created orders with 4 partitions."),
        ("update-partitioned-topic orders -p 8", ("POST", "/partitions"), {"before": 4, "partitions": 8},
         "orders has 8 partitions now, 4 before."),
        ("update-partitioned-topic orders -p 8", ("POST", "/partitions"), {"before": 8, "partitions": 8},
         "orders has 8 partitions already."),
        ("delete orders", ("DELETE", ""), {"messages": 1234}, "Deleted orders with 1,234 messages."),
        ("delete-partitioned-topic orders", ("DELETE", "/partitions"), {"messages": 1},
         "Deleted orders with 1 message."),
        # a gateway, or a Pulsar, that does not say
        ("delete orders", ("DELETE", ""), None, "Deleted orders."),
        ("clear-backlog orders -s billing", ("POST", "/subscription/billing/skip_all"), {"messages": 2},
         "Cleared the backlog of billing on orders: acknowledged 2 messages."),
        ("skip orders -s billing -n 5", ("POST", "/subscription/billing/skip/5"), {"messages": 2},
         "Skipped messages of orders for billing: 2 messages acknowledged that nobody had read."),
        ("reset-cursor orders -s billing -m earliest", ("POST", "/subscription/billing/resetcursor"),
         {"messages": 9}, "Reset billing on orders: 9 messages to deliver."),
        ("unsubscribe orders -s billing", ("DELETE", "/subscription/billing"), {},
         "Deleted the subscription billing of orders."),
        ("create-subscription orders -s billing", ("PUT", "/subscription/billing"), {},
         "Created the subscription billing of orders, from latest."),
        ("create-subscription orders -s billing --type key_shared", ("PUT", "/subscription/billing?type=key_shared"),
         {}, "Created the key_shared subscription billing of orders, from latest."),
        ("update-subscription-properties orders -s billing -p team=blue", ("PUT", "/subscription/billing/properties"),
         {}, "The properties of billing on orders are now: team."),
    ],
)  # fmt: skip
def test_writes_say_what_they_did(
    peer: Peer, arguments: str, asked: tuple[str, str], result: dict[str, int] | None, sentence: str
) -> None:
    method, path = asked
    headers = {"X-Magnetar-Result": json.dumps(result)} if result is not None else {}
    peer.answers[method, P + "orders" + path] = (204, headers, b"")
    done = peer.run("topics", *arguments.split())
    assert (done.exit_code, done.stdout) == (0, sentence + "\n")
    told = json.loads(peer.run("topics", *arguments.split(), "--output", "json").stdout)
    assert told["topic"] == "orders"
    assert {key: told[key] for key in result or {}} == (result or {})


STATS = "?getPreciseBacklog=false&subscriptionBacklogSize=true&getEarliestTimeInBacklog=false"


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ("topics stats orders", P + "orders/stats" + STATS),
        (
            "topics stats orders -gpb -sbs -etb",
            P
            + "orders/stats?getPreciseBacklog=true&subscriptionBacklogSize=false&getEarliestTimeInBacklog=true",
        ),
        (
            "topics partitioned-stats orders --per-partition",
            P + "orders/partitioned-stats?perPartition=true&" + STATS[1:],
        ),
        ("topics stats-internal orders", P + "orders/internalStats?metadata=false"),
        ("topics partitioned-stats-internal orders", P + "orders/partitioned-internalStats"),
        ("topics get-partitioned-topic-metadata orders", P + "orders/partitions"),
        ("brokers leader-broker", "/admin/v2/brokers/leaderBroker"),
    ],
)
def test_objects_are_printed_as_java_prints_them(peer: Peer, arguments: str, path: str) -> None:
    value: dict[str, Any] = {
        "count": 1,
        "rate": 0.5,
        "none": None,
        "list": [],
        "map": {},
        "each": [{"a": "ü"}, 2],
    }
    peer.says("GET", path.split("?")[0].removeprefix("/admin/v2/"), value)
    result = peer.run(*arguments.split())
    assert result.exit_code == 0
    assert peer.asked == [("GET", path, "")]
    assert result.stdout == (
        '{\n  "count" : 1,\n  "rate" : 0.5,\n  "none" : null,\n  "list" : [ ],\n  "map" : { },\n'
        '  "each" : [ {\n    "a" : "ü"\n  }, 2 ]\n}\n'
    )


def test_lists_are_printed_by_line(peer: Peer) -> None:
    peer.says("GET", "persistent/public/default", [FULL + "a", FULL + "b"])
    peer.says("GET", "non-persistent/public/default", ["non-persistent://public/default/c"])
    result = peer.run("topics", "list")
    assert result.stdout == f"{FULL}a\n{FULL}b\nnon-persistent://public/default/c\n"
    assert [path for _, path, _ in peer.asked] == [
        "/admin/v2/persistent/public/default?includeSystemTopic=false",
        "/admin/v2/non-persistent/public/default?includeSystemTopic=false",
    ]


def _lagging(name: str, *subscriptions: tuple[str, int, int]) -> dict[str, Any]:
    now = int(time.time() * 1000)
    return {
        "topic": FULL + name, "partitions": 1, "messages": 9, "storageSize": 900,
        "subscriptions": [
            {"name": each, "type": "Shared", "msgBacklog": backlog, "msgDelayed": 0, "consumersCount": 2,
             "earliestMsgPublishTimeInBacklog": now - age if backlog else -1}
            for each, backlog, age in subscriptions
        ],
    }  # fmt: skip


def test_backlogs_are_a_line_each(peer: Peer) -> None:
    hour = 3_600_000
    topics = [_lagging("orders", ("billing", 3, 2 * hour), ("packing", 70, 90_000)), _lagging("quiet")]
    peer.says("GET", "magnetar/lag", {"topics": topics, "next": None})
    assert peer.run("topics", "list", "--lag").stdout.splitlines() == [
        "topic   subscription  type    backlog  delayed  oldest  consumers",
        "------  ------------  ------  -------  -------  ------  ---------",
        "orders  billing       Shared  3        0        2h      2",
        "orders  packing       Shared  70       0        1m      2",
        "quiet   -             -       -        -        -       -",
    ]
    for sort, first in (("backlog", "packing"), ("age", "billing")):
        lines = peer.run("topics", "list", "--lag", "--sort", sort).stdout.splitlines()
        assert lines[2].split()[1] == first
        assert lines[-1].split()[0] == "quiet"
    assert json.loads(peer.run("topics", "list", "--lag", "--output", "json").stdout) == topics
    peer.says("GET", "persistent/public/default/orders/lag", topics[0])
    assert "packing" in peer.run("topics", "subscriptions", "orders", "--lag").stdout


def test_backlogs_are_asked_for_page_by_page(peer: Peer) -> None:
    pages = [{"topics": [_lagging("a", ("g", 1, 0))], "next": "a"}, {"topics": [_lagging("b")], "next": None}]
    answers = iter(pages)

    class Paged(dict[tuple[str, str], tuple[int, dict[str, str], bytes]]):
        def get(self, key: Any, default: Any = None) -> Any:
            return 200, {"Content-Type": "application/json"}, json.dumps(next(answers)).encode()

    peer.answers = Paged()
    result = peer.run("topics", "list", "--lag", "--subscription", "g", "-ist")
    assert [line.split()[0] for line in result.stdout.splitlines()[2:]] == ["a", "b"]
    assert [path.split("?")[1] for _, path, _ in peer.asked] == [
        f"after={after}&limit=10000&includeSystemTopic=true&subscription=g" for after in ("", "a")
    ]


@pytest.mark.parametrize("sort", ["name", "backlog"])
def test_a_subscription_that_no_topic_has_is_told(peer: Peer, sort: str) -> None:
    peer.says("GET", "magnetar/lag", {"topics": [], "next": None})
    result = peer.run("topics", "list", "--lag", "--sort", sort, "-s", "nosuch")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "No topic has a subscription nosuch.\n"
    result = peer.run("topics", "list", "--lag", "--sort", sort, "-s", "nosuch", "--output", "json")
    assert (result.exit_code, result.stdout) == (0, "[]\n")
    assert peer.run("topics", "list", "--lag", "--sort", sort).stdout.startswith("topic")


def test_a_subscription_of_a_later_page_is_found(peer: Peer) -> None:
    pages = iter(
        [
            {"topics": [], "next": "a"},
            {"topics": [_lagging("orders", ("billing", 3, 90_000))], "next": None},
        ]
    )

    class Paged(dict[tuple[str, str], tuple[int, dict[str, str], bytes]]):
        def get(self, key: Any, default: Any = None) -> Any:
            return 200, {"Content-Type": "application/json"}, json.dumps(next(pages)).encode()

    peer.answers = Paged()
    result = peer.run("topics", "list", "--lag", "-s", "billing")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()[::2]] == ["topic", "orders"]


def test_what_goes_with_lag_only_is_told(peer: Peer) -> None:
    for flags in (["--sort", "age"], ["-s", "billing"], ["--lag", "shop/eu"]):
        result = peer.run("topics", "list", *flags)
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
    assert peer.asked == []


def test_one_domain_of_one_namespace(peer: Peer) -> None:
    peer.says("GET", "persistent/shop/eu", [])
    result = peer.run("topics", "list", "shop/eu", "-td", "persistent", "-ist")
    assert (result.exit_code, result.stdout) == (0, "")
    assert [path for _, path, _ in peer.asked] == ["/admin/v2/persistent/shop/eu?includeSystemTopic=true"]


def test_other_nouns(peer: Peer) -> None:
    peer.says("GET", "clusters", ["standalone", "other"])
    peer.says("GET", "brokers/configuration/runtime", {"clusterName": "standalone", "node.id": "1"})
    peer.says("GET", "brokers/standalone", ["127.0.0.1:8080"])
    peer.says("GET", "tenants", ["public"])
    peer.says("GET", "namespaces/public", ["public/default"])
    peer.says("GET", "namespaces/public/default/topics", [FULL + "a"])
    peer.says_text("brokers/health", "ok")
    peer.says_text("brokers/version", "0.1.0")
    for arguments, expected in (
        ("clusters list", "standalone\nother\n"),
        ("clusters list -c", "standalone(*)\nother\n"),
        ("brokers list standalone", "127.0.0.1:8080\n"),
        ("brokers get-runtime-config", "clusterName    standalone\nnode.id    1\n"),
        ("brokers healthcheck", "ok\n"),
        ("brokers version", "0.1.0\n"),
        ("tenants list", "public\n"),
        ("namespaces list public", "public/default\n"),
        ("namespaces topics public/default", FULL + "a\n"),
    ):
        result = peer.run(*arguments.split())
        assert (result.exit_code, result.stdout) == (0, expected)


def test_json_and_tables_wherever_the_flag_stands(peer: Peer) -> None:
    peer.says("GET", "clusters", ["standalone"])
    peer.says("GET", "persistent/public/default/x/stats", {"rate": 1, "magnetar": {"a": "b", "list": [1]}})
    assert json.loads(peer.run("--output", "json", "clusters", "list").stdout) == ["standalone"]
    assert json.loads(peer.run("clusters", "list", "--output", "json").stdout) == ["standalone"]
    assert peer.run("clusters", "list", "--output", "table").stdout == "cluster\n----------\nstandalone\n"
    assert peer.run("--output", "table", "topics", "stats", "x").stdout == (
        "name           value\n-------------  -----\nrate           1\nmagnetar.a     b\nmagnetar.list  [1]\n"
    )


def test_a_notice_of_the_gateway_stands_beside_the_stats(peer: Peer) -> None:
    peer.says(
        "GET", "persistent/public/default/x/stats", {"magnetar": {"notices": ["kept without compaction"]}}
    )
    result = peer.run("topics", "stats", "x", "--output", "json")
    assert json.loads(result.stdout)["magnetar"]["notices"]
    assert result.stderr == "Notice: kept without compaction\n"


def test_a_refusal_is_told_on_stderr_with_its_reason(peer: Peer) -> None:
    peer.says("PUT", "persistent/public/default/x", {"reason": "There is one."}, 409)
    result = peer.run("topics", "create", "x")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "HTTP 409 Conflict\n\nReason: There is one.\n"
    peer.says("PUT", "persistent/public/default/x", {"reason": "There is one."}, 499)
    assert peer.run("topics", "create", "x").stderr == "HTTP 499\n\nReason: There is one.\n"


@pytest.mark.parametrize(
    ("status", "body", "word"),
    [
        (502, b"<html>bad gateway</html>", "bad gateway"),
        (500, b"", "500"),
        (404, b'{"x":1}', "x"),
        (200, b"{", "Magnetar"),
    ],
)
def test_answers_that_no_gateway_gives_are_told_too(peer: Peer, status: int, body: bytes, word: str) -> None:
    peer.answers["GET", "/admin/v2/clusters"] = (status, {"Content-Type": "application/json"}, body)
    result = peer.run("clusters", "list")
    assert result.exit_code == 1
    assert word in result.stderr
    assert "Traceback" not in result.stderr


def test_a_redirect_is_followed_with_method_and_body(peer: Peer) -> None:
    there = peer.url + "/admin/v2/persistent/public/default/moved"
    peer.answers["PUT", P + "x"] = (307, {"Location": there}, b"")
    assert peer.run("topics", "create", "x").exit_code == 0
    assert peer.asked[-1] == ("PUT", P + "moved", "{}")


def test_redirects_in_a_circle_end(peer: Peer) -> None:
    peer.answers["GET", "/admin/v2/clusters"] = (307, {"Location": peer.url + "/admin/v2/clusters"}, b"")
    result = peer.run("clusters", "list")
    assert result.exit_code == 1
    assert "307" in result.stderr


def test_the_url_comes_from_the_environment(peer: Peer) -> None:
    peer.says("GET", "clusters", ["standalone"])
    assert peer.run("clusters", "list", env={"MAGNETAR_ADMIN_URL": peer.url}).stdout == "standalone\n"
    bare = peer.url.removeprefix("http://")
    assert peer.run("clusters", "list", env={"MAGNETAR_ADMIN_URL": bare}).stdout == "standalone\n"


def test_a_gateway_that_does_not_run_is_one_plain_sentence() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        result = Peer().run("topics", "list", url=url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert url in result.stderr
    assert "magnetar serve" in result.stderr
    assert "--admin-url" in result.stderr


def test_a_kafka_port_or_a_silent_one_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        result = CliRunner().invoke(
            main, ["--admin-url", url, "--request-timeout", "0.05", "clusters", "list"]
        )
    assert result.exit_code == 1
    assert "0.05 seconds" in result.stderr


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://",
        "ftp://x",
        "http://a:notaport",
        "http://[::1",
        "http://a:0",
        "http://a b",
        "http://ü",
        "a\nb",
    ],
)
def test_what_is_no_url_is_told(url: str) -> None:
    result = CliRunner().invoke(main, ["--admin-url", url, "clusters", "list"])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "stats", "a/b"], ["topics", "stats", ""], ["topics", "stats", "persistent://a/b"],
        ["topics", "stats", "kafka://a/b/c"], ["topics", "list", "public"], ["topics", "list", "a/b/c"],
        ["topics", "create", "x", "-m", "novalue"], ["topics", "delete", "--regex", "("],
        ["topics", "delete", "--from-file", "/nonexistent/file"],
    ],
)  # fmt: skip
def test_wrong_names_are_told_without_asking(peer: Peer, arguments: list[str]) -> None:
    result = peer.run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert peer.asked == []


def test_several_topics_are_deleted_by_file_or_pattern(peer: Peer, tmp_path: Path) -> None:
    peer.says(
        "GET", "persistent/public/default", [FULL + n for n in ("t-1", "t-2", "t-p-partition-0", "u-1")]
    )
    peer.says("GET", "persistent/public/default/partitioned", [FULL + "t-p"])
    assert peer.run("topics", "delete", "-r", "t-.*").exit_code == 0
    assert [path for method, path, _ in peer.asked if method == "DELETE"] == [
        P + "t-1?force=false", P + "t-2?force=false",
    ]  # fmt: skip
    peer.asked.clear()

    names = tmp_path / "names"
    names.write_text(f"{FULL}a\n\n b \n")
    assert peer.run("topics", "delete", "--from-file", str(names), "--force").exit_code == 0
    assert [path for _, path, _ in peer.asked] == [P + "a?force=true", P + "b?force=true"]


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))


@pytest.mark.parametrize("path", [path for path, _ in _commands(main)], ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...]) -> None:
    for flag in ("--help", "-h"):
        result = CliRunner().invoke(main, [*path, flag])
        assert result.exit_code == 0, result.output
        assert "Usage:" in result.output


def test_the_help_teaches_with_examples() -> None:
    text = CliRunner().invoke(main, ["--help"]).output
    for word in ("Examples:", "MAGNETAR_ADMIN_URL", "create-partitioned-topic", "table"):
        assert word in text


def test_nouns_and_verbs_are_those_of_pulsar_admin() -> None:
    verbs = {" ".join(path) for path, command in _commands(main) if len(path) == 2}
    assert {
        "topics list", "topics create", "topics create-partitioned-topic", "topics delete", "topics stats",
        "topics delete-partitioned-topic", "topics stats-internal", "topics partitioned-stats",
        "topics partitioned-stats-internal", "topics get-partitioned-topic-metadata",
        "topics update-partitioned-topic", "topics list-partitioned-topics", "topics create-missed-partitions",
        "brokers healthcheck", "brokers version", "brokers list", "clusters list",
    } <= verbs  # fmt: skip


def test_it_imports_nothing_that_is_slow() -> None:
    """The gateway's own packages and aiohttp would cost more than the command itself."""
    code = """
import gateway.cli.admin, sys
slow = {"aiohttp", "asyncio", "confluent_kafka", "msgspec", "store", "semantics", "rocksdict", "uvloop"}
ours = ("gateway.broker", "gateway.wire", "gateway.admin")
print([name for name in sys.modules if name.split(".")[0] in slow or name.startswith(ours)])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
