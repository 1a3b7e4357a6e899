"""Group configs: what is taken, what they come to, how they are shown."""

from __future__ import annotations

import pytest

from gateway.config import Settings, Source
from gateway.config.group_configs import describe, effective, is_list, validate
from gateway.config.group_table import GROUP_CONFIGS, OffsetReset
from gateway.config.schema import INT_MAX
from semantics.subscriptions.backoff import Backoff
from semantics.subscriptions.config import SubscriptionConfig

DEFAULTS = Settings.load()


class TestValidate:
    @pytest.mark.parametrize(
        "configs",
        [
            {},
            {"share.delivery.count.limit": "1000"},
            {"share.partition.max.record.locks": "1000000"},
            {"share.session.timeout.ms": "60000", "share.heartbeat.interval.ms": "15000"},
            {"share.auto.offset.reset": "by_duration:P1DT2H3M4.5S"},
            {"pulsar.subscription.type": "key_shared", "pulsar.key.shared.mode": "consistent_hashing"},
            {"pulsar.key.shared.mode": "sticky", "pulsar.key.shared.ranges": "a:0-9,b:10-65535"},
            {"pulsar.nack.backoff.max.ms": "500"},
            {"pulsar.nack.backoff.min.ms": "90000"},
            {"pulsar.ack.timeout.ms": "0"},
            {"pulsar.ack.timeout.ms": "1000"},
            {"pulsar.max.redeliver.count": "-1"},
            {"pulsar.dead.letter.topic": "graveyard", "pulsar.retry.letter.topic": "again"},
        ],
    )
    def test_taken(self, configs: dict[str, str]) -> None:
        assert validate(configs, DEFAULTS) is None

    @pytest.mark.parametrize(
        ("name", "value", "said"),
        [
            (
                "pulsar.subscription.typ",
                "shared",
                'There is no group config "pulsar.subscription.typ". Did you mean "pulsar.subscription.type"?',
            ),
            (
                "pulsar.subscription.type",
                "queue",
                'pulsar.subscription.type must be shared, key_shared, exclusive or failover, not "queue".',
            ),
            (
                "pulsar.failover.priorities",
                "a=0,b",
                "pulsar.failover.priorities must be a list of name=level with levels from 0, the highest, such as "
                'client-a=0,client-b=1, and "b" is not.',
            ),
            (
                "pulsar.failover.priorities",
                "a=0,a=1",
                "pulsar.failover.priorities must give each name one level, and a has 0 and 1.",
            ),
            (
                "pulsar.key.shared.mode",
                "ring",
                'pulsar.key.shared.mode must be auto_split, consistent_hashing or sticky, not "ring".',
            ),
            (
                "pulsar.ack.timeout.ms",
                "999",
                'pulsar.ack.timeout.ms must be 0, or from 1000 to 2147483647, not "999".',
            ),
            (
                "share.session.timeout.ms",
                "44999",
                "share.session.timeout.ms must be from 45000 to 60000 (group.share.min.session.timeout.ms and "
                'group.share.max.session.timeout.ms of the node), not "44999".',
            ),
            (
                "share.delivery.count.limit",
                "1",
                'share.delivery.count.limit must be at least 2, not "1".',
            ),
            (
                "share.delivery.count.limit",
                "1001",
                "share.delivery.count.limit must be from 2 to 1000 (group.share.min.delivery.count.limit and "
                'group.share.max.delivery.count.limit of the node), not "1001".',
            ),
            (
                "share.auto.offset.reset",
                "none",
                "share.auto.offset.reset must be earliest, latest or by_duration:PnDTnHnMn.nS (such as "
                'by_duration:PT1H30M), not "none".',
            ),
            (
                "share.isolation.level",
                "READ_COMMITTED",
                'share.isolation.level must be read_committed or read_uncommitted, not "READ_COMMITTED".',
            ),
            (
                "pulsar.nack.backoff.multiplier",
                "1",
                'pulsar.nack.backoff.multiplier must be above 1 and at most 1000, not "1".',
            ),
            (
                "pulsar.dead.letter.topic",
                "no/topic",
                "pulsar.dead.letter.topic must be a topic's name: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', "
                "and not '.' or '..'.",
            ),
            (
                "pulsar.dead.letter.topic",
                "__letters",
                "pulsar.dead.letter.topic must not begin with '__', as Kafka's own topics do, not \"__letters\".",
            ),
            (
                "pulsar.key.shared.ranges",
                "a:0-10,b:10-20",
                "pulsar.key.shared.ranges must give each slot to one only, and slot 10 is both a's and b's.",
            ),
            (
                "pulsar.key.shared.ranges",
                "a:0-65536",
                "pulsar.key.shared.ranges must be a list of name:first-last with slots from 0 to 65535, both ends "
                'included, such as client-a:0-32767,client-b:32768-65535, and "a:0-65536" is not.',
            ),
            (
                "pulsar.key.shared.mode",
                "sticky",
                "pulsar.key.shared.mode sticky needs pulsar.key.shared.ranges: name:first-last, ...",
            ),
        ],
    )
    def test_refused(self, name: str, value: str, said: str) -> None:
        assert validate({name: value}, DEFAULTS) == said

    def test_values_beside_each_other(self) -> None:
        settings = Settings.load(["group.share.min.session.timeout.ms=1"])
        assert validate({"share.session.timeout.ms": "5000"}, settings) == (
            "share.session.timeout.ms (5000) must be greater than share.heartbeat.interval.ms (5000)."
        )
        backoff = {"pulsar.ack.timeout.backoff.min.ms": "10", "pulsar.ack.timeout.backoff.max.ms": "9"}
        assert validate(backoff, DEFAULTS) == (
            "pulsar.ack.timeout.backoff.min.ms (10) must not be above pulsar.ack.timeout.backoff.max.ms (9)."
        )
        letters = {"errors.deadletterqueue.topic.name": "t", "pulsar.retry.letter.topic": "t"}
        assert validate(letters, DEFAULTS) == (
            "pulsar.dead.letter.topic and pulsar.retry.letter.topic must differ, and both are t."
        )


class TestEffective:
    def test_without_configs_a_group_behaves_as_kafkas(self) -> None:
        config = effective({}, DEFAULTS)
        assert config.subscription == SubscriptionConfig()
        assert config.subscription.type == "shared"
        assert (config.subscription.lock_ms, config.subscription.delivery_limit) == (30_000, 5)
        assert (config.subscription.nack_delay_ms, config.subscription.nack_backoff) == (0, None)
        assert config.subscription.max_locks == 2000
        assert config.offset_reset == OffsetReset("latest")
        assert config.read_committed is False
        assert (config.session_timeout_ms, config.heartbeat_interval_ms) == (45_000, 5000)
        assert config.renew is True
        assert config.dead_letters_of("billing", "orders") == "orders-billing-DLQ"
        assert config.retries_of("billing", "orders") == "orders-billing-RETRY"

    def test_the_nodes_settings_are_the_defaults(self) -> None:
        settings = Settings.load(
            ["group.share.delivery.count.limit=7", "group.share.heartbeat.interval.ms=6000"]
        )
        config = effective({}, settings)
        assert (config.subscription.delivery_limit, config.heartbeat_interval_ms) == (7, 6000)

    def test_pulsars_names_win(self) -> None:
        config = effective(
            {
                "share.delivery.count.limit": "9",
                "pulsar.max.redeliver.count": "2",
                "share.record.lock.duration.ms": "40000",
                "pulsar.ack.timeout.ms": "1500",
                "errors.deadletterqueue.topic.name": "kafkas",
                "pulsar.dead.letter.topic": "pulsars",
            },
            DEFAULTS,
        )
        assert config.subscription.delivery_limit == 3
        assert config.subscription.lock_ms == 1500
        assert config.dead_letters_of("g", "t") == "pulsars"

    def test_the_alias_for_the_dead_letter_topic(self) -> None:
        assert (
            effective({"errors.deadletterqueue.topic.name": "x"}, DEFAULTS).dead_letters_of("g", "t") == "x"
        )

    def test_without_end(self) -> None:
        subscription = effective(
            {"pulsar.max.redeliver.count": "-1", "pulsar.ack.timeout.ms": "0"}, DEFAULTS
        ).subscription
        assert subscription.delivery_limit == 0
        assert subscription.lock_ms == INT_MAX

    @pytest.mark.parametrize(
        ("given", "backoff"),
        [
            ({"min.ms": "1000", "max.ms": "60000", "multiplier": "2"}, Backoff(1000, 60_000, 2.0)),
            ({"multiplier": "3"}, Backoff(1000, 60_000, 3.0)),
            ({"max.ms": "500"}, Backoff(500, 500, 2.0)),
            ({"min.ms": "90000"}, Backoff(90_000, 90_000, 2.0)),
        ],
    )
    def test_backoff_is_on_when_one_of_its_configs_is_set(
        self, given: dict[str, str], backoff: Backoff
    ) -> None:
        for kind, other in (("nack", "ack.timeout"), ("ack.timeout", "nack")):
            configs = {f"pulsar.{kind}.backoff.{name}": text for name, text in given.items()}
            found = effective(configs, DEFAULTS).subscription
            both = {"nack": found.nack_backoff, "ack.timeout": found.timeout_backoff}
            assert both == {kind: backoff, other: None}

    def test_out_of_order_switches_strict_off(self) -> None:
        subscription = effective({"pulsar.key.shared.allow.out.of.order": "true"}, DEFAULTS).subscription
        assert (subscription.allow_out_of_order, subscription.strict) == (True, False)

    def test_a_stored_value_beyond_the_bounds_of_today_goes_to_the_nearest(self) -> None:
        settings = Settings.load(["group.share.max.delivery.count.limit=8"])
        config = effective({"share.delivery.count.limit": "500"}, settings)
        assert config.subscription.delivery_limit == 8

    def test_a_stored_value_that_no_longer_parses_counts_as_not_set(self) -> None:
        assert effective({"share.isolation.level": "x"}, DEFAULTS).read_committed is False


class TestDescribe:
    def test_every_config_with_its_source(self) -> None:
        rows = {row.name: row for row in describe({"share.isolation.level": "read_committed"}, DEFAULTS)}
        assert list(rows) == list(GROUP_CONFIGS)
        row = rows["share.isolation.level"]
        assert (row.value, row.source) == ("read_committed", Source.GROUP)
        assert [(each.value, each.source) for each in row.synonyms] == [
            ("read_committed", Source.GROUP),
            ("read_uncommitted", Source.DEFAULT),
        ]
        assert all(each.doc and not each.read_only and not each.sensitive for each in rows.values())

    def test_a_default_from_the_node(self) -> None:
        settings = Settings.load(["group.share.delivery.count.limit=7"])
        rows = {row.name: row for row in describe({}, settings)}
        row = rows["share.delivery.count.limit"]
        assert (row.value, row.source) == ("7", Source.STATIC_BROKER)
        assert row.synonyms[0].name == "group.share.delivery.count.limit"

    def test_an_open_one(self) -> None:
        (row,) = [row for row in describe({}, DEFAULTS) if row.name == "pulsar.dead.letter.topic"]
        assert (row.value, row.source, row.synonyms) == (None, Source.DEFAULT, ())


def test_lists_can_be_appended_to() -> None:
    assert is_list("pulsar.key.shared.ranges")
    assert not is_list("share.isolation.level")
    assert not is_list("nothing")


def test_a_value_is_taken_without_its_spaces() -> None:
    assert effective({"pulsar.subscription.type": " key_shared "}, DEFAULTS).subscription.type == "key_shared"
    assert effective({}, DEFAULTS).subscription.type == "shared"
