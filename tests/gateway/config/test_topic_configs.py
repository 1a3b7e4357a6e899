"""Topic configs: what is taken, what they come to, and how they are shown."""

from __future__ import annotations

import pytest

from gateway.config import SETTINGS, Settings, Source
from gateway.config.topic_configs import default_text, describe, effective, is_list, validate
from gateway.config.topic_table import TOPIC_CONFIGS
from semantics import policies

DEFAULTS = Settings.load()


class TestValidate:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("retention.ms", "-1"),
            ("retention.bytes", "-1"),
            ("cleanup.policy", "compact,delete"),
            ("cleanup.policy", ""),
            ("compression.type", "zstd"),
            ("compression.gzip.level", "-1"),
            ("follower.replication.throttled.replicas", "0:1,1:1"),
            ("leader.replication.throttled.replicas", "*"),
            ("durability", "fsync"),
            ("min.cleanable.dirty.ratio", "0.5"),
            ("unclean.leader.election.enable", "TRUE"),
            ("remote.storage.enable", "false"),
            ("internal.segment.bytes", "1024"),
        ],
    )
    def test_taken(self, name: str, value: str) -> None:
        assert validate(name, value) is None

    @pytest.mark.parametrize(
        ("name", "value", "said"),
        [
            ("retention.mss", "1", 'There is no topic config "retention.mss". Did you mean "retention.ms"?'),
            ("qqqqqqqq", "1", 'There is no topic config "qqqqqqqq".'),
            (
                "pulsar.subscription.type",
                "shared",
                'There is no topic config "pulsar.subscription.type": it is one of groups (kafka-configs --entity-type '
                "groups), and of queue topics when they are made, if the topic before -<subscription>-QUEUE is there. "
                "Of a subscription that is there it is changed with: magnetar-admin topics "
                "update-subscription-properties.",
            ),
            ("retention.ms", "a week", 'retention.ms must be a whole number, not "a week".'),
            ("retention.ms", "-2", 'retention.ms must be at least -1, not "-2".'),
            ("retention.ms", None, "retention.ms has no value."),
            ("segment.bytes", "100", 'segment.bytes must be at least 1048576, not "100".'),
            ("cleanup.policy", "keep", 'cleanup.policy may only hold delete or compact, not "keep".'),
            ("compression.gzip.level", "0", 'compression.gzip.level must be -1 or from 1 to 9, not "0".'),
            ("min.cleanable.dirty.ratio", "2", 'min.cleanable.dirty.ratio must be from 0 to 1, not "2".'),
            ("min.cleanable.dirty.ratio", "nan", 'min.cleanable.dirty.ratio must be a number, not "nan".'),
            (
                "leader.replication.throttled.replicas",
                "*,0:1",
                'leader.replication.throttled.replicas must be * or a list of partition:node, not "*,0:1".',
            ),
            (
                "remote.storage.enable",
                "true",
                'remote.storage.enable must be false: there is no tiered storage here, not "true".',
            ),
        ],
    )
    def test_refused(self, name: str, value: str | None, said: str) -> None:
        assert validate(name, value) == said


class TestEffective:
    def test_defaults(self) -> None:
        config = effective({}, DEFAULTS)
        assert config.durability == "os"
        assert config.retention_ms == 7 * 86_400_000
        assert config.retention_bytes == -1
        assert config.segment_bytes == 1 << 30
        assert config.segment_ms == 7 * 86_400_000
        assert config.max_message_bytes == 5_242_880
        assert config.log_append_time is False
        assert config.timestamp_before_max_ms is None
        assert config.timestamp_after_max_ms == 3_600_000
        assert config.compression is None
        assert config.compression_level is None
        assert (config.compact, config.delete) == (False, True)
        assert config.min_insync_replicas == 1

    @pytest.mark.parametrize(
        ("configs", "namespace", "flags", "ms", "size"),
        [
            # ms and whether open records go by it, bytes and the same
            ({}, {}, [], (604_800_000, False), (-1, True)),
            ({}, {}, ["log.retention.ms=7"], (7, True), (-1, True)),
            ({}, {}, ["defaultRetentionTimeInMinutes=2", "log.retention.ms=7"], (120_000, False), (-1, True)),
            ({}, {}, ["defaultRetentionSizeInMB=3", "log.retention.bytes=7"], (604_800_000, False), (3 << 20, False)),
            (
                {}, {}, ["defaultRetentionSizeInMB=0", "defaultRetentionTimeInMinutes=-1"],
                (-1, False), (0, False),
            ),
            ({}, {"ms": "5", "bytes": "6"}, ["defaultRetentionTimeInMinutes=2"], (5, False), (6, False)),
            # each by itself
            ({"retention.ms": "1"}, {"ms": "5", "bytes": "6"}, [], (1, True), (6, False)),
            ({"retention.bytes": "1"}, {"ms": "5", "bytes": "6"}, [], (5, False), (1, True)),
            (
                {"retention.ms": "1", "pulsar.retention.ms": "0", "pulsar.retention.bytes": "-1"},
                {"ms": "5", "bytes": "6"}, ["log.retention.ms=7"], (0, False), (-1, False),
            ),
            # no longer a number
            ({"pulsar.retention.ms": "x"}, {"ms": "5"}, [], (5, False), (-1, True)),
        ],
    )  # fmt: skip
    def test_retention_by_all_levels(
        self,
        configs: dict[str, str],
        namespace: dict[str, str],
        flags: list[str],
        ms: tuple[int, bool],
        size: tuple[int, bool],
    ) -> None:
        its = {f"pulsar.retention.{name}": value for name, value in namespace.items()}
        config = effective(configs, Settings.load(flags), its)
        assert (config.retention_ms, config.retention_ms_set) == ms
        assert (config.retention_bytes, config.retention_bytes_evict) == size

    def test_the_topic_over_the_broker(self) -> None:
        settings = Settings.load(
            [
                "log.retention.hours=1",
                "message.max.bytes=7",
                "durability=fsync",
                "log.message.timestamp.type=LogAppendTime",
                "compression.type=lz4",
            ]
        )
        config = effective({"max.message.bytes": "8", "message.timestamp.before.max.ms": "5"}, settings)
        assert config.retention_ms == 3_600_000
        assert config.max_message_bytes == 8
        assert config.durability == "fsync"
        assert config.log_append_time is True
        assert config.timestamp_before_max_ms == 5
        assert (config.compression, config.compression_level) == (3, 9)
        assert effective({"durability": "os"}, settings).durability == "os"

    @pytest.mark.parametrize(
        ("kind", "codec", "level"),
        [
            ("producer", None, None),
            ("uncompressed", 0, None),
            ("gzip", 1, None),
            ("snappy", 2, None),
            ("lz4", 3, 9),
            ("zstd", 4, 3),
        ],
    )
    def test_compression(self, kind: str, codec: int | None, level: int | None) -> None:
        config = effective({"compression.type": kind}, DEFAULTS)
        assert (config.compression, config.compression_level) == (codec, level)

    def test_cleanup(self) -> None:
        for policy, compact, delete in [
            ("compact", True, False),
            ("compact,delete", True, True),
            ("", False, False),
        ]:
            config = effective({"cleanup.policy": policy}, DEFAULTS)
            assert (config.compact, config.delete) == (compact, delete)

    def test_small_segments_for_tests(self) -> None:
        assert effective({"internal.segment.bytes": "1000"}, DEFAULTS).segment_bytes == 1000

    def test_a_stored_config_that_no_longer_parses(self) -> None:
        assert effective({"retention.ms": "x", "gone": "1"}, DEFAULTS).retention_ms == 7 * 86_400_000

    def test_altered_at_run_time(self) -> None:
        settings = DEFAULTS.with_dynamic({}, {"log.retention.ms": "5"})
        assert effective({}, settings).retention_ms == 5


def test_the_size_of_messages_by_pulsars_name_goes_before_kafkas() -> None:
    kafkas = {"max.message.bytes": "5000"}
    assert effective(kafkas, DEFAULTS).max_message_bytes == 5000
    assert effective({**kafkas, "pulsar.max.message.size": "70"}, DEFAULTS).max_message_bytes == 70
    assert effective({**kafkas, "pulsar.max.message.size": "0"}, DEFAULTS).max_message_bytes == 5000


class TestDescribe:
    def test_policies_are_listed_where_somebody_has_said_them(self) -> None:
        name = "pulsar.retention.ms"
        below = {name: "5"}
        for own, value, source in (
            ({}, "5", Source.DYNAMIC_DEFAULT_BROKER),
            ({name: "3"}, "3", Source.TOPIC),
        ):
            rows = {row.name: row for row in describe(own, DEFAULTS, below)}
            assert (rows[name].value, rows[name].source) == (value, source)
            assert [each.value for each in rows[name].synonyms] == [*own.values(), "5"]
            assert "pulsar.retention.bytes" not in rows

    def test_every_listed_config_once(self) -> None:
        rows = list(describe({}, DEFAULTS))
        assert [row.name for row in rows] == sorted(row.name for row in rows)
        assert {row.name for row in rows} == set(TOPIC_CONFIGS) - set(policies.POLICIES) - {
            "internal.segment.bytes",
            "pulsar.non.persistent.max.bytes",
            "pulsar.persistence",
        }
        assert all(row.source is Source.DEFAULT for row in rows)

    def test_a_hidden_one_shows_when_it_is_set(self) -> None:
        assert "internal.segment.bytes" in {
            row.name for row in describe({"internal.segment.bytes": "5"}, DEFAULTS)
        }

    def test_what_no_longer_parses_is_not_set(self) -> None:
        wrong = {"retention.ms": "long", "pulsar.max.consumers": "many"}
        assert list(describe(wrong, DEFAULTS, wrong)) == list(describe({}, DEFAULTS))

    def test_where_a_value_comes_from(self) -> None:
        settings = Settings.load(["log.retention.minutes=2"]).with_dynamic({"log.retention.ms": "3"})
        rows = {row.name: row for row in describe({"retention.ms": "4"}, settings)}
        row = rows["retention.ms"]
        assert (row.value, row.source) == ("4", Source.TOPIC)
        assert [tuple(each) for each in row.synonyms] == [
            ("retention.ms", "4", Source.TOPIC),
            ("log.retention.ms", "3", Source.DYNAMIC_BROKER),
            ("log.retention.minutes", "2", Source.STATIC_BROKER),
            ("log.retention.hours", "168", Source.DEFAULT),
        ]
        rows = {row.name: row for row in describe({}, Settings.load(["log.retention.minutes=2"]))}
        assert (rows["retention.ms"].value, rows["retention.ms"].source) == ("120000", Source.STATIC_BROKER)
        assert [tuple(each) for each in rows["flush.ms"].synonyms] == [
            ("log.flush.interval.ms", "9223372036854775807", Source.DEFAULT)
        ]
        assert rows["flush.ms"].doc.endswith("without effect here.")


def test_rows_are_sound() -> None:
    for name, row in TOPIC_CONFIGS.items():
        assert row.setting.name == name
        assert row.setting.doc.endswith(".")
        if row.effect and row.broker:
            assert row.broker in SETTINGS
            assert row.setting.kind is SETTINGS[row.broker].kind
        if row.setting.default is not None:
            text = row.setting.render(row.setting.default)
            assert text is not None
            assert validate(name, text) is None


def test_lists_can_be_appended_to() -> None:
    assert is_list("cleanup.policy")
    assert is_list("log.cleanup.policy")
    assert not is_list("retention.ms")
    assert not is_list("no.such")
    assert default_text("cleanup.policy") == "delete"
    assert default_text("internal.segment.bytes") is None
    assert default_text("no.such") is None
