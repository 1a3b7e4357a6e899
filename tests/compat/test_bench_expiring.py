"""A million messages that go at once: what is asked of whom, when they were gone, and what others saw of it."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from compat.bench import beside, expiring, pulsar, servers, share_clients
from compat.bench.beside import Beside, Sent, percentile
from compat.bench.clients import ClientError
from compat.bench.expiring import EXPIRING, Place, figures_of
from compat.bench.loads import Turn
from compat.bench.stats_watch import Seen, Watch
from compat.peers import kafka
from compat.peers.pulsar.jars import client_classpath

PLACE = Place("persistent/a/b/t", "persistent/a/b/t-partition-0", 1000.0)


# -- the producer beside it ------------------------------------------------------------------------------------------


def program(body: str) -> list[str]:
    """A producer's stand-in; `arguments` is what it was given, with the file first."""
    head = "import sys, time\narguments = sys.argv[1:]\n"
    return [sys.executable, "-c", head + textwrap.dedent(body)]


def test_it_publishes_while_the_block_lasts_and_tells_each_message() -> None:
    body = """
        print("ready", flush=True)
        sys.stdin.read()
        open(arguments[0], "w").write("1500000 250\\n2500000 1000\\n" + "3000000 %d\\n" % len(arguments))
    """
    with Beside(program(body), ("others", 1000), ("old", 20)) as others:
        assert others.finish() == [Sent(1.5, 0.25), Sent(2.5, 1.0), Sent(3.0, 0.005)]


def test_one_that_never_begins_says_why() -> None:
    with pytest.raises(ClientError, match="no such server"), Beside(program("sys.exit('no such server')")):
        pass


def test_one_whose_message_was_refused_has_no_figures() -> None:
    body = "print('ready', flush=True); sys.stdin.read(); sys.exit('a message was refused')"
    with Beside(program(body)) as others, pytest.raises(ClientError, match="a message was refused"):
        others.finish()


def test_it_is_gone_with_the_block() -> None:
    with Beside(program("print('ready', flush=True); time.sleep(600)")) as others:
        process = others._process
        assert process is not None
        assert process.poll() is None
    assert process.poll() is not None


def test_percentiles_are_of_what_was_sent_in_the_window() -> None:
    sent = [Sent(float(number), float(100 - number)) for number in range(100)]
    assert percentile(sent, 10, 20, 100) == 90
    assert percentile(sent, 10, 20, 50) == 85
    assert percentile(sent, 0, 100, 99) == 99
    with pytest.raises(ClientError, match="nothing"):
        percentile(sent, 200, 300, 50)


# -- what others saw -------------------------------------------------------------------------------------------------


def steadily(end: float, *slow: tuple[float, float]) -> list[Sent]:
    """A message each 10 ms that took 1 ms, but for those of some times."""
    times = dict(slow)
    return [Sent(number / 100, times.get(number / 100, 1.0)) for number in range(int(end * 100))]


def test_what_happens_around_the_event_is_beside_the_time_before() -> None:
    sent = steadily(20, (2.0, 7.0), (9.5, 50.0), (10.2, 30.0), (11.5, 90.0))
    found = figures_of(sent, (0, 8), (10.0, 10.3))
    assert found["before_p50"] == found["p50"] == found["before_p99"] == 1
    # of 230 messages the third worst
    assert (found["p99"], found["of_before"]) == (1, 1)
    assert found["worst"] == 50
    # one window of four had one that was slow
    assert found["before_worst"] == 1


def test_of_what_was_waited_for_only_the_end_counts() -> None:
    sent = steadily(50, (12.0, 90.0), (40.5, 30.0))
    assert figures_of(sent, (0, 8), (10.0, 40.0))["worst"] == 30


# -- when they were gone ---------------------------------------------------------------------------------------------


class Looks:
    """A caller that gives these backlogs, and then the last of them for ever."""

    def __init__(self, *backlogs: int) -> None:
        self._left = list(backlogs)
        self.closed = False

    def call(self, method: str, path: str, body: object = None) -> bytes:
        assert (method, path) == ("GET", "persistent/a/b/t/stats")
        backlog = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        if backlog < 0:
            raise ClientError("GET: 404")
        stats = {"backlogSize": backlog * 100, "subscriptions": {"late": {"msgBacklog": backlog}}}
        return json.dumps(stats).encode()

    def close(self) -> None:
        self.closed = True


def test_it_is_gone_when_an_answer_says_so() -> None:
    looks = Looks(*[5] * 20, 3, *[0] * 3)
    with Watch(lambda: looks, "persistent/a/b/t", "late") as watch:
        half = watch.until(lambda seen: seen.size <= 300, 30)
        gone = watch.until(lambda seen: seen.backlog == 0, 30)
    assert half.at <= gone.at
    assert gone.size == 0
    assert looks.closed


def test_answers_that_do_not_come_are_not_waited_for() -> None:
    with (
        Watch(lambda: Looks(5, 5, -1), "persistent/a/b/t", "late") as watch,
        pytest.raises(ClientError, match="404"),
    ):
        watch.until(lambda seen: seen.backlog == 0, 30)


def test_what_never_goes_is_said() -> None:
    with (
        Watch(lambda: Looks(5), "persistent/a/b/t", "late") as watch,
        pytest.raises(ClientError, match="backlog=5"),
    ):
        watch.until(lambda seen: seen.backlog == 0, 0.2)


# -- what is asked ---------------------------------------------------------------------------------------------------


class Server:
    """A Magnetar that is not there."""

    name, bootstrap = "Magnetar", "host:1"

    def start(self) -> None:
        pass


class Pulsar(Server):
    name, service_url = "Pulsar", "pulsar://host:1"


class Asked:
    """Keeps what it is asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.beside: list[tuple[str, int]] = []

    def call(self, method: str, path: str, body: object = None) -> bytes:
        self.calls.append((method, path, body))
        return b""

    def close(self) -> None:
        pass


class Nothing:
    """A watch and a producer that see nothing but the end."""

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def until(self, met: Callable[[Any], bool], timeout: float) -> Any:
        assert not met(Seen(1500.0, 1, expiring.QUOTA + 1))
        gone = Seen(1500.0, 0, 0)
        assert met(gone)
        return gone

    def finish(self) -> list[Sent]:
        return [Sent(float(number), 1.0) for number in range(2000)]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()

    class Clock:
        """Stands still, so that windows are where the stand-in's messages are."""

        @staticmethod
        def time() -> float:
            return 1000.0

        @staticmethod
        def sleep(seconds: float) -> None:
            pass

    def filled(*what: Any) -> dict[str, float]:
        found.calls.append(("fill", "", what))
        return {}

    def published(command: object, *shape: tuple[str, int]) -> Nothing:
        found.beside += shape
        return Nothing()

    monkeypatch.setattr(expiring, "time", Clock)
    monkeypatch.setattr(expiring, "caller_of", lambda turn: found)
    monkeypatch.setattr(expiring, "Watch", lambda *_: Nothing())
    monkeypatch.setattr(expiring, "Beside", published)
    monkeypatch.setattr(expiring, "PulsarPeer", Pulsar)
    monkeypatch.setattr(beside, "command", lambda server: [])
    monkeypatch.setattr(share_clients, "franz", filled)
    monkeypatch.setattr(pulsar, "run", filled)
    return found


def measured(name: str, server: Server) -> dict[str, float]:
    load = next(load for load in EXPIRING if load.name == name)
    measure = load.measure_of("Pulsar" if isinstance(server, Pulsar) else "Magnetar")
    assert measure is not None
    figures = measure(Turn(server, True))  # type: ignore[arg-type]
    assert {metric.figure for metric in load.metrics} <= figures.keys()
    return figures


TOPIC = "persistent/public/default/bench-old"


@pytest.mark.parametrize("server", [Server(), Pulsar()], ids=["Magnetar", "Pulsar"])
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("admin-expire", "{}/subscription/late/expireMessages/1"),
        ("admin-ttl-set", f"{TOPIC}/messageTTL?messageTTL=1"),
        ("admin-evict", f"{TOPIC}/backlogQuota?backlogQuotaType=destination_storage"),
    ],
)
def test_both_servers_are_asked_for_the_same(name: str, path: str, server: Server, asked: Asked) -> None:
    figures = measured(name, server)
    # a topic of Kafka's is one of Pulsar's with partitions
    messages = TOPIC if isinstance(server, Pulsar) else f"{TOPIC}-partition-0"
    assert asked.calls[-1][:2] == ("POST", path.format(messages))
    # they were seen to be gone 500 s later by the clock that stands still
    assert figures["gone_ms"] == 500_000
    assert asked.beside == [("bench-others", 1000), *([("bench-old", 20)] if name == "admin-evict" else [])]


def test_the_rounds_of_both_servers_are_spread_over_the_intervals_alike(asked: Asked) -> None:
    measure = expiring.by_turns((45, 65))
    servers = (Server(), Pulsar(), Server(), Pulsar(), Server())
    took = [measure(Turn(server, True))["gone_seconds"] for server in servers]  # type: ignore[arg-type]
    lives = [45, 45, 65, 65, 45]
    assert took == [500 - life for life in lives]
    said = [path for method, path, _ in asked.calls if method == "POST"]
    assert said == [f"{TOPIC}/messageTTL?messageTTL={life}" for life in lives]


def test_the_quota_is_below_what_is_stored_and_was_large_before(asked: Asked) -> None:
    measured("admin-evict", Server())
    before, last = (body for method, _, body in asked.calls if method == "POST")
    assert before["limitSize"] > 100 * expiring.MESSAGES > last["limitSize"]
    assert last["policy"] == before["policy"] == "consumer_backlog_eviction"


def test_both_have_a_shared_subscription_before_they_are_filled(asked: Asked) -> None:
    measured("admin-expire", Server())
    assert [call[:2] for call in asked.calls if call[0] in ("PUT", "fill")] == [
        ("PUT", f"{TOPIC}/partitions"),
        ("PUT", f"{TOPIC}-partition-0/subscription/late?type=shared"),
        ("fill", ""),
    ]
    asked.calls.clear()
    measured("admin-expire", Pulsar())
    (fill,) = (call[2] for call in asked.calls if call[0] == "fill")
    assert fill[1] == "fill"
    assert fill[-2:] == ("-subscription", "late")


def test_pulsar_looks_as_often_as_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "SCRATCH", tmp_path)
    found = {}
    for load in EXPIRING:
        with servers.removed(servers.make_server("Pulsar", load)) as server:
            server.prepare()
            lines = (server.directory / "standalone.conf").read_text().splitlines()
            found[load.name] = [line for line in lines if "CheckInterval" in line]
    assert found == {
        "admin-expire": [],
        "admin-ttl-set": ["messageExpiryCheckIntervalInMinutes=1"],
        "admin-ttl": ["messageExpiryCheckIntervalInMinutes=1"],
        "admin-evict": ["backlogQuotaCheckIntervalInSeconds=1"],
    }


@pytest.mark.integration
@pytest.mark.parametrize("which", [beside.KAFKA, beside.PULSAR])
def test_the_producers_compile(which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the broker's jars, three times as many, are fetched by who measures it
    monkeypatch.setattr(
        beside, "_jars", lambda of: kafka.classpath() if of == beside.KAFKA else client_classpath()
    )
    monkeypatch.setattr(beside, "CLASSES", tmp_path)
    beside.build(which)
    command: Sequence[str] = [kafka.find_java(), "-cp", f"{tmp_path / which}:{beside._jars(which)}", which]
    done = subprocess.run([*command, "127.0.0.1:1", "nothing", "t"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Beside: " in done.stderr
