"""`magnetar-admin subscriptions why` and `act` on a live gateway, with real members of share groups."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Message

from compat.peers.magnetar import MagnetarPeer
from tests.integration.commands import run
from tests.integration.sharing import (
    RELEASE,
    acknowledge,
    make_group,
    make_topic,
    member,
    poll,
    send,
    some,
    topics,
    until,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


def admin(gateway: MagnetarPeer, *words: str, output: str = "json") -> Any:
    """What `magnetar-admin subscriptions` answers."""
    done = run(gateway, "--output", output, "subscriptions", *words)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout) if output == "json" else done.stdout


def values(messages: list[Message]) -> list[bytes | None]:
    return [each.value() for each in messages]


def all_of(gateway: MagnetarPeer, topic: str, count: int) -> list[bytes | None]:
    """The first values of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "group.id": f"{topic}-{time.monotonic_ns()}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: list[bytes | None] = []

    def there() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value())
        return len(found) >= count

    until(there, "dead letters")
    consumer.close()
    return found


def test_from_the_cause_to_the_record_that_is_taken_back(gateway: MagnetarPeer) -> None:
    topic = make_topic(gateway.bootstrap, "held-up")
    group = make_group(gateway.bootstrap, "holding", pulsar__subscription__type="key_shared")
    send(gateway.bootstrap, topic, [(b"a", b"1"), (b"a", b"2"), (b"a", b"3")])
    stuck = member(gateway.bootstrap, group, topic)
    held = some(stuck)
    assert values(held) == [b"1"]
    where = (topic, "-s", group)

    (cause, *_) = admin(gateway, "why", *where)["causes"]
    assert (cause["cause"], cause["holdsUp"], cause["key"]) == ("key", 2, "a")
    told = topics(gateway, "explain", topic, "--subscription", group, "--offset", "0")
    # up to when: two clocks may be a millisecond apart from one call to the next
    assert cause["explanation"].split(", until")[0] == told["explanation"].split(", until")[0]
    assert (cause["consumer"], cause["record"]["messageId"]) == (told["consumer"], told["messageId"])
    said = admin(gateway, "why", *where, output="text")
    assert said.startswith("2 messages wait for key 'a'")
    assert (
        f"subscriptions act take-back {topic} -s {group} --messageId {cause['record']['messageId']}" in said
    )
    opened = admin(gateway, "why", *where, "--open")
    assert [each["state"] for each in opened["messages"]] == ["ACQUIRED", "BLOCKED", "BLOCKED"]

    did = admin(gateway, "act", "take-back", *where, "-m", cause["record"]["messageId"], "--yes")
    assert did["messages"] == 1
    # its late word is refused; as the owner of the key it is the next one, and then the others follow
    assert acknowledge(stuck, held) == set()
    for value in (b"1", b"2", b"3"):
        given = some(stuck)
        assert values(given) == [value]
        acknowledge(stuck, given)
    assert admin(gateway, "why", *where)["causes"] == []
    stuck.close()


def test_a_record_that_is_taken_back_is_given_to_another_member(gateway: MagnetarPeer) -> None:
    topic = make_topic(gateway.bootstrap, "taken-back")
    group = make_group(gateway.bootstrap, "taking", share__record__lock__duration__ms=60_000)
    send(gateway.bootstrap, topic, [(None, b"1")])
    stuck = member(gateway.bootstrap, group, topic)
    (held,) = some(stuck)
    other = member(gateway.bootstrap, group, topic)
    assert poll(other, 1.0) == []
    (cause,) = admin(gateway, "why", topic, "-s", group)["causes"]
    assert (cause["cause"], cause["messages"]) == ("in-hand", 1)
    did = admin(gateway, "act", "take-back", topic, "-s", group, "--consumer", cause["consumer"], "--yes")
    assert did["messages"] == 1
    again = some(other)
    assert values(again) == [b"1"]
    # a late word of the first is refused, and takes nothing from the second
    assert acknowledge(stuck, [held]) == set()
    assert acknowledge(other, again) == {(topic, 0)}
    assert admin(gateway, "why", topic, "-s", group)["causes"] == []
    for consumer in (stuck, other):
        consumer.close()


def test_what_a_filter_finds_is_settled_or_buried_and_the_rest_delivered(gateway: MagnetarPeer) -> None:
    topic = make_topic(gateway.bootstrap, "sorted-out")
    group = make_group(gateway.bootstrap, "sorting", pulsar__nack__delay__ms=600_000)
    send(gateway.bootstrap, topic, [(b"a", b"good"), (b"b", b"old"), (b"a", b"broken"), (b"a", b"late")])
    consumer = member(gateway.bootstrap, group, topic)
    given = some(consumer)
    assert len(given) == 4
    acknowledge(consumer, [given[3]], RELEASE)
    where = (topic, "-s", group)
    shown = admin(gateway, "act", "settle", *where, "--key", "b", "--dry-run")
    assert (shown["messages"], shown["byState"]) == (1, {"acquired": 1})
    assert admin(gateway, "act", "settle", *where, "--key", "b", "--yes")["messages"] == 1
    assert admin(gateway, "act", "dead-letter", *where, "--text", "broken", "--yes")["messages"] == 1
    assert all_of(gateway, f"{topic}-{group}-DLQ", 1) == [b"broken"]
    # of these it may say nothing any more
    assert acknowledge(consumer, given[1:3]) == set()
    assert acknowledge(consumer, given[:1]) == {(topic, 0)}
    due = admin(gateway, "act", "deliver-now", *where, "--state", "backoff", "--yes")
    assert due["messages"] == 1
    late = some(consumer)
    assert values(late) == [b"late"]
    acknowledge(consumer, late)
    # through a restart: what was settled stays so
    consumer.close()
    gateway.restart()
    assert topics(gateway, "stats", topic)["subscriptions"][group]["msgBacklog"] == 0


def test_what_was_answered_holds_through_a_kill(gateway: MagnetarPeer) -> None:
    topic = make_topic(gateway.bootstrap, "killed")
    group = make_group(gateway.bootstrap, "killing", pulsar__nack__delay__ms=600_000)
    send(gateway.bootstrap, topic, [(b"a", b"%d" % number) for number in range(1_000)])
    consumer = member(gateway.bootstrap, group, topic)
    given = some(consumer)
    acknowledge(consumer, given, RELEASE)
    consumer.close()
    where = (topic, "-s", group)
    # many of them no consumer has come to
    assert admin(gateway, "act", "settle", *where, "--text", "7", "--yes")["messages"] == 271
    assert admin(gateway, "act", "dead-letter", *where, "--text", "42", "--yes")["messages"] == 18
    assert len(all_of(gateway, f"{topic}-{group}-DLQ", 18)) == 18
    waiting = admin(gateway, "act", "deliver-now", *where, "--all", "--yes")["messages"]
    assert waiting > 0
    gateway.kill()
    gateway.start()
    found = admin(gateway, "why", *where, "--open", "-n", "1000")
    assert found["of"] == 1_000 - 271 - 18
    left = {str(each["offset"]) for each in found["messages"]}
    assert len(left) == found["of"]
    assert not [each for each in left if "7" in each or "42" in each]
    assert {each["state"] for each in found["messages"]} <= {"AVAILABLE", "UNREAD"}
    assert len(all_of(gateway, f"{topic}-{group}-DLQ", 18)) == 18, "none twice"


def test_what_the_audit_tells_of_an_act_is_what_was_done_through_a_kill(
    own_gateway: Callable[..., MagnetarPeer],
) -> None:
    """Each slice of an act and its record are one commit."""
    gateway = own_gateway("--set", "audit.topic=true")
    topic = make_topic(gateway.bootstrap, "many")
    group = make_group(gateway.bootstrap, "few")
    consumer = member(gateway.bootstrap, group, topic)
    poll(consumer)
    consumer.close()
    act = f"/admin/v2/persistent/public/default/{topic}/subscription/{group}/magnetar/act"

    def told() -> int:
        found = call(gateway, "/admin/v2/magnetar/audit?since=1&kind=change&limit=3000")
        return sum(each["counts"]["messages"] for each in found if each["what"] == "settle")

    def settle(plan: str) -> None:
        # it is killed
        with contextlib.suppress(OSError, http.client.HTTPException):
            call(gateway, act, do="settle", filter={}, plan=plan)

    sent = 0
    for _ in range(10):
        send(gateway.bootstrap, topic, [(None, b"%d" % number) for number in range(20_000)])
        sent += 20_000
        before = told()
        plan = call(gateway, act, do="settle", filter={}, dryRun=True)["plan"]
        thread = threading.Thread(target=settle, args=(plan,))
        thread.start()
        until(lambda before=before: told() > before, "a part of the act")  # type: ignore[misc]
        gateway.kill()
        thread.join()
        gateway.start()
        left = topics(gateway, "stats", topic)["subscriptions"][group]["msgBacklog"]
        assert told() == sent - left
        if left:
            return
    pytest.fail("it was never killed amid an act")


def call(gateway: MagnetarPeer, path: str, **body: Any) -> Any:
    data = json.dumps(body).encode() if body else None
    with urllib.request.urlopen(urllib.request.Request(gateway.admin_url + path, data), timeout=60) as answer:
        return json.load(answer)
