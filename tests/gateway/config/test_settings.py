"""Settings: which source wins, what was altered at run time, and how they are described."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.config import SETTINGS, Kind, Settings, Source
from gateway.config.sources import from_environment


class TestSources:
    def test_defaults(self) -> None:
        settings = Settings.load()
        assert settings.integer("num.partitions") == 1
        assert settings.flag("auto.create.topics.enable") is True
        assert settings.text("durability") == "os"
        assert settings.strings("log.cleanup.policy") == ("delete",)
        assert settings.optional_text("broker.rack") is None
        assert settings.source("num.partitions") is Source.DEFAULT

    def test_flag_beats_variable_beats_file_beats_default(self, tmp_path: Path) -> None:
        file = tmp_path / "m.toml"
        file.write_text("node.id = 7\nnum.partitions = 7\nfetch.max.bytes = 7777\n")
        environ = {"MAGNETAR_NUM_PARTITIONS": "8", "MAGNETAR_NODE_ID": "8", "HOME": "/root"}
        settings = Settings.load(["node.id=9"], file, environ)
        assert settings.integer("node.id") == 9
        assert settings.origin("node.id") == "--set node.id"
        assert settings.integer("num.partitions") == 8
        assert settings.origin("num.partitions") == "variable MAGNETAR_NUM_PARTITIONS"
        assert settings.integer("fetch.max.bytes") == 7777
        assert settings.origin("fetch.max.bytes") == f"file {file}, line 3"
        assert settings.origin("durability") == "default"

    def test_a_flag_of_its_own(self) -> None:
        settings = Settings.load(["node.id=2"], options={"data": "b"})
        assert settings.text("data") == "b"
        assert settings.origin("data") == "--data"

    @pytest.mark.parametrize(
        "toml",
        [
            "num.partitions = 4",
            '"num.partitions" = 4',
            "[num]\npartitions = 4",
            "num = { partitions = 4 }",
            'num.partitions = "4"',
        ],
    )
    def test_every_way_to_write_a_name_in_toml(self, toml: str, tmp_path: Path) -> None:
        file = tmp_path / "m.toml"
        file.write_text(toml)
        assert Settings.load(file=file).integer("num.partitions") == 4

    def test_toml_types(self, tmp_path: Path) -> None:
        file = tmp_path / "m.toml"
        file.write_text(
            'delete.topic.enable = false\nlisteners = ["127.0.0.1:1", "127.0.0.1:2"]\n'
            'log.cleanup.policy = "compact"\n'
        )
        settings = Settings.load(file=file)
        assert settings.flag("delete.topic.enable") is False
        assert settings.strings("listeners") == ("127.0.0.1:1", "127.0.0.1:2")
        assert settings.strings("log.cleanup.policy") == ("compact",)

    def test_a_name_that_goes_on_where_another_ends(self, tmp_path: Path) -> None:
        file = tmp_path / "m.toml"
        file.write_text('max.connections = 10\n"max.connections.per.ip" = 2\n')
        settings = Settings.load(file=file)
        assert (settings.integer("max.connections"), settings.integer("max.connections.per.ip")) == (10, 2)

    def test_variables_that_are_not_settings(self) -> None:
        Settings.load(
            environ={
                "MAGNETAR_CONFIG": "x",
                "MAGNETAR_SERVICE_HOST": "10.0.0.1",
                "MAGNETAR_SERVICE_PORT_KAFKA": "9092",
                "MAGNETAR_PORT": "tcp://10.0.0.1:9092",
                "MAGNETAR_PORT_9092_TCP_ADDR": "10.0.0.1",
                "MAGNETAR_ADMIN_URL": "http://x",
            }
        )

    def test_no_variable_of_our_own_programs_stops_the_gateway(self) -> None:
        """A gateway may be started from a shell in which variables for the other programs are set."""
        root = Path(__file__).parents[3]
        used: set[str] = set()
        for folder in ("gateway", "pipeline", "compat", "tests/integration"):
            for source in (root / folder).rglob("*.py"):
                used.update(re.findall(r"""["'](MAGNETAR_[A-Z_]*[A-Z])["']""", source.read_text()))
        assert "MAGNETAR_SPARK_JARS" in used
        said: list[str] = []
        from_environment(dict.fromkeys(used, "x"), said)
        assert said == []

    @pytest.mark.parametrize(
        ("said", "tls"),
        [
            ([], False),
            (["admin.security.protocol=SSL"], True),
            # nobody else can reach it
            (["ssl.certificate.location=x.pem"], False),
            (["admin.listen=0.0.0.0:8080", "ssl.certificate.location=x.pem"], True),
            (["admin.listen=0.0.0.0:8080", "ssl.keystore.location=x.pem"], True),
            (
                [
                    "admin.listen=0.0.0.0:8080",
                    "ssl.keystore.location=x.pem",
                    "admin.security.protocol=PLAINTEXT",
                ],
                False,
            ),
            # whoever trusts all that can get there needs no certificate
            (["admin.listen=0.0.0.0:8080"], False),
        ],
    )
    def test_http_is_over_tls_where_others_can_reach_it_and_there_is_a_certificate(
        self, said: list[str], tls: bool
    ) -> None:
        assert Settings.load([*said, "insecure=true"]).admin_tls is tls

    def test_getters_know_their_types(self) -> None:
        settings = Settings.load()
        with pytest.raises(KeyError):
            settings.text("num.partitions")
        with pytest.raises(KeyError):
            settings.integer("durability")
        with pytest.raises(KeyError):
            settings.flag("no.such")


class TestDynamic:
    def test_what_was_altered_wins(self) -> None:
        static = Settings.load(["log.retention.bytes=5"])
        settings = static.with_dynamic(
            {"log.retention.bytes": "7"}, {"log.retention.bytes": "6", "durability": "fsync"}
        )
        assert settings.integer("log.retention.bytes") == 7
        assert settings.source("log.retention.bytes") is Source.DYNAMIC_BROKER
        assert settings.source("durability") is Source.DYNAMIC_DEFAULT_BROKER
        assert [(each.value, each.source) for each in settings.synonyms("log.retention.bytes")] == [
            ("7", Source.DYNAMIC_BROKER),
            ("6", Source.DYNAMIC_DEFAULT_BROKER),
            ("5", Source.STATIC_BROKER),
            ("-1", Source.DEFAULT),
        ]
        assert static.integer("log.retention.bytes") == 5
        assert settings.with_dynamic({}).integer("log.retention.bytes") == 5

    def test_rows_that_no_longer_fit_are_left_out(self) -> None:
        settings = Settings.load().with_dynamic({"gone": "1", "node.id": "5", "log.retention.ms": "x"})
        assert settings.integer("node.id") == 1

    def test_altered_says_why_not(self) -> None:
        settings = Settings.load()
        assert settings.altered("log.retention.ms", "5") is None
        assert settings.altered("log.retention.ms", None) is None
        assert (
            settings.altered("log.retention.ms", "x") == 'log.retention.ms must be a whole number, not "x".'
        )
        assert "read at the start" in (settings.altered("node.id", "5") or "")
        assert "Did you mean" in (settings.altered("log.retention.mss", "5") or "")


class TestCoarserSpellings:
    @pytest.mark.parametrize(
        ("flags", "milliseconds"),
        [
            ([], 7 * 24 * 3_600_000),
            (["log.retention.hours=1"], 3_600_000),
            (["log.retention.hours=1", "log.retention.minutes=2"], 120_000),
            (["log.retention.hours=1", "log.retention.minutes=2", "log.retention.ms=3"], 3),
            (["log.retention.hours=-1"], -1),
        ],
    )
    def test_the_finest_wins(self, flags: list[str], milliseconds: int) -> None:
        assert Settings.load(flags).retention_ms == milliseconds

    def test_roll(self) -> None:
        assert Settings.load().roll_ms == 7 * 24 * 3_600_000
        assert Settings.load(["log.roll.ms=5"]).roll_ms == 5

    def test_they_are_synonyms(self) -> None:
        synonyms = Settings.load(["log.retention.minutes=2"]).synonyms("log.retention.ms")
        assert [(each.name, each.value) for each in synonyms] == [
            ("log.retention.minutes", "2"),
            ("log.retention.hours", "168"),
        ]


class TestTable:
    def test_rows_are_sound(self) -> None:
        variables = {setting.variable for setting in SETTINGS.values()}
        assert len(variables) == len(SETTINGS)
        for name, setting in SETTINGS.items():
            assert name == setting.name
            # Pulsar's own are called as in its broker.conf
            assert name == name.lower() or "." not in name
            assert setting.doc.endswith(".")
            if setting.default is not None:
                text = setting.render(setting.default)
                assert text is not None
                assert setting.parse(text) == setting.default
                assert type(setting.parse(text)) is type(setting.default)

    def test_describe_shows_every_row(self) -> None:
        rows = {row.name: row for row in Settings.load(["num.partitions=4"]).describe()}
        assert list(rows) == list(SETTINGS)
        row = rows["num.partitions"]
        assert (row.value, row.source, row.kind, row.read_only) == ("4", Source.STATIC_BROKER, Kind.INT, True)
        assert [each.value for each in row.synonyms] == ["4", "1"]
        assert rows["log.retention.ms"].value is None
        assert rows["log.retention.ms"].read_only is False
