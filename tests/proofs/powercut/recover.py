"""Open the store in a folder, as a start of the gateway does, and close it: a process to be recorded.

python -m tests.proofs.powercut.recover DIR
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from gateway.broker.clipping import clip
from store import rocksdb


async def main(path: Path) -> None:
    store = await rocksdb.open(path, clip=clip)
    if store.read_only:
        sys.exit(store.read_only)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
