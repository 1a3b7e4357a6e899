"""A data folder as a Magnetar wrote it that called topics of other namespaces by dotted names (format 1).

`older_folder.tar.xz` is what this made at commit a6600c07. It cannot be made again by what is here now: check that
commit out beside, copy this file there, and run `python -m tests.gateway.broker.older_folder older_folder.tar.xz`.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.broker.staged_offsets import StagedOffsets
from gateway.coordinators import consumer_rows, group_rows, offsets
from gateway.coordinators.group_rows import Kind, State
from semantics.names import Namespace
from semantics.transactions import rows as transaction_rows
from semantics.transactions.states import Producer
from semantics.transactions.states import State as TransactionState
from store.api import Durability, Family, Put
from tests.gateway.broker.queues.reading import Client
from tests.gateway.broker.subscriptions.world import REJECT, World, run

TAR = Path(__file__).with_name("older_folder.tar.xz")
EU, US = Namespace("shop", "eu"), Namespace("shop", "us")
SCOPED = "shop/eu/\x1fbilling"


def unpack(folder: Path) -> Path:
    """The data folder, in this one."""
    with tarfile.open(TAR) as packed:
        packed.extractall(folder, filter="data")
    return folder / "data"


async def _fill(world: World) -> None:
    broker = world.broker
    await broker.tenancy.create_tenant("shop", TenantRow())
    for namespace in (EU, US):
        await broker.tenancy.create(namespace, NamespaceRow())
    await world.topic("orders")
    # of public/default: there is no namespace a/b
    await world.topic("a.b.c")
    await world.topic("shop.eu.orders", 2, retention__ms="86400000")
    await world.topic("shop.eu.pay.ments")
    await world.topic("shop.us.base")
    for name in ("orders", "a.b.c", "shop.eu.orders", "shop.eu.pay.ments"):
        await world.produce(*(f"{name} {number}".encode() for number in range(4)), topic=name)
    # Shared: the first is done, the second has failed once, the third is dead, the fourth is to come later
    await world.configure(
        "shares", pulsar__dead__letter__topic="shop.eu.graves", pulsar__nack__delay__ms="3600000"
    )
    at = await world.subscribe("shares", "shop.eu.orders")
    await world.fetch(at)
    await world.ack(at, 0)
    await world.ack(at, 1, kind=b"\2")
    await world.ack(at, 2, kind=REJECT)
    for _ in range(4):
        await world.settled()
    # lanes, of which one has given a record
    base = "shop.us.base"
    await world.produce(b"one", b"two", topic=base)
    await world.configure("g", share__auto__offset__reset="earliest")
    await broker.queues.make(base, "g", 2, {"pulsar.dead.letter.topic": "shop.us.dead"})
    await world.settled()
    given: dict[int, bytes | None] = {}
    for index in (0, 1):
        client = Client(world, index, base)
        given |= await client.read()
    # rows of groups
    topic = broker.catalog.get("shop.eu.orders")
    home = broker.catalog.get("orders")
    assert topic is not None
    assert home is not None
    known = [("orders", home.topic_id, 1), ("shop.eu.orders", topic.topic_id, 2)]
    consumer = consumer_rows.ConsumerRow(
        1, Kind.CONSUMER, State.STABLE, 5, "consumer", 3, 3, "uniform", known, 1
    )
    member = consumer_rows.ConsumerMemberRow(
        1,
        "m",
        None,
        None,
        "c",
        "/h",
        1000,
        ["a/b/c", "orders", "shop.eu.orders"],
        "",
        None,
        3,
        3,
        1,
        [],
        [],
        [],
    )
    share = group_rows.ShareRow(2, Kind.SHARE, State.STABLE, 5, "share", 3, 3, [known[1]], [], 1)
    sharer = group_rows.ShareMemberRow("s", None, "c", "/h", ["shop.eu.orders", "shop/eu/a/b"], 3, 3)
    kept = offsets.encode(7, -1, 1, -1, topic.topic_id, "said")
    staged = StagedOffsets(()).stage(
        "moves", [Put(Family.OFFSET, offsets.key("g1", "shop.eu.orders", 1), kept)]
    )
    simple = group_rows.ClassicRow(1, Kind.CLASSIC, State.EMPTY, 5, None, 0, None, None, [])
    head = transaction_rows.Head(Producer(9, 0), 60_000, TransactionState.ONGOING, 1, 1, None)
    transaction = (transaction_rows.put_head("moves", head), transaction_rows.put_group("moves", "g1"))
    await world.store.write(
        [
            group_rows.put("readers", consumer),
            group_rows.put_member("readers", "m", member),
            group_rows.put(SCOPED, share),
            group_rows.put_member(SCOPED, "s", sharer),
            Put(Family.OFFSET, offsets.key("g1", "shop.eu.orders", 0), kept),
            Put(Family.OFFSET, offsets.key("g1", "shop.eu.pay.ments", 0), kept),
            Put(Family.OFFSET, offsets.key("g1", "a.b.c", 0), kept),
            group_rows.put("g1", simple),
            *(Put(Family.TXN, row.key, row.value or b"") for row in transaction),
            *staged,
        ],
        Durability.FSYNC,
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        run(_fill, Path(made) / "data")
        with tarfile.open(sys.argv[1], "w:xz") as tar:
            # its logs name the folder, and its options are made anew
            noise = ("LOG", "OPTIONS")
            tar.add(
                Path(made) / "data",
                "data",
                filter=lambda each: None if Path(each.name).name.startswith(noise) else each,
            )
