"""Settings of compaction, by Kafka's names."""

from __future__ import annotations

from gateway.config.schema import LONG_MAX, Kind, Setting, at_least, between

_DAY_MS = 86_400_000
_UNLIMITED = 1.7976931348623157e308

CLEANER = (
    Setting(
        "log.cleaner.enable",
        Kind.BOOLEAN,
        True,
        "Whether logs are compacted that cleanup.policy says it of. What somebody asks for is compacted in any case.",
    ),
    Setting(
        "log.cleaner.threads",
        Kind.INT,
        1,
        "How many logs are compacted at a time, each by a process of its own.",
        at_least(1),
        dynamic=True,
    ),
    Setting(
        "log.cleaner.backoff.ms",
        Kind.LONG,
        15_000,
        "How long nothing is looked for after nothing was left to compact, in milliseconds.",
        at_least(0),
    ),
    Setting(
        "log.cleaner.dedupe.buffer.size",
        Kind.LONG,
        134_217_728,
        "Bytes of memory for the keys of all logs that are being compacted. A key takes 160 of them.",
        at_least(1_048_576),
        dynamic=True,
    ),
    Setting(
        "log.cleaner.io.buffer.load.factor",
        Kind.DOUBLE,
        0.9,
        "The part of log.cleaner.dedupe.buffer.size that is filled.",
        between(0.01, 1),
        dynamic=True,
    ),
    Setting(
        "log.cleaner.io.max.bytes.per.second",
        Kind.DOUBLE,
        _UNLIMITED,
        "How many bytes the compaction of a log reads and writes in a second.",
        at_least(1),
        dynamic=True,
    ),
    Setting(
        "log.cleaner.min.cleanable.ratio",
        Kind.DOUBLE,
        0.5,
        "The part of a log that must be new before it is compacted.",
        between(0, 1),
        dynamic=True,
    ),
    Setting(
        "log.cleaner.min.compaction.lag.ms",
        Kind.LONG,
        0,
        "The shortest a record stays before it may be compacted away, in milliseconds.",
        at_least(0),
        dynamic=True,
    ),
    Setting(
        "log.cleaner.max.compaction.lag.ms",
        Kind.LONG,
        LONG_MAX,
        "The longest a record waits for compaction, in milliseconds.",
        at_least(1),
        dynamic=True,
    ),
    Setting(
        "log.cleaner.delete.retention.ms",
        Kind.LONG,
        _DAY_MS,
        "How long tombstones stay after compaction, in milliseconds.",
        at_least(0),
        dynamic=True,
    ),
)
"""What topics do not say themselves, and how much compaction may take."""
