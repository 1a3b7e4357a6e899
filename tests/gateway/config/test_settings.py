"""Settings: what each source gives, which one wins, and what is said of what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import SETTINGS, Kind, Listener, Settings, SettingsError, Source
from gateway.config.elsewhere import elsewhere
from gateway.config.sources import from_environment, key_lines


def problems(*flags: str, toml: str | None = None, tmp_path: Path | None = None, **rest: object) -> list[str]:
    """Load what is wrong, give what is said; the file is called m.toml in the sentences."""
    file = None
    if toml is not None:
        assert tmp_path is not None
        file = tmp_path / "m.toml"
        file.write_text(toml)
    with pytest.raises(SettingsError) as caught:
        Settings.load(flags, file, **rest)  # type: ignore[arg-type]
    return [problem.replace(str(file), "m.toml") for problem in caught.value.problems]


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

    def test_getters_know_their_types(self) -> None:
        settings = Settings.load()
        with pytest.raises(KeyError):
            settings.text("num.partitions")
        with pytest.raises(KeyError):
            settings.integer("durability")
        with pytest.raises(KeyError):
            settings.flag("no.such")


class TestProblems:
    def test_all_at_once_with_the_line_and_the_nearest_name(self, tmp_path: Path) -> None:
        toml = "# mine\nnum.partition = 3\n\n[log]\nretention.ms = 'x'\n[group]\n  max = { size = 0 }\n"
        environ = {"MAGNETAR_NUM_PARTITION": "3", "MAGNETAR_NODE_ID": "-2"}
        assert problems(
            "num.partitons=4", "node.id=x", "foo", toml=toml, tmp_path=tmp_path, environ=environ
        ) == [
            'file m.toml, line 2: there is no setting "num.partition". Did you mean "num.partitions"?',
            'file m.toml, line 5: log.retention.ms must be a whole number, not "x".',
            "file m.toml, line 7: group.max.size must be at least 1, not 0.",
            "variable MAGNETAR_NUM_PARTITION: there is no such setting. "
            "Did you mean MAGNETAR_NUM_PARTITIONS?",
            'variable MAGNETAR_NODE_ID: node.id must be at least 0, not "-2".',
            '--set num.partitons=4: there is no setting "num.partitons". Did you mean "num.partitions"?',
            '--set node.id: must be a whole number, not "x".',
            "--set foo: a setting is given as name=value.",
        ]

    def test_a_name_like_no_other(self) -> None:
        assert problems("qqqqqqq=1") == [
            '--set qqqqqqq=1: there is no setting "qqqqqqq". "magnetar config" lists them all.'
        ]

    def test_kafkas_settings_without_effect(self, tmp_path: Path) -> None:
        assert problems(toml='log.dirs = "/x"', tmp_path=tmp_path, environ={"MAGNETAR_BROKER_ID": "1"}) == [
            'file m.toml, line 1: Kafka\'s "log.dirs" has no effect here: use "data".',
            'variable MAGNETAR_BROKER_ID: Kafka\'s "broker.id" has no effect here: use "node.id".',
        ]

    def test_a_family_of_kafkas_without_effect(self) -> None:
        assert problems("log.cleaner.threads=2", environ={"MAGNETAR_SSL_CLIENT_AUTH": "none"}) == [
            'variable MAGNETAR_SSL_CLIENT_AUTH: Kafka\'s "ssl.client.auth" has no effect here: '
            "nothing here asks who somebody is or encrypts until security comes.",
            '--set log.cleaner.threads=2: Kafka\'s "log.cleaner.threads" has no effect here: '
            "nothing is compacted yet.",
        ]

    def test_nothing_that_has_an_effect_is_said_to_have_none(self) -> None:
        assert [name for name in SETTINGS if elsewhere(name) is not None] == []

    @pytest.mark.parametrize(
        ("toml", "said"),
        [
            ("num.partitions = true", "num.partitions must be a whole number, not true."),
            ("num.partitions = 1.5", "num.partitions must be a whole number, not 1.5."),
            ("num.partitions = [1]", "num.partitions must be a whole number, not [1]."),
            ("durability = 1", "durability must be text in quotes, not 1."),
            ("insecure = 1", "insecure must be true or false, not 1."),
            ("listeners = [1]", "listeners must be a list of texts, not [1]."),
            ("num.partitions = {}", "num.partitions must be a whole number, not a table."),
            ('durability = "disk"', 'durability must be os or fsync, not "disk".'),
            (
                "group.max.size = 3000000000",
                "group.max.size must fit in 32 bits, so be at most 2147483647, not 3000000000.",
            ),
            (
                'log.cleanup.policy = "delete,delete"',
                'log.cleanup.policy must name each thing once, not "delete,delete".',
            ),
        ],
    )
    def test_values(self, toml: str, said: str, tmp_path: Path) -> None:
        assert problems(toml=toml, tmp_path=tmp_path) == [f"file m.toml, line 1: {said}"]

    def test_text_that_is_not_toml(self, tmp_path: Path) -> None:
        (problem,) = problems(toml="a = 1\nb = = 2\n", tmp_path=tmp_path)
        assert problem.startswith("file m.toml, line 2: it is not TOML (invalid value")

    def test_a_name_that_goes_on_without_quotes(self, tmp_path: Path) -> None:
        (problem,) = problems(toml="max.connections = 1\nmax.connections.per.ip = 2\n", tmp_path=tmp_path)
        assert problem.startswith("file m.toml, line 2: it is not TOML")
        assert '"max.connections.per.ip" = 100' in problem

    def test_files_that_cannot_be_read(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match=r"file .*none\.toml: it cannot be read \(No such file"):
            Settings.load(file=tmp_path / "none.toml")
        (tmp_path / "latin.toml").write_bytes(b"# \xe9\n")
        with pytest.raises(SettingsError, match=r"not text in UTF-8"):
            Settings.load(file=tmp_path / "latin.toml")

    def test_settings_beside_each_other(self) -> None:
        assert problems("group.min.session.timeout.ms=20", "group.max.session.timeout.ms=10") == [
            "--set group.min.session.timeout.ms and --set group.max.session.timeout.ms: "
            "group.min.session.timeout.ms (20) must not be above group.max.session.timeout.ms (10)."
        ]
        (problem,) = problems("message.max.bytes=200000000")
        assert problem.startswith("--set message.max.bytes: message.max.bytes (200000000) must not be above")

    @pytest.mark.parametrize(
        ("flag", "name", "value"),
        [
            ("--listen", "listeners", "127.0.0.1:1"),
            ("--admin", "admin.listen", "127.0.0.1:1"),
            ("--data", "data", "a"),
            ("--durability", "durability", "os"),
            ("--insecure", "insecure", "true"),
            ("--log-level", "log.level", "info"),
            ("--log-format", "log.format", "text"),
        ],
    )
    def test_a_flag_beside_set_for_the_same(self, flag: str, name: str, value: str) -> None:
        assert problems(f"{name}={value}", options={name: value}) == [
            f"{flag} and --set {name}: {name} is given twice; leave one of them out."
        ]

    @pytest.mark.parametrize(
        ("toml", "where"),
        [
            ('"log.retention.ms" = 3\nlog.retention.ms = 4\n', ", lines 1 and 2"),
            ('[log]\nretention.ms = 4\n[log.roll]\nms = 5\n["log.retention"]\nms = 4\n', ", lines 2 and 6"),
            ('log = { retention.ms = 3 }\n"log.retention.ms" = 4\n', ", line 2"),
            ('log = { retention.ms = 3 }\n"log.retention" = { ms = 4 }\n', ""),
        ],
    )
    def test_twice_in_one_file_by_different_spellings(self, toml: str, where: str, tmp_path: Path) -> None:
        assert problems(toml=toml, tmp_path=tmp_path) == [
            f"file m.toml{where}: log.retention.ms is given twice; leave one of them out."
        ]

    @pytest.mark.parametrize(
        ("flag", "said"),
        [
            (
                "listeners=localhost",
                'must be host:port, [IPv6]:port or NAME://host:port, and "localhost" is not.',
            ),
            ("listeners=a:70000", 'must have a port from 0 to 65535, and "a:70000" has not.'),
            ("listeners=A://a:1,A://a:2", "must have different names, and A is there twice."),
            ("log.cleanup.policy=compact,compact", 'must name each thing once, not "compact,compact".'),
            ("node.id=-1", 'must be at least 0, not "-1".'),
        ],
    )
    def test_what_is_wrong_is_said_once(self, flag: str, said: str) -> None:
        name = flag.partition("=")[0]
        assert problems(flag) == [f"--set {name}: {said}"]

    @given(st.text(), st.text())
    def test_no_flag_breaks_it(self, name: str, value: str) -> None:
        said: list[str] = []
        for flag in (name, f"{name}={value}", f"num.partitions={value}", f"listeners={value}"):
            try:
                Settings.load([flag])
            except SettingsError as error:
                said += error.problems
        assert all(problem.endswith((".", "?")) for problem in said)

    @pytest.mark.parametrize(
        "before",
        [
            '"data" = """\nnum.partitions = 1 # no key\n"""',
            "data = '''\nnum.partitions = 1\n\n'''",
            '"data" = """a\n\\""" b\nnum.partitions = 1""""',
            "data = 'a' # it's\nlog.level = 'info' # \"\"\"\n",
        ],
    )
    def test_text_of_several_lines_does_not_shift_the_line(self, before: str, tmp_path: Path) -> None:
        toml = before + '\nnum.partitions = "four"\n'
        (problem,) = problems(toml=toml, tmp_path=tmp_path)
        assert problem.startswith(f"file m.toml, line {len(toml.splitlines())}: num.partitions ")

    @pytest.mark.parametrize("data", ["", "a\0b"])
    def test_data_must_name_a_folder(self, data: str) -> None:
        assert problems(f"data={data}") == [f'--set data: must be the name of a folder, not "{data}".']

    @given(st.text())
    def test_no_file_breaks_it(self, text: str) -> None:
        key_lines(text)


class TestListeners:
    def test_addresses(self) -> None:
        settings = Settings.load(
            ["listeners=127.0.0.1:9092,[::1]:9093,localhost:0,IN://127.0.0.1:9094"],
            options={"admin.listen": "[::1]:8080"},
        )
        assert settings.listeners == [
            Listener("PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1", 9092),
            Listener("PLAINTEXT2", "::1", 9093, "::1", 9093),
            Listener("PLAINTEXT3", "localhost", 0, "localhost", 0),
            Listener("IN", "127.0.0.1", 9094, "127.0.0.1", 9094),
        ]
        assert str(settings.listeners[1]) == "[::1]:9093"
        assert str(settings.admin) == "[::1]:8080"
        assert Settings.load(["admin.listen="]).admin is None

    def test_advertised_by_name_and_by_position(self) -> None:
        settings = Settings.load(
            ["listeners=127.0.0.1:1,OUT://127.0.0.1:2,127.0.0.1:3", "advertised.listeners=a:4,OUT://b:5"]
        )
        assert [(each.advertised_host, each.advertised_port) for each in settings.listeners] == [
            ("a", 4),
            ("b", 5),
            ("127.0.0.1", 3),
        ]

    def test_everywhere_advertises_the_name_of_the_machine(self) -> None:
        import socket

        (listener,) = Settings.load(["insecure=true", "listeners=:9092"]).listeners
        assert (listener.host, listener.advertised_host) == ("", socket.gethostname())

    @pytest.mark.parametrize(
        "address", [":9092", "0.0.0.0:9092", "[::]:9092", "10.0.0.1:1", "kafka.example:1"]
    )
    @pytest.mark.parametrize("option", ["listeners", "admin.listen"])
    def test_what_others_can_reach_needs_insecure(self, address: str, option: str) -> None:
        (problem,) = problems(options={option: address})
        flag = {"listeners": "--listen", "admin.listen": "--admin"}[option]
        assert problem.startswith(f"{flag}: other machines can reach {address}, and nothing asks them")
        assert "--insecure" in problem
        Settings.load(options={option: address, "insecure": "true"})

    @pytest.mark.parametrize("address", ["127.0.0.1:0", "127.9.9.9:1", "[::1]:1", "localhost:1"])
    def test_loopback_needs_nothing(self, address: str) -> None:
        Settings.load(options={"listeners": address, "admin.listen": address})

    @pytest.mark.parametrize(
        ("flag", "said"),
        [
            ("listeners=9092", 'must be host:port, [IPv6]:port or NAME://host:port, and "9092" is not'),
            ("listeners=::1:9092", "must be host:port"),
            ("listeners=[nonsense]:1", "must have an IPv6 address in the brackets"),
            ("listeners=127.0.0.1:70000", "must have a port from 0 to 65535"),
            ("listeners=127.0.0.1:1,127.0.0.1:1", "must name each address once"),
            ("listeners=A://127.0.0.1:1,A://127.0.0.1:2", "must have different names, and A is there twice"),
            ("listeners=", "must name one address at least"),
            ("listeners=127.0.0.1:1,,127.0.0.1:2", "must have something between all commas"),
            ("advertised.listeners=0.0.0.0:1", "must hold names that clients can reach"),
            (
                "advertised.listeners=X://a:1",
                "advertises X, and there is no listener of that name (PLAINTEXT)",
            ),
            ("admin.listen=A://127.0.0.1:1", "must be host:port without a name"),
        ],
    )
    def test_bad_addresses(self, flag: str, said: str) -> None:
        (problem,) = problems(flag)
        assert said in problem


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
            assert name == name.lower()
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
