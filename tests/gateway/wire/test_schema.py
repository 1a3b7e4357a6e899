"""The schemas: what they cover, and how the two formats read."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gateway.wire import schema
from gateway.wire.schema import NEVER, NO_END, Field, Versions

# Every API that clients use, with the versions of an Apache Kafka 4.3 broker.
KAFKA = """
    0:3-13 1:4-18 2:1-11 3:0-13 8:2-10 9:1-10 10:0-6 11:0-9 12:0-4 13:0-5 14:0-5 15:0-6 16:0-5
    17:0-1 18:0-4 19:2-7 20:1-6 21:0-2 22:0-5 23:2-4 24:0-5 25:0-4 26:0-5 27:1-2 28:0-5 29:1-3
    30:1-3 31:1-3 32:1-4 33:0-2 35:1-5 36:0-2 37:0-3 38:1-3 39:1-2 40:1-2 41:1-3 42:0-2 44:0-1
    47:0-0 48:0-1 49:0-1 50:0-0 51:0-0 60:0-2 61:0-0 65:0-0 66:0-2 68:0-1 69:0-1 71:0-0 72:0-0
    74:0-1 75:0-0 76:1-1 77:1-1 78:1-2 79:1-2 90:0-1 91:0-0 92:0-0
"""
SERVED_BY_KAFKA = {
    int(key): tuple(map(int, versions.split("-")))
    for key, versions in (row.split(":") for row in KAFKA.split())
}


@pytest.mark.parametrize("key", SERVED_BY_KAFKA)
def test_every_api_for_clients_is_there_in_all_its_versions(key: int) -> None:
    first, last = SERVED_BY_KAFKA[key]
    for kind in ("Request", "Response"):
        message = schema.load(schema.api_name(key) + kind)
        assert message.key == key
        assert first in message.versions
        assert last in message.versions


def test_versions() -> None:
    assert schema.versions("3") == (3, 3)
    assert schema.versions("3-5") == (3, 5)
    assert schema.versions("3+") == (3, NO_END)
    assert schema.versions("none") == NEVER
    assert 3 not in NEVER
    assert Versions(1, 3).meets(Versions(3, 9))
    assert not Versions(1, 2).meets(Versions(3, 9))


def test_attributes() -> None:
    assert schema.attribute("ThrottleTimeMs") == "throttle_time_ms"
    assert schema.attribute("timeoutMs") == "timeout_ms"


@pytest.mark.parametrize("name", schema.names())
def test_one_name_means_one_struct_in_a_message(name: str) -> None:
    """Classes hang on the message by the names of their structs, so two structs cannot share one."""
    seen: dict[str, tuple[Field, ...]] = {}

    def walk(fields: tuple[Field, ...]) -> None:
        for field in fields:
            if field.fields is not None:
                assert seen.setdefault(field.type, field.fields) == field.fields
                walk(field.fields)

    walk(schema.load(name).fields)


def test_kafka_python_is_never_imported() -> None:
    """Its import takes longer than all of our start-up may."""
    program = (
        "import sys; from gateway.wire import codec, messages; codec.preload([(3, 12), (68, 1)]); "
        "messages.FetchRequest(); assert 'kafka' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
