"""The tail cache: the bytes that were just written, kept for the consumers that are about to ask for them.

Each log has blocks of about 64 KB in offset order without holes; a block is the parts in which its bytes
came. One queue over all logs says which block is the oldest, and the oldest go when there are too many bytes.
Parts are handed out as they are or as slices: nothing is copied unless many tiny ones are read, which are
joined once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

from store import batch
from store.api import Buffer

BLOCK_BYTES = 64 * 1024
_OVERHEAD = 96  # what a part costs beside its bytes
_BLOCK_OVERHEAD = 600
_FORGOTTEN = 64
"""This many entries of forgotten blocks may stay in the queue."""

_STEP = batch.STEP.unpack_from


class Block:
    """Bytes of consecutive batches. `bases[i]` and `positions[i]` tell where part i begins."""

    __slots__ = ("bases", "cost", "owner", "parts", "positions", "size")

    def __init__(self, owner: Tail) -> None:
        # None once it is forgotten
        self.owner: Tail | None = owner
        self.bases: list[int] = []
        self.positions: list[int] = []
        # one item for each base, or a single joined one
        self.parts: list[bytes] = []
        self.size = 0
        self.cost = _BLOCK_OVERHEAD

    def joined(self) -> bytes:
        """The block as one piece; a copy the first time only."""
        if len(self.parts) > 1:
            self.parts = [b"".join(self.parts)]
        return self.parts[0]


class Tail:
    """The cached end of one log."""

    __slots__ = ("blocks", "cache", "firsts")

    def __init__(self, cache: TailCache) -> None:
        self.cache = cache
        self.blocks: list[Block] = []
        # first base offset of each block
        self.firsts: list[int] = []

    def add(self, base_offset: int, data: bytes) -> None:
        """Whole batches that follow what is here."""
        cache = self.cache
        size = len(data)
        blocks = self.blocks
        if blocks and (block := blocks[-1]).size + size <= BLOCK_BYTES:
            if len(block.parts) != len(block.bases):
                # was joined for a reader: the parts that follow count as one more piece of a new block
                block = self._begin(base_offset)
        else:
            block = self._begin(base_offset)
        block.bases.append(base_offset)
        block.positions.append(block.size)
        block.parts.append(data)
        block.size += size
        block.cost += size + _OVERHEAD
        cache.used += size + _OVERHEAD
        if cache.used > cache.limit:
            cache.shrink()

    def _begin(self, base_offset: int) -> Block:
        block = Block(self)
        self.blocks.append(block)
        self.firsts.append(base_offset)
        self.cache.order.append(block)
        self.cache.used += _BLOCK_OVERHEAD
        return block

    def holds(self, offset: int) -> bool:
        """Whether everything from `offset` to the log's end is here."""
        return bool(self.firsts) and self.firsts[0] <= offset

    def read(self, offset: int, max_bytes: int, whole_first: bool) -> list[Buffer]:
        """As `Log.read`. `holds(offset)` must be true and `offset` below the log's end."""
        blocks = self.blocks
        index = bisect_right(self.firsts, offset) - 1
        block = blocks[index]
        part = bisect_right(block.bases, offset) - 1
        start = block.positions[part]
        if len(block.parts) == len(block.bases):
            data = block.parts[part]
            position = 0
        else:
            data = block.parts[0]
            position = start
            start = 0
        # walk to the batch that holds the offset; parts are small, or one batch
        end = len(data)
        while True:
            base, length, delta = _STEP(data, position)
            following = position + length + 12
            if base + delta >= offset:
                break
            position = following
            if position >= end:
                # the offset lies in a gap: the next batch is in the next part
                return self.read(self._after(index, part), max_bytes, whole_first)
        size = following - position
        if size > max_bytes:
            if not whole_first:
                return []
            max_bytes = size
        found: list[Buffer] = []
        if len(block.parts) == 1 or len(block.parts) - part <= 4:
            found.append(data if position == 0 else memoryview(data)[position:])
            found += block.parts[part + 1 :] if len(block.parts) == len(block.bases) else ()
        else:
            found.append(memoryview(block.joined())[start + position :])
        left = max_bytes - (block.size - start - position)
        while left > 0:
            index += 1
            if index == len(blocks):
                return found
            block = blocks[index]
            if len(block.parts) <= 4:
                found += block.parts
            else:
                found.append(block.joined())
            left -= block.size
        # the last pieces stand beyond what was asked for
        while left < 0:
            last = found[-1]
            if len(last) + left > 0:
                found[-1] = memoryview(last)[: len(last) + left]
                break
            left += len(last)
            found.pop()
        return found

    def _after(self, index: int, part: int) -> int:
        """First offset of the part after a part."""
        block = self.blocks[index]
        if part + 1 < len(block.bases):
            return block.bases[part + 1]
        return self.firsts[index + 1]

    def drop_below(self, offset: int) -> None:
        """Forget blocks that are wholly below `offset` (the log was trimmed)."""
        while len(self.blocks) > 1 and self.firsts[1] <= offset:
            self.cache.forget(self.blocks[0])

    def clear(self) -> None:
        while self.blocks:
            self.cache.forget(self.blocks[0])


class TailCache:
    """All tails of a store, with one bound in bytes over them."""

    __slots__ = ("forgotten", "limit", "order", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        # blocks in the queue that are no tail's any more
        self.forgotten = 0
        self.order: deque[Block] = deque()

    def shrink(self) -> None:
        order = self.order
        while self.used > self.limit and order:
            block = order.popleft()
            tail = block.owner
            if tail is None:
                self.forgotten -= 1
                continue
            del tail.blocks[0], tail.firsts[0]
            self.used -= block.cost

    def forget(self, block: Block) -> None:
        """Drop the first block of a tail out of turn. Its place in the queue goes when its turn comes, or before: where
        logs are trimmed and dropped all the time, most places would be of blocks that are gone.
        """
        tail = block.owner
        assert tail is not None, "only blocks of a tail are forgotten"
        del tail.blocks[0], tail.firsts[0]
        self.used -= block.cost
        block.owner = None
        block.parts, block.bases, block.positions = [], [], []
        self.forgotten += 1
        if self.forgotten > _FORGOTTEN and self.forgotten * 2 > len(self.order):
            self.order = deque([each for each in self.order if each.owner is not None])
            self.forgotten = 0
