"""What tenants use: counted for each, and shown for so many."""

from __future__ import annotations

from unittest import mock

from gateway import tenant_use
from gateway.server import Gateway
from gateway.tenant_use import OTHERS, TenantUses
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.broker.held import run
from tests.gateway.serving import Client, batch, create, produce_body


def test_namespaces_of_a_tenant_are_one() -> None:
    uses = TenantUses()
    assert uses.of("shop/eu") is uses.of("shop/us")
    assert uses.of("shop/eu") is not uses.of("shopping/eu")
    assert [tenant for tenant, _ in uses.shown()] == ["shop", "shopping"]


def test_beyond_so_many_there_is_a_sum() -> None:
    uses = TenantUses()
    for number in range(5):
        use = uses.of(f"t{number}/n")
        use.received, use.sent, use.requests, use.throttled_ms = number, 10 * number, 1, 7
    with mock.patch.object(tenant_use, "MOST_SHOWN", 2):
        shown = dict(uses.shown())
    assert list(shown) == ["t0", "t1", OTHERS]
    others = shown[OTHERS]
    assert (others.received, others.sent, others.requests, others.throttled_ms) == (9, 90, 3, 21)


def test_what_clients_send_ask_and_are_told_to_wait_is_in_the_metrics() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", pulsar__publish__rate__messages="1")
        await client.ask(ApiKey.METADATA, 8, messages.MetadataRequest(topics=None))
        answer = await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"1", b"2", b"3")))
        (listener,) = gateway.listeners
        text = gateway.broker.metrics.render().decode()
        assert 'magnetar_tenant_requests_total{tenant="public"} 3\n' in text
        seconds = answer.throttle_time_ms / 1000
        assert seconds > 1
        assert f'magnetar_tenant_throttled_seconds_total{{tenant="public"}} {seconds}\n' in text
        for name, counter in (("received", listener.received), ("sent", listener.sent)):
            assert f'magnetar_tenant_{name}_bytes_total{{tenant="public"}} {counter.value}\n' in text
            assert counter.value > 200
        assert 'magnetar_throttled_total{why="publish"} 1\n' in text

    run(test)


def test_a_request_that_waits_for_those_before_it_counts_once() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"1")))
        client.send(ApiKey.METADATA, 8, messages.MetadataRequest(topics=None))
        for _ in range(2):
            await client.receive()
        assert gateway.broker.tenant_uses.of("public/default").requests == 3

    run(test)
