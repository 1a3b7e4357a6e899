"""Settings altered by Pulsar's verbs: they are the ones that Kafka's tools alter."""

from __future__ import annotations

import pytest

from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin, make_broker

PATH = "/admin/v2/brokers/configuration"


def test_a_setting_is_altered_and_taken_back(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        broker = admin.broker
        before = broker.settings.value("log.retention.bytes")
        names = (await admin.ask("GET", PATH)).json
        assert "log.retention.bytes" in names
        assert "listeners" not in names
        assert (await admin.ask("GET", f"{PATH}/values")).json == {}
        assert (await admin.ask("POST", f"{PATH}/log.retention.bytes/1000")).status == 204
        assert broker.settings.value("log.retention.bytes") == 1000
        assert (await admin.ask("GET", f"{PATH}/values")).json == {"log.retention.bytes": "1000"}
        # it is durable
        again = make_broker(broker.loop)
        again.store = broker.store
        again.broker_configs.load()
        assert again.settings.value("log.retention.bytes") == 1000
        assert (await admin.ask("DELETE", f"{PATH}/log.retention.bytes")).status == 204
        assert broker.settings.value("log.retention.bytes") == before
        assert (await admin.ask("GET", f"{PATH}/values")).json == {}

    serve(test)


def test_what_was_said_last_is_in_force(serve: Serve) -> None:
    """Also where kafka-configs.sh had said something for this node alone."""

    async def test(admin: Admin) -> None:
        broker = admin.broker
        for method, value, in_force in (("POST", "/2000", 2000), ("DELETE", "", -1)):
            for node in ("", str(broker.node_id)):
                await broker.broker_configs.alter(node, lambda old: {**old, "log.retention.bytes": "1"})
            assert (await admin.ask(method, f"{PATH}/log.retention.bytes{value}")).status == 204
            assert broker.settings.value("log.retention.bytes") == in_force

    serve(test)


def test_rows_that_are_not_known_are_not_told(serve: Serve) -> None:
    """A newer gateway may have written them."""

    async def test(admin: Admin) -> None:
        admin.broker.broker_configs.cluster = {"of.a.newer.gateway": "1", "log.retention.bytes": "no number"}
        assert (await admin.ask("GET", f"{PATH}/values")).json == {}

    serve(test)


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("POST", "log.retention.bytes/many", "log.retention.bytes"),
        ("POST", "node.id/7", "read at the start"),
        ("POST", "no.such.setting/7", "no setting"),
        ("DELETE", "no.such.setting", "no setting"),
        ("DELETE", "node.id", "read at the start"),
    ],
)
def test_what_cannot_be_altered_stays(serve: Serve, method: str, path: str, words: str) -> None:
    async def test(admin: Admin) -> None:
        answer = await admin.ask(method, f"{PATH}/{path}")
        assert (answer.status, words in answer.json["reason"]) == (412, True), answer.json
        assert (await admin.ask("GET", f"{PATH}/values")).json == {}

    serve(test)


def test_it_is_in_force_at_once_for_a_topic_in_use(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"x"])
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        for value in (1000, 2000):
            assert (await admin.ask("POST", f"{PATH}/log.retention.bytes/{value}")).status == 204
            assert admin.broker.effective(topic).retention_bytes == value
        await admin.broker.topics.configure("orders", lambda old: {**old, "retention.bytes": "7"})
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        assert admin.broker.effective(topic).retention_bytes == 7

    serve(test)
