"""What must hold of a compacted log on an image: of each key the last record below the log's end is there, whatever
passes had put in place by then, or had half written. What is there is what was sent, at its offset, and is there once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.wire import records

if TYPE_CHECKING:
    from tests.proofs.powercut.oracle import Found, Verdict
    from tests.proofs.powercut.world import Topic, World

Kept = tuple[bytes | None, bytes | None]
"""Key and value."""


def look(world: World, cut: int, topic: Topic, index: int, found: Found, verdict: Verdict) -> None:
    """One partition. Tombstones stay: `delete.retention.ms` is a day."""
    name = f"{topic.name}-{index}"
    sent: dict[int, Kept] = {}
    promised = 0
    for batch in topic.batches[index]:
        for each in records.records(batch.data):
            sent[batch.offset + each.offset_delta] = each.key, each.value
        if batch.acked < cut:
            promised = max(promised, batch.next_offset)
    if (world.synced or topic.synced) and found.end < promised:
        verdict.wrong(f"{name} ends at {found.end}, and what was acknowledged at {promised}")
    there: dict[int, Kept] = {}
    for base, _, at, size in found.batches:
        for each in records.records(found.data[at : at + size]):
            offset = base + each.offset_delta
            if offset in there:
                verdict.wrong(f"{name} has offset {offset} twice")
            there[offset] = each.key, each.value
            if sent.get(offset) != there[offset]:
                verdict.wrong(f"{name} has another record at {offset} than was sent")
    if list(there) != sorted(there):
        verdict.wrong(f"{name} is not in the order of its offsets")
    last = {key: offset for offset, (key, _) in sorted(sent.items()) if offset < found.end}
    # beside topics with fsync a log without may keep batches behind lost ones, compacted or not
    gaps = world.mixed and not topic.synced
    for key, offset in last.items():
        if offset not in there and not gaps:
            verdict.wrong(f"{name} ends at {found.end} and has lost the last of key {key!r}, at {offset}")
    gone = sum(offset < found.end for offset in sent) - len(there)
    verdict.seen["records compacted away"] += gone
