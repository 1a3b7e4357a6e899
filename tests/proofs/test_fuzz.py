"""The short form of `make fuzz`, and the proof that it can fail: what is planted is found."""

from __future__ import annotations

import multiprocessing
import re
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat.peers.magnetar import MagnetarPeer, PeerError
from gateway.wire import codec, compression, records
from tests.proofs.fuzz import __main__ as command
from tests.proofs.fuzz import batches, codec_target, corpus, frames, live, mutate, stuffed
from tests.proofs.fuzz.corpus import header_of

QUICK = {"bulk": 16, "right": 2, "wrong_lengths": 2, "half_frames": 20, "slow_sender": 20, "memory_filler": 2,
         "never_reads": 4, "flood": 1, "http": 2, "bombs": 1, "sweeper": 1,
         "sharing": 4, "strangers": 10}  # fmt: skip


@pytest.fixture(scope="module")
def seeds() -> Iterator[list[bytes]]:
    found = corpus.everything(1)
    before = signal.signal(signal.SIGVTALRM, codec_target._hang)
    yield found
    signal.signal(signal.SIGVTALRM, before)


def test_the_corpus_holds_frames_of_real_clients_and_of_every_api() -> None:
    captured = corpus.captured()
    assert corpus.FILE.stat().st_size <= corpus.MAX_BYTES
    assert len({header_of(frame) for frame in captured}) > 60
    assert {codec_target.check(frame) for frame in captured} <= {"decoded", "admitted", "not served"}
    assert {header_of(frame) for frame in corpus.generated()} == set(corpus.pairs())


def test_some_thousand_frames(seeds: list[bytes]) -> None:
    total = codec_target.Figures()
    for number in range(5):
        total.add(codec_target.block(20, number, seeds))
    assert total.failures == []
    assert len(total.seen) > len(corpus.pairs()) // 2, "too few frames get past the decoders"
    assert {"malformed", "decoded", "admitted", "bad header"} <= set(total.outcomes)


def test_a_seed_repeats_its_frames(seeds: list[bytes]) -> None:
    assert codec_target.block(7, 3, seeds).outcomes == codec_target.block(7, 3, seeds).outcomes
    assert codec_target.block(7, 3, seeds).outcomes != codec_target.block(7, 4, seeds).outcomes


@pytest.mark.parametrize("codec_id", [1, 2, 3, 4])
@pytest.mark.parametrize("content", [batches.ZEROS, batches.RECORDS, batches.HEADERS])
def test_bombs_are_refused_at_the_limit(codec_id: int, content: str) -> None:
    bomb = batches.bomb(codec_id, 8 << 20, content)
    assert records.admit(bomb)
    for question in (lambda: records.records(bomb, 1 << 20), lambda: records.reencode(bomb, 0, 1 << 20)):
        with pytest.raises(records.BatchError, match="too large"):
            question()
    with pytest.raises(records.BatchError):
        records.records(batches.lying(codec_id))


def test_bombs_are_what_they_say() -> None:
    """At 1 MB they unfold to something that a reader takes, save the records whose offsets do not ascend."""
    assert len(records.records(batches.bomb(compression.ZSTD, 1 << 20))[0].value or b"") == (1 << 20) - 1
    assert (
        len(records.records(batches.bomb(compression.GZIP, 1 << 20, batches.HEADERS))[0].headers) == 1 << 19
    )
    assert len(records.records(batches.ascending(1000))) == 1000
    with pytest.raises(records.BatchError, match="order of offsets"):
        records.records(batches.bomb(compression.LZ4, 1 << 20, batches.RECORDS))


def test_stuffed_requests_reach_the_limit() -> None:
    ((path, frame),) = stuffed.stuffed(15, 6)
    assert path == "Groups"
    assert 0.99 < len(frame) / stuffed.limit_of(15) <= 1
    assert codec_target.check(frame) == "malformed", "more elements than one request may have"


def test_frames_that_would_change_the_broker_itself_are_not_sent() -> None:
    from gateway.wire import messages

    resource = messages.AlterConfigsRequest.AlterConfigsResource
    for kind, harmless in ((2, True), (4, False)):
        message = messages.AlterConfigsRequest(
            resources=[resource(resource_type=kind, resource_name="", configs=[])]
        )
        frame = codec.encode_request_header(33, 0, 1, None) + codec.encode_request(33, 0, message)
        assert frames.harmless(frame) is harmless


# -- what is planted must be found ---------------------------------------------------------------------------------


def planted(monkeypatch: pytest.MonkeyPatch, instead: Any, seeds: list[bytes]) -> list[str]:
    """The failures of a block in which one of 256 correlation ids makes the decoder do something else."""
    right = codec.decode_request

    def decode(key: int, version: int, frame: bytes, position: int = 0) -> Any:
        if len(frame) > 7 and frame[7] == 77:
            instead(frame)
        return right(key, version, frame, position)

    monkeypatch.setattr(codec, "decode_request", decode)
    return [reason for reason, _ in codec_target.block(5, 1, seeds).failures]


def test_a_planted_crash_is_found_and_can_be_replayed(
    monkeypatch: pytest.MonkeyPatch, seeds: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(frame: bytes) -> None:
        raise KeyError("planted")

    found = planted(monkeypatch, crash, seeds)
    assert found
    assert set(found) == {"KeyError: 'planted'"}
    monkeypatch.chdir(tmp_path)
    frame = next(frame for _, frame in codec_target.block(5, 1, seeds).failures)
    command.report([("KeyError: 'planted'", frame)] * 3, "--seed 5")
    (saved,) = (tmp_path / "build" / "fuzz").iterdir()
    told = capsys.readouterr().out
    assert f"replay build/fuzz/{saved.name}" in told
    assert "3 times" in told
    with pytest.raises(KeyError, match="planted"):
        command.replay(saved)


def test_a_planted_hang_is_found(monkeypatch: pytest.MonkeyPatch, seeds: list[bytes]) -> None:
    monkeypatch.setattr(codec_target, "HANG_SECONDS", 0.05)

    hung: list[bytes] = []

    def hang(frame: bytes) -> None:
        while not hung:
            try:
                while True:
                    pass
            finally:
                hung.append(frame)

    assert planted(monkeypatch, hang, seeds) == ["no end after 0.05 s of CPU"]


LEAKS = """
from gateway.wire import codec
from tests.proofs.fuzz import codec_target

codec_target.prepare(5)
codec_target.GROWTH = 50 << 20
print(codec_target.work((5, 1)).failures)
kept, right = [], codec.decode_request_header


def leaking(frame):
    # touched, so that the system counts it
    kept.append(bytearray(b"x" * 200_000))
    return right(frame)


codec.decode_request_header = leaking
print(codec_target.work((5, 1)).failures)
"""


def test_a_planted_leak_is_found() -> None:
    """In a process of its own: the most that this one ever had says nothing while it has less than that."""
    told = subprocess.run(
        [sys.executable, "-c", LEAKS], capture_output=True, text=True, check=True, timeout=120
    ).stdout.splitlines()
    assert told[0] == "[]"
    assert re.fullmatch(r"\[\('the process grew by \d+ MiB in or before block 1', b''\)\]", told[1])


def test_a_round_trip_that_changes_something_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = codec.encode_request
    calls = []

    def encode(key: int, version: int, message: Any) -> bytes:
        calls.append(key)
        return right(key, version, message) + bytes(len(calls))

    monkeypatch.setattr(codec, "encode_request", encode)
    frame = struct.pack(">hhih", 12, 0, 1, -1) + b"\0\1g\0\0\0\1\0\1m"
    with pytest.raises(codec_target.Wrong):
        codec_target.check(frame)


def test_every_mutation_changes_frames(seeds: list[bytes]) -> None:
    import random

    pick = random.Random(1)
    for change in set(mutate.MUTATORS):
        assert any(change(pick, frame, seeds) != frame for frame in seeds[:20]), change.__name__


# -- alive ---------------------------------------------------------------------------------------------------------


@pytest.mark.integration
def test_a_gateway_under_attack_for_some_seconds(tmp_path: Path) -> None:
    figures = live.attacked(tmp_path, 11, 8, [QUICK], quiet=True)
    assert figures.wrong == []
    assert figures.counts["frames"] > 100
    assert figures.account is not None
    assert figures.account.consumed == figures.account.shared == figures.account.produced > 0
    assert figures.counts["share requests"] > 10


@pytest.mark.integration
def test_ctrl_c_ends_the_attackers_and_the_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gateways: list[MagnetarPeer] = []

    def interrupted(scene: live.Scene, figures: live.Figures) -> bool:
        gateways.append(scene.gateway)
        assert len(multiprocessing.active_children()) == 2, "the witness and an attacker"
        raise KeyboardInterrupt

    monkeypatch.setattr(live, "_sample", interrupted)
    with pytest.raises(KeyboardInterrupt):
        live.attacked(tmp_path, 11, 60, [{"bulk": 1}], quiet=True)
    assert multiprocessing.active_children() == []
    with pytest.raises(PeerError):
        # there is no process any more
        assert gateways[0].pid


@pytest.mark.integration
def test_what_goes_wrong_in_a_live_gateway_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that fails at one API, keeps what it is sent, and never lets connections go: three complaints."""
    plant = tmp_path / "plant"
    plant.mkdir()
    (plant / "sitecustomize.py").write_text(SABOTAGE)
    monkeypatch.setenv("PYTHONPATH", f"{plant}:{Path.cwd()}")
    monkeypatch.setattr(live, "SETTLE_SECONDS", 3.0)
    monkeypatch.setattr(live, "MEMORY_LIMIT", 300 << 20)
    figures = live.attacked(tmp_path, 11, 8, [QUICK], quiet=True)
    told = "\n".join(figures.wrong)
    assert "speak of trouble" in told
    assert "memory:" in told or "sockets" in told


SABOTAGE = """
import sys
if "serve" in sys.argv:
    from gateway import connection
    from gateway.apis import dispatch

    right, kept = dispatch.dispatch, []

    def wrong(broker, context, frame, position):
        kept.append(bytearray(b"x" * 500_000))
        if context.api_key == 12:
            raise KeyError("planted")
        return right(broker, context, frame, position)

    connection.dispatch = wrong
"""
