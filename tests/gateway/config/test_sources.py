"""What is said of settings that are wrong, with where each was given."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import Settings, SettingsError
from gateway.config.sources import from_environment, from_flags, key_lines
from tests.gateway.config.refused import problems


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

    def test_a_flag_in_place_of_its_setting(self, tmp_path: Path) -> None:
        toml = 'admin = "127.0.0.1:0"\ntls-cert = "x"\n[tls]\nca = "x"\n'
        environ = {"MAGNETAR_ADMIN": "127.0.0.1:0", "MAGNETAR_TLS_KEY": "x"}
        assert problems("users-file=x", toml=toml, tmp_path=tmp_path, environ=environ) == [
            'file m.toml, line 1: there is no setting "admin". Did you mean "admin.listen"?',
            'file m.toml, line 2: there is no setting "tls-cert". Did you mean "ssl.certificate.location"?',
            'file m.toml, line 4: there is no setting "tls.ca". Did you mean "ssl.ca.location"?',
            "variable MAGNETAR_ADMIN: there is no such setting. Did you mean MAGNETAR_ADMIN_LISTEN?",
            "variable MAGNETAR_TLS_KEY: there is no such setting. Did you mean MAGNETAR_SSL_KEY_LOCATION?",
            '--set users-file=x: there is no setting "users-file". Did you mean "users.file"?',
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
        (problem,) = problems("listeners=127.0.0.1:9", "admin.listen=127.0.0.1:9")
        assert problem.endswith("127.0.0.1:9 cannot serve Kafka's protocol and HTTP: listen on two ports.")
        # the system finds two
        Settings.load(["listeners=127.0.0.1:0", "admin.listen=127.0.0.1:0"])

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


def test_each_key_has_its_lines() -> None:
    text = """top = 1
[a.b]
c = 2 # d = 3
"e.f" = 4
'g' . h = 5
[ x ]
text = \'\'\'
lost = 6
\'\'\'
c = { inside = 7 }
[a.b]
c = 8
"""
    assert key_lines(text) == {
        "top": [1], "a.b": [2, 11], "a.b.c": [3, 12], "a.b.e.f": [4], "a.b.g.h": [5], "x": [6], "x.text": [7],
        "x.c": [10],
    }  # fmt: skip


def test_flags_are_read_with_spaces_around_the_name_and_the_last_of_a_name_counts() -> None:
    said: list[str] = []
    layer = from_flags([" num.partitions = 4", "num.partitions=5", "data=a=b"], {"durability": "fsync"}, said)
    assert said == []
    assert layer == {
        "num.partitions": (5, "--set num.partitions"), "data": ("a=b", "--set data"),
        "durability": ("fsync", "--durability"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("MAGNETAR_CONFIG", False),
        ("MAGNETAR_CONFIGS", True),
        ("MAGNETAR_BENCH", False),
        ("MAGNETAR_BENCH_SECONDS", False),
        ("MAGNETAR_BENCHES", True),
        # what Kubernetes puts beside services called magnetar and magnetar-admin
        ("MAGNETAR_SERVICE_PORT", False),
        ("MAGNETAR_PORT_8080_TCP", False),
        ("MAGNETAR_HEADLESS_SERVICE_HOST", False),
        ("MAGNETAR_ENV_HOME", False),
        ("MAGNETAR_PORTS", True),
        ("MAGNETAR_", True),
        ("magnetar_config", False),
        ("MAGNETARX", False),
    ],
)
def test_a_slip_in_a_variable_is_told_and_other_programs_are_left_alone(variable: str, told: bool) -> None:
    said: list[str] = []
    assert from_environment({variable: "x"}, said) == {}
    assert [each.startswith(f"variable {variable}: there is no such setting.") for each in said] == [
        True
    ] * told
