"""A gateway with something in it, a real browser, and what is looked at on each page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from compat.peers.magnetar import MagnetarPeer
from compat.tools import ensure_axe, ensure_chromium
from tests.integration.sharing import (
    ACCEPT,
    PATIENCE,
    REJECT,
    RELEASE,
    acknowledge,
    make_group,
    make_topic,
    member,
    send,
    some,
    until,
)

DEAD = "/ui/s/public/default/payments/booking"
HOSTILE = '<script>window.harmed=1</script>"><img src=x onerror="window.harmed=2">'
"""What would do something if it were not shown as text."""
STAYING = {"max.poll.interval.ms": 86_400_000}
"""Of members that are there as long as the house, and ask for nothing more."""
REBOUND = "rebound.example"
"""A name of somebody else's that leads to this machine."""

_RUN = """
import json, sys
from click.testing import CliRunner
from gateway.cli.admin import main
answers = [CliRunner().invoke(main, words) for words in json.loads(sys.argv[1])]
print(json.dumps([(answer.exit_code, answer.output) for answer in answers]))
"""


@dataclass
class House:
    """A gateway that is at work, and where things are on its pages."""

    gateway: MagnetarPeer
    # a message that failed
    failed: str = ""
    pages: dict[str, str] = field(default_factory=dict)

    def url(self, path: str) -> str:
        return self.gateway.admin_url + path

    def run(self, lines: list[list[str]]) -> list[tuple[int, str]]:
        """What `magnetar-admin` says to each, and how it ends: all in one process, as its start takes longest."""
        said = json.dumps([["--admin-url", self.gateway.admin_url, *words] for words in lines])
        done = subprocess.run([sys.executable, "-c", _RUN, said], capture_output=True, text=True, check=True)
        return [(code, text) for code, text in json.loads(done.stdout)]


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Share groups with members and without, a consumer group, lanes; messages of all states, and hostile ones."""
    with MagnetarPeer(directory=tmp_path_factory.mktemp("house")) as gateway:
        at = gateway.bootstrap
        make_topic(at, "orders", 3)
        make_topic(at, "hostile", 1)
        make_group(at, "billing", pulsar__nack__delay__ms=3_600_000, pulsar__subscription__type="key_shared")
        make_group(at, "shipping")
        make_group(at, HOSTILE)
        worker = member(at, "billing", "orders", **{"client.id": HOSTILE}, **STAYING)
        send(at, "orders", [(b"customer-%d" % (n % 7), b'{"order": %d, "note": "x"}' % n) for n in range(60)])
        given = some(worker)
        worker.acknowledge(given[0], ACCEPT)
        worker.acknowledge(given[1], RELEASE)
        worker.commit_sync()
        for group, topic in (("shipping", "orders"), (HOSTILE, "hostile")):
            passing = member(at, group, topic)
            if topic == "hostile":
                _hostile(at)
            some(passing)
            passing.close()
        reader = Consumer(
            {"bootstrap.servers": at, "group.id": "warehouse", "auto.offset.reset": "earliest", **STAYING}
        )
        reader.subscribe(["orders"])
        assert reader.consume(10, PATIENCE)
        reader.commit(asynchronous=False)
        gateway.admin("topics", "create-subscription", "orders", "-s", "mail", "--lanes", "2")
        job = _dead(gateway)
        writer = _transaction(at)
        found = House(gateway, f"/ui/m/public/default/orders/{given[1].partition()}/{given[1].offset()}")
        orders = "/ui/t/public/default/orders"
        billing = "/ui/s/public/default/orders/billing"
        found.pages = {
            "overview": "/ui/",
            "attention": "/ui/attention?topic=payments",
            "topics": "/ui/topics",
            "new topic": "/ui/topics/new?topic=more&partitions=3",
            "subscriptions": "/ui/subscriptions?sort=open&q=i",
            "topic": orders,
            "key shared": billing + "?key=customer-1",
            "shared": "/ui/s/public/default/orders/shipping",
            "consumer group": "/ui/s/public/default/orders/warehouse",
            "lanes": "/ui/s/public/default/orders/mail",
            "open messages": billing + "/messages",
            "due": billing + "/due?span=1h",
            "act": billing + "/act?do=settle&all=1&state=backoff",
            "message": found.failed,
            "dead message": "/ui/m/public/default/payments/0/2?way=1",
            "hostile message": "/ui/m/public/default/hostile/0/0",
            "no message": "/ui/m/public/default/orders/0/99999",
            "dead everywhere": "/ui/dead",
            "dead letters": DEAD + "/dead",
            "letters in groups": DEAD + "/dead?by=json:$.kind&text=x",
            "letter": DEAD + "/letter?id=0:0",
            "hostile letter": DEAD + "/letter?id=0:1",
            "replay": DEAD + "/replay?all=1&to=topic&reason=REJECTED",
            "replay to one": DEAD + "/replay?all=1",
            "discard": DEAD + "/discard?m.0:0=1&m.0:1=1",
            "jobs": "/ui/jobs",
            "job": f"/ui/jobs/{job}",
            "transactions": "/ui/transactions?state=any",
            "gateway": "/ui/gateway?all=true",
            "audit": "/ui/audit",
            "find": "/ui/find?q=o",
            "found": "/ui/find?q=customer-1",
            "hostile found": "/ui/find?q=harmed",
            "clear": billing + "/clear",
            "reset": billing + "/reset",
            "reset preview": billing + "/reset?time=2h",
            "delete": orders + "/delete",
            "looks": "/ui/view",
            "login": "/ui/login",
            "nowhere": "/ui/nowhere",
        }
        yield found
        writer.abort_transaction(PATIENCE)
        reader.close()
        worker.close()


def _dead(gateway: MagnetarPeer) -> int:
    """Dead letters, a hostile one among them; a job that has sent one of them. Its number."""
    at = gateway.bootstrap
    make_topic(at, "payments", 1)
    make_group(at, "booking")
    make_group(at, "others")
    values = [b'{"kind": "x", "n": 1}', HOSTILE.encode(), b'{"kind": "x", "n": 2}', b"\xff\x00"]
    send(at, "payments", [(HOSTILE.encode(), value) for value in values])
    for group, kind in (("booking", REJECT), ("others", ACCEPT)):
        worker = member(at, group, "payments")
        seen = 0
        while seen < len(values):
            found = some(worker)
            acknowledge(worker, found, kind)
            seen += len(found)
        worker.close()

    def sent() -> bool:
        job = ["--output", "json", "dead-letters", "replay", "payments", "0:2", "-s", "booking", "--yes"]
        return bool(json.loads(gateway.admin(*job)).get("done"))

    until(sent, "its dead letters")
    return 1


def _transaction(bootstrap: str) -> Producer:
    """One that is open, and whose name is hostile."""
    writer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": HOSTILE, "transaction.timeout.ms": 900_000}
    )
    writer.init_transactions(PATIENCE)
    writer.begin_transaction()
    writer.produce("others", b"not yet", b"key")
    assert writer.flush(PATIENCE) == 0
    return writer


def _hostile(bootstrap: str) -> None:
    text = HOSTILE.encode()
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("hostile", text, text, headers=[(HOSTILE, text), ("plain", b"\xff\x00<b>")])
    producer.produce("hostile", json.dumps({HOSTILE: [HOSTILE]}).encode(), b"json")
    assert producer.flush(PATIENCE) == 0


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Of one module: while Playwright is there, no other test of this process can run a loop of its own."""
    with sync_playwright() as playwright:
        # as root there is no sandbox to be had, and what is shown is our own
        browser = playwright.chromium.launch(
            executable_path=ensure_chromium(),
            args=["--no-sandbox", f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"],
        )
        yield browser
        browser.close()


@dataclass
class Watched:
    """A page, and what it did that it should not."""

    page: Page
    home: str
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", self._request)
        self.page.on("console", lambda said: self._console(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.home + "/", "data:")):
            self.complaints.append(f"another host: {request.url}")

    def _console(self, text: str) -> None:
        # that an answer was 404 is no fault of a page
        if not text.startswith("Failed to load resource: the server responded with a status of"):
            self.complaints.append(f"console: {text}")

    def to(self, path: str) -> Page:
        answer = self.page.goto(self.home + path)
        assert answer is not None
        assert answer.status in (200, 404, 412), self.page.inner_text("body")
        return self.page

    def check(self) -> None:
        """Nothing was loaded from elsewhere, no policy was violated, and no script of others ran."""
        harmed = self.page.evaluate("[window.harmed, window.violated].filter(each => each)")
        assert (harmed, self.complaints) == ([], [])

    def axe(self) -> list[str]:
        """What hinders people: each rule that is violated, and where."""
        if not self.page.evaluate("typeof axe === 'object'"):
            self.page.evaluate(Path(ensure_axe()).read_text())
        # what was not violated stays in the browser: it is far more
        found = self.page.evaluate(
            "axe.run(document, {resultTypes: ['violations']}).then(found => found.violations)"
        )
        return [
            f"{each['id']}: {each['help']}: {node['target']} {node['failureSummary']}"
            for each in found
            for node in each["nodes"][:3]
        ]


@pytest.fixture
def watch(chromium: Browser, house: House) -> Iterator[Callable[..., Watched]]:
    """`watch(color_scheme="dark")` opens a browser of its own, for the house or for the gateway at another address."""
    opened: list[BrowserContext] = []

    def open_(home: str = "", **options: Any) -> Watched:
        context = chromium.new_context(**options)
        context.set_default_timeout(30_000)
        context.add_init_script(
            "addEventListener('securitypolicyviolation', event => { window.violated = event.violatedDirective; })"
        )
        opened.append(context)
        return Watched(context.new_page(), home or house.gateway.admin_url)

    yield open_
    for context in opened:
        context.close()
