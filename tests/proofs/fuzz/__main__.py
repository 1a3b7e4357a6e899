"""`python -m tests.proofs.fuzz`: millions of wrong frames against the codec, then against live gateways.

    python -m tests.proofs.fuzz                   all, some fifteen minutes (make fuzz)
    python -m tests.proofs.fuzz codec             the codec alone, in this process and its children
    python -m tests.proofs.fuzz live              a gateway on RocksDB, attackers, and a client that must not notice
    python -m tests.proofs.fuzz gate              one that asks who its clients are, over TLS and without, and intruders
    python -m tests.proofs.fuzz times             whether the time of a refusal tells who is a user
    python -m tests.proofs.fuzz replay FILE       a frame that failed, once more
    python -m tests.proofs.fuzz capture           make corpus.bin anew from the client programs of compat/clients

The same --seed makes the same frames for the codec; what a live gateway sees also depends on who is quicker. A frame
that fails is saved in build/fuzz, with the command that replays it. The exit code is 0 when nothing failed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import sys
import time
from pathlib import Path

from tqdm import tqdm

from compat.stopping import stoppable
from tests.proofs.fuzz import codec_target, corpus

FAILED = Path("build") / "fuzz"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, help="repeat a run (default: a new one each time, printed)")
    parser.add_argument("--frames", type=int, default=5_000_000, help="for the codec (default: %(default)s)")
    parser.add_argument(
        "--seconds",
        type=int,
        default=300,
        help="against a live gateway, and half of it against one that asks "
        "who its clients are (default: %(default)s)",
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 2, help="processes (default: all cores)"
    )
    parser.add_argument(
        "what",
        nargs="?",
        default="all",
        choices=("all", "codec", "live", "gate", "times", "replay", "capture"),
    )
    parser.add_argument("file", nargs="?", type=Path, help="the frame to replay")
    arguments = parser.parse_args()
    if arguments.what == "capture":
        from tests.proofs.fuzz import capture

        return capture.main()
    if arguments.what == "replay":
        if arguments.file is None:
            parser.error("replay needs the file of a frame")
        return replay(arguments.file)
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 31)
    print(
        f"seed {seed}; corpus: {len(corpus.captured())} captured frames, {len(corpus.generated(seed))} generated"
    )
    passed = True
    if arguments.what in ("all", "codec"):
        passed = run_codec(seed, arguments.frames, arguments.jobs)
    if arguments.what in ("all", "live"):
        from tests.proofs.fuzz import live

        passed = live.run(seed, arguments.seconds) and passed
    if arguments.what in ("all", "gate"):
        from tests.proofs.fuzz import gate

        passed = (
            gate.run(seed, arguments.seconds if arguments.what == "gate" else arguments.seconds // 2)
            and passed
        )
    if arguments.what in ("all", "times"):
        from tests.proofs.fuzz import times

        passed = times.run(seed) and passed
    print("nothing failed" if passed else "FAILED")
    return 0 if passed else 1


def run_codec(seed: int, frames: int, jobs: int) -> bool:
    """The codec target, with a bar and a summary."""
    began = time.monotonic()
    with tqdm(total=frames, unit="frame", unit_scale=True, desc="codec") as bar:
        figures = codec_target.run(seed, frames, jobs, bar.update)
    seconds = time.monotonic() - began
    print(f"codec: {figures.frames:,} frames in {seconds:.0f} s ({figures.frames / seconds:,.0f} a second)")
    print("  " + ", ".join(f"{word} {count:,}" for word, count in figures.outcomes.most_common()))
    print(f"  {len(figures.seen)} of {len(corpus.pairs())} served (API, version) pairs decoded at least once")
    print(f"  slowest frame: {figures.slowest_ms:.1f} ms of CPU for {figures.slowest_bytes:,} bytes")
    print(f"  memory: a process grew by at most {figures.grown >> 20} MiB")
    report(figures.failures, f"--seed {seed}")
    return not figures.failures


def report(failures: list[tuple[str, bytes]], how: str) -> None:
    """Save one frame of each kind of failure and say how to replay it."""
    told: dict[str, int] = {}
    for reason, frame in failures:
        kind = reason[:60]
        told[kind] = told.get(kind, 0) + 1
        if told[kind] > 1:
            continue
        line = f"  FAILED: {reason}"
        if frame:
            FAILED.mkdir(parents=True, exist_ok=True)
            path = FAILED / f"{hashlib.sha256(frame).hexdigest()[:12]}.frame"
            path.write_bytes(frame)
            line += f"\n    replay: python -m tests.proofs.fuzz replay {path}"
        print(f"{line}   ({how})")
    for kind, count in told.items():
        if count > 1:
            print(f"  {count} times: {kind}")


def replay(path: Path) -> int:
    """Check one frame; a traceback where it fails."""
    corpus.pairs()
    frame = path.read_bytes()
    print(f"{len(frame)} bytes, API {corpus.header_of(frame)[0]} version {corpus.header_of(frame)[1]}")
    print(codec_target.check(frame))
    return 0


if __name__ == "__main__":
    with stoppable():
        sys.exit(main())
