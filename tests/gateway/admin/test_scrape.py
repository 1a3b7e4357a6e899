"""One scrape of /metrics: shared by those who ask within a second, and kept by nobody afterwards."""

from __future__ import annotations

import asyncio

import pytest

from gateway.admin import scrape
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape, "FRESH_SECONDS", 0.0)


def show(admin: Admin, which: str) -> None:
    admin.broker.settings = admin.broker.settings.with_dynamic({"metrics.topics": which})


def test_what_the_broker_counts_itself_is_asked_at_the_scrape(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        admin.broker.unsent_bytes = 12345
        assert admin.broker.fetch_sessions.create(1, True, 0) is not None
        found = (await admin.ask("GET", "/metrics")).body.decode().splitlines()
        assert "magnetar_unsent_bytes 12345" in found
        assert "magnetar_fetch_sessions 1" in found

    serve(test)


def test_a_large_text_is_kept_small_and_let_go(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape, "FRESH_SECONDS", 0.001)

    async def test(admin: Admin) -> None:
        for number in range(10):
            await admin.broker.create_topic(f"t{number}", 1000, {})
        show(admin, "all")
        answer = await admin.ask("GET", "/metrics")
        assert answer.body.count(b"\npulsar_storage_size{") == 10_000
        pieces = await admin.server._scrape.text()
        assert sum(piece.size for piece in pieces) > 2_000_000
        assert sum(len(piece.kept) for piece in pieces) < sum(piece.size for piece in pieces) / 8
        while admin.server._scrape._text is not None:
            await asyncio.sleep(0)

    serve(test)


def test_scrapes_of_the_same_second_share_one_text(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        monkeypatch.setattr(scrape, "FRESH_SECONDS", 3600.0)
        made = []
        admin.broker.metrics.collect(lambda: made.append(1))
        answers = await asyncio.gather(*[admin.ask("GET", "/metrics") for _ in range(5)])
        assert len({answer.body for answer in answers}) == 1
        assert (await admin.ask("GET", "/metrics/")).body == answers[0].body
        assert len(made) == 1

    serve(test)


def test_a_scrape_that_failed_is_not_kept(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        broken = True

        def collect() -> None:
            if broken:
                raise RuntimeError("a collector broke")

        admin.broker.metrics.collect(collect)
        assert (await admin.ask("GET", "/metrics")).status == 500
        broken = False
        assert (await admin.ask("GET", "/metrics")).status == 200

    serve(test)
