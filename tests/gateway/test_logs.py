"""Log lines: one a record, fields as key=value or JSON, and nothing a client sends breaks the line."""

from __future__ import annotations

import io
import json
import logging

from hypothesis import given
from hypothesis import strategies as st

from gateway import logs
from semantics.group_names import scoped
from semantics.names import Namespace


def written(form: str, message: str, level: str = "info", **extra: object) -> str:
    stream = io.StringIO()
    logs.setup(level, form, stream)
    logging.getLogger("gateway.somewhere").info(message, extra=extra)
    return stream.getvalue()


def record(message: str, **extra: object) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": message, "created": 1_700_000_000.5, "levelname": "INFO", **extra})


class TestText:
    def test_a_line(self) -> None:
        line = logs.TextFormatter().format(
            record("topic created", topic="orders", partitions=4, on=True, s=0.25)
        )
        assert line == (
            "2023-11-14T22:13:20.500Z INFO    topic created  topic=orders partitions=4 on=true s=0.25"
        )

    def test_values_that_need_quotes(self) -> None:
        line = logs.TextFormatter().format(record("m", a="x y", b="", c='q"=\\', d="a\nb"))
        assert line.endswith(r'm  a="x y" b="" c="q\"=\\" d="a\nb"')

    @given(st.text(), st.text())
    def test_always_one_line(self, message: str, value: str) -> None:
        line = logs.TextFormatter().format(record(message, key=value))
        assert line.isprintable()

    def test_groups_of_two_homes_are_told_apart(self) -> None:
        kept = scoped(Namespace("shop", "eu"), "dup")
        for group, name in (
            (kept, "shop/eu//dup"),
            ("shop/eu/dup", "shop/eu/dup"),
            ("shop/eu//dup", "public/default//shop/eu//dup"),
        ):
            line = logs.TextFormatter().format(record("m", group=group, topic="shop/eu//dup"))
            assert line.endswith(f"m  group={name} topic=shop/eu//dup")
            row = json.loads(logs.JsonFormatter().format(record("m", group=group, n=4)))
            assert (row["group"], row["n"]) == (name, 4)
        line = logs.TextFormatter().format(record(f"the group {kept} is gone", key=kept))
        assert line.endswith("the group shop/eu//dup is gone  key=shop/eu//dup")

    def test_a_topic_is_called_as_kafkas_clients_call_it(self) -> None:
        assert (
            logs.TextFormatter()
            .format(record("m", topic="shop/eu/orders"))
            .endswith("m  topic=shop.eu.orders")
        )
        row = json.loads(logs.JsonFormatter().format(record("m", topic="shop/eu/orders", folder="a/b/c")))
        assert (row["topic"], row["folder"]) == ("shop.eu.orders", "a/b/c")

    def test_a_traceback_follows(self) -> None:
        try:
            raise ValueError("bad")
        except ValueError as error:
            info = (ValueError, error, error.__traceback__)
        lines = logs.TextFormatter().format(record("failed", exc_info=info)).splitlines()
        assert lines[0].endswith("INFO    failed")
        assert lines[-1] == "ValueError: bad"

    def test_colours(self) -> None:
        line = logs.TextFormatter(coloured=True).format(record("m", levelname="ERROR"))
        assert "\x1b[31mERROR  \x1b[0m m" in line


class TestJson:
    def test_a_line(self) -> None:
        row = json.loads(logs.JsonFormatter().format(record("topic created", topic="ö\n", n=4, other=b"x")))
        assert row["time"] == "2023-11-14T22:13:20.500Z"
        assert (row["level"], row["message"], row["topic"], row["n"]) == ("info", "topic created", "ö\n", 4)
        assert row["other"] == "b'x'"

    @given(st.text(), st.dictionaries(st.sampled_from(["time", "level", "x"]), st.text()))
    def test_fields_never_pass_for_ours(self, message: str, extra: dict[str, str]) -> None:
        line = logs.JsonFormatter().format(record(message, **extra))
        assert "\n" not in line
        row = json.loads(line)
        assert row["message"] == message
        assert row["level"] == "info"


class TestSetup:
    def test_level_and_form(self) -> None:
        assert written("text", "hello", a=1).endswith("INFO    hello  a=1\n")
        assert json.loads(written("json", "hello", a=1))["logger"] == "gateway.somewhere"
        assert written("text", "hello", level="warning") == ""

    def test_twice_writes_once(self) -> None:
        written("text", "hello")
        assert written("text", "hello").count("hello") == 1
