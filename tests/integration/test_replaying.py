"""Dead letters of real members, sent again by a real gateway: through SIGKILL each once, and to members who read on."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from compat.peers.magnetar import MagnetarPeer
from tests.integration.commands import run
from tests.integration.sharing import (
    ACCEPT,
    PATIENCE,
    REJECT,
    acknowledge,
    make_group,
    make_topic,
    member,
    poll,
    send,
    until,
)
from tests.integration.test_queues import Queue

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

Q = "/admin/v2/persistent/public/default/t/subscription/g/magnetar"
JOBS = "/admin/v2/magnetar/jobs"


def call(gateway: MagnetarPeer, method: str, path: str, **body: Any) -> Any:
    request = urllib.request.Request(
        gateway.admin_url + path, json.dumps(body).encode() if method == "POST" else None, method=method
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)


def die(gateway: MagnetarPeer, values: list[bytes], partitions: int) -> None:
    """All of these become dead letters: a member rejects them."""
    make_topic(gateway.bootstrap, "t", partitions)
    make_group(gateway.bootstrap, "g")
    send(gateway.bootstrap, "t", [(b"key %d" % (n % 50), value) for n, value in enumerate(values)])
    consumer = member(gateway.bootstrap, "g", "t")
    rejected = 0
    end = time.monotonic() + PATIENCE
    while rejected < len(values):
        assert time.monotonic() < end, f"{rejected} of {len(values)}"
        found = poll(consumer)
        if found:
            acknowledge(consumer, found, REJECT)
            rejected += len(found)
    consumer.close()
    until(lambda: counts(gateway)["open"] == len(values), "dead letters")


def counts(gateway: MagnetarPeer) -> dict[str, int]:
    found: dict[str, int] = call(gateway, "GET", f"{Q}/deadletters?limit=1")["counts"]
    return found


def stored(bootstrap: str, topic: str, partitions: int) -> list[Message]:
    """All records of a topic; none where it is not there."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    try:
        if topic not in consumer.list_topics(timeout=PATIENCE).topics:
            return []
        places = [TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)]
        size: int = sum(consumer.get_watermark_offsets(each, timeout=PATIENCE)[1] for each in places)
        consumer.assign(places)
        found: list[Message] = []

        def all_read() -> bool:
            found.extend(consumer.consume(1000, 0.1))
            return len(found) >= size

        until(all_read, f"{size} records")
        return found
    finally:
        consumer.close()


def test_each_of_a_thousand_letters_is_sent_once_through_sigkill(
    own_gateway: Callable[..., MagnetarPeer],
) -> None:
    """By a filter and with an edit; the others not at all. What a killed job has not sent is open, and goes next."""
    gateway = own_gateway("--set", "audit.topic=true")
    meant = [b"wanted %d" % n for n in range(1000)]
    others = [b"other %d" % n for n in range(200)]
    die(gateway, [each for n in range(200) for each in (*meant[n * 5 : n * 5 + 5], others[n])], 3)
    edited = call(gateway, "GET", f"{Q}/deadletters?text=wanted%20777&limit=1")["letters"][0]["id"]
    asked = {"filter": {"text": "wanted"}, "edits": {edited: {"value": "Zml4ZWQ="}}}
    kills = 0
    for least in (100, 300, 500, 700):
        number = call(gateway, "POST", f"{Q}/replay", rate=1000, **asked)["id"]
        until(lambda least=least: sent(gateway) >= least, f"{least} that are sent")  # type: ignore[misc]
        gateway.kill()
        gateway.start()
        done = sent(gateway)
        in_topic = stored(gateway.bootstrap, "t-g-RETRY", 3)
        assert len(in_topic) == done, "a letter is settled if it was sent, and only then"
        assert done < 1000, "it was killed amid the replay"
        job = call(gateway, "GET", f"{JOBS}/{number}")
        assert job["state"] == "interrupted"
        # that it began was stored with it; how it ended is told after the start
        until(
            lambda number=number: told(gateway, number) == ["edit done", "replay ended interrupted"],  # type: ignore[misc]
            "what the audit tells of it",
        )
        kills += 1
    last = call(gateway, "POST", f"{Q}/replay", rate=100_000, wait=30, **asked)
    assert last["state"] == "done"
    assert told(gateway, last["id"]) == ["edit done", "replay ended done"]
    assert sum(each["done"] for each in call(gateway, "GET", JOBS)["jobs"]) == 1000
    in_topic = stored(gateway.bootstrap, "t-g-RETRY", 3)
    values = Counter(each.value() for each in in_topic)
    assert values == Counter([each for each in meant if each != b"wanted 777"] + [b"fixed"])
    assert counts(gateway) == {"open": 200, "replayed": 999, "edited": 1, "discarded": 0}
    assert kills == 4


def told(gateway: MagnetarPeer, job: int) -> list[str]:
    """What the audit tells of a job, the oldest first."""
    found = call(gateway, "GET", "/admin/v2/magnetar/audit?since=1&kind=change")
    return [
        f"{each['what']} {each.get('outcome', 'done')}"
        for each in reversed(found)
        if each.get("counts", {}).get("job") == job
    ]


def sent(gateway: MagnetarPeer) -> int:
    found = counts(gateway)
    return found["replayed"] + found["edited"]


def test_members_get_again_what_somebody_replays(own_gateway: Callable[..., MagnetarPeer]) -> None:
    """By the command, to the subscription that failed and to no other; what is edited with its edit."""
    gateway = own_gateway()
    values = [b"m%d" % n for n in range(20)]
    die(gateway, values, 1)
    make_group(gateway.bootstrap, "other")
    other = member(gateway.bootstrap, "other", "t")
    had: list[bytes] = []

    def all_had() -> bool:
        found = poll(other)
        if found:
            acknowledge(other, found, ACCEPT)
        had.extend(each.value() for each in found)
        return len(had) >= 20

    until(all_had, "what the other group reads")
    consumer = member(gateway.bootstrap, "g", "t", "t-g-RETRY")
    poll(consumer)
    seen = json.loads(
        run(gateway, "--output", "json", "dead-letters", "replay", "t", "-s", "g", "--dry-run").stdout
    )
    assert (seen["letters"], seen["members"], seen["otherSubscriptions"]) == (20, 1, [])
    done = run(gateway, "dead-letters", "edit", "t", "0:3", "-s", "g", "--value", "fixed", "--yes")
    assert done.exit_code == 0, done.stderr
    done = run(gateway, "dead-letters", "replay", "t", "-s", "g", "--rate", "1000", stdin="y\n")
    assert done.exit_code == 0, done.stderr
    assert "19 letters sent" in done.stdout
    again: list[Message] = []

    def all_again() -> bool:
        found = poll(consumer)
        if found:
            acknowledge(consumer, found, ACCEPT)
        again.extend(found)
        return len(again) >= 20

    until(all_again, "what was replayed")
    assert Counter(each.value() for each in again) == Counter({*values, b"fixed"} - {b"m3"})
    assert {each.delivery_count() for each in again} == {1}
    assert poll(other) == []
    other.close()
    consumer.close()


def test_a_loop_of_letters_ends(own_gateway: Callable[..., MagnetarPeer]) -> None:
    """A member that rejects whatever it gets: after three replays they are left out, and stay open."""
    gateway = own_gateway()
    die(gateway, [b"poison"], 1)
    consumer = member(gateway.bootstrap, "g", "t", "t-g-RETRY")
    for turn in range(1, 4):
        assert call(gateway, "POST", f"{Q}/replay", filter={}, wait=10)["done"] == 1

        def rejected(open_letters: int = 1, turns: int = turn) -> bool:
            found = poll(consumer)
            if found:
                acknowledge(consumer, found, REJECT)
            now = counts(gateway)
            return (now["open"], now["replayed"]) == (open_letters, turns)

        until(rejected, "its next death")
    last = call(gateway, "POST", f"{Q}/replay", filter={}, wait=10)
    assert (last["done"], last["leftOut"]) == (0, 1)
    letter = call(gateway, "GET", f"{Q}/deadletters")["letters"][0]
    assert (letter["replays"], letter["origin"]["topic"]) == (3, "t-g-RETRY")
    consumer.close()


def test_letters_of_a_transaction_that_was_aborted_are_none(own_gateway: Callable[..., MagnetarPeer]) -> None:
    """Clients bury what they like, as Pulsar's do: in transactions, too."""
    gateway = own_gateway()
    die(gateway, [b"m0"], 1)
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "transactional.id": "x"})
    producer.init_transactions(PATIENCE)
    for value, end in ((b"ghost", producer.abort_transaction), (b"own", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce("t-g-DLQ", value)
        producer.flush(PATIENCE)
        end(PATIENCE)
    letters = call(gateway, "GET", f"{Q}/deadletters")["letters"]
    assert [each["value"] for each in letters] == ["m0", "own"]
    assert call(gateway, "POST", f"{Q}/replay", filter={}, wait=10)["done"] == 2


def test_consumers_of_lanes_get_them_as_well(own_gateway: Callable[..., MagnetarPeer]) -> None:
    """They know only offsets: the queue topic of the subscription serves its retries, too."""
    gateway = own_gateway()
    queue = Queue(gateway, "orders", "shared", 1)
    at = "/admin/v2/persistent/public/default/orders/subscription/billing/magnetar"
    make_topic(gateway.bootstrap, "orders-billing-DLQ", 2)
    send(gateway.bootstrap, "orders-billing-DLQ", [(b"k", b"%d" % n) for n in range(5)])
    with queue.consumer() as consumer:
        found: list[bytes | None] = []
        consumer.poll(1)
        until(
            lambda: call(gateway, "POST", f"{at}/replay", dryRun=True)["members"] == 1 or consumer.poll(0.1),
            "it",
        )
        assert call(gateway, "POST", f"{at}/replay", filter={}, wait=10)["done"] == 5

        def all_of_them() -> bool:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append(message.value())
            return len(found) >= 5

        until(all_of_them, "what was replayed")
    assert sorted(found, key=str) == [b"%d" % n for n in range(5)]
