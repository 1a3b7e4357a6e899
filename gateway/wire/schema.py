"""Kafka's message schemas as plain values: which fields a message has, of which types, in which versions.

Most schemas come from the package data of kafka-python, which carries Apache Kafka's JSON files; its code
is never imported, only its folder is looked up. What it lacks is in `schemas/`, in a format of our own that
holds the facts of the wire and nothing else:

    {"key": 68, "name": "ConsumerGroupHeartbeat", "versions": "0-1", "flexible": "0+",
     "request": [[name, type, versions, {options}, [fields of a struct]], ...],
     "response": [...],
     "request structs": {name: [fields]}, "response structs": {name: [fields]}}

Options are `nullable` (versions), `tagged` (versions) with `tag`, `default`, and `entity`: what the text names. A file
there wins over kafka-python's.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from gateway.wire.api_keys import ApiKey

NO_END = 32767
"""The last version of an open range such as `3+`."""

_OWN = Path(__file__).parent / "schemas"
_COMMENTS = re.compile(r"^\s*//.*$", re.MULTILINE)
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_INTEGERS = frozenset(("int8", "int16", "uint16", "int32", "uint32", "int64"))


class Versions(NamedTuple):
    """An inclusive range of versions; empty when `last < first`."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def meets(self, other: Versions) -> bool:
        """Whether the two ranges share a version."""
        return self.first <= other.last and other.first <= self.last


NEVER = Versions(0, -1)


class Field(NamedTuple):
    """One field of a struct.

    `type` is a primitive's name or, when `fields` is not None, a struct's; `array` says that there are many.
    `default` is a plain value, None for null; for an array and for a struct it is an empty tuple.
    """

    name: str
    attribute: str
    type: str
    array: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    default: Any
    fields: tuple[Field, ...] | None
    # what a text names, in Kafka's words: "topicName", "groupId", "transactionalId"; "" where they say nothing
    entity: str = ""


class Message(NamedTuple):
    """A request, a response, or a value that travels inside one ("data": the consumer protocol's)."""

    name: str
    key: int
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


_loaded: dict[str, Message] = {}


def load(name: str) -> Message:
    """The schema of a message such as `MetadataRequest`; LookupError when there is none."""
    message = _loaded.get(name)
    if message is None:
        message = _loaded[name] = _load(name)
    return message


def names() -> list[str]:
    """The names of all messages there are, sorted."""
    found = {path.stem for path in _kafka_folder().glob("*.json")} - {"RequestHeader", "ResponseHeader"}
    for path in _OWN.glob("*.json"):
        found |= {path.stem + "Request", path.stem + "Response"}
    return sorted(found)


def api_name(key: int) -> str:
    """`Metadata` for 3. ValueError for a number that Kafka does not use."""
    return "".join(word.capitalize() for word in ApiKey(key).name.split("_"))


def attribute(name: str) -> str:
    """`throttle_time_ms` for `ThrottleTimeMs`."""
    return _WORDS.sub("_", name).lower()


def versions(text: str) -> Versions:
    """A range as the schemas write it: `3`, `2-5`, `4+` or `none`."""
    if text == "none":
        return NEVER
    if text.endswith("+"):
        return Versions(int(text[:-1]), NO_END)
    first, dash, last = text.partition("-")
    return Versions(int(first), int(last) if dash else int(first))


def _load(name: str) -> Message:
    for kind in ("Request", "Response"):
        own = _OWN / f"{name.removesuffix(kind)}.json"
        if name.endswith(kind) and own.exists():
            return _own_message(name, kind.lower(), json.loads(own.read_text()))
    path = _kafka_folder() / f"{name}.json"
    if not path.exists():
        raise LookupError(f"there is no schema for {name}")
    return _kafka_message(json.loads(_COMMENTS.sub("", path.read_text())))


def _kafka_folder() -> Path:
    global _folder
    if _folder is None:
        spec = importlib.util.find_spec("kafka")
        if spec is None or not spec.submodule_search_locations:
            raise LookupError("kafka-python is not installed: its package data holds Kafka's message schemas")
        _folder = Path(spec.submodule_search_locations[0], "protocol", "schemas", "resources")
    return _folder


_folder: Path | None = None


def _kafka_message(schema: dict[str, Any]) -> Message:
    valid = versions(schema["validVersions"])
    structs = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}

    def fields_of(rows: list[dict[str, Any]]) -> tuple[Field, ...]:
        made = []
        for row in rows:
            present = versions(row["versions"])
            if not present.meets(valid):
                continue  # kept in Apache's files for the record of a version that is gone
            kind = row["type"].removeprefix("[]")
            inner = row.get("fields") or structs.get(kind)
            made.append(
                _field(
                    row["name"],
                    row["type"],
                    present,
                    versions(row.get("nullableVersions", "none")),
                    versions(row.get("taggedVersions", "none")),
                    row.get("tag", -1),
                    row.get("default", _UNSET),
                    None if inner is None else fields_of(inner),
                    row.get("entityType", ""),
                )
            )
        return tuple(made)

    flexible = versions(schema.get("flexibleVersions", "none"))
    return Message(schema["name"], schema.get("apiKey", -1), valid, flexible, fields_of(schema["fields"]))


def _own_message(name: str, kind: str, schema: dict[str, Any]) -> Message:
    structs = schema.get(f"{kind} structs", {})

    def fields_of(rows: list[list[Any]]) -> tuple[Field, ...]:
        made = []
        for row in rows:
            options = row[3] if len(row) > 3 else {}
            inner = row[4] if len(row) > 4 else structs.get(row[1].removeprefix("[]"))
            made.append(
                _field(
                    row[0],
                    row[1],
                    versions(row[2]),
                    versions(options.get("nullable", "none")),
                    versions(options.get("tagged", "none")),
                    options.get("tag", -1),
                    options.get("default", _UNSET),
                    None if inner is None else fields_of(inner),
                    options.get("entity", ""),
                )
            )
        return tuple(made)

    return Message(
        name,
        schema["key"],
        versions(schema["versions"]),
        versions(schema["flexible"]),
        fields_of(schema[kind]),
    )


_UNSET = object()


def _field(
    name: str,
    written_type: str,
    present: Versions,
    nullable: Versions,
    tagged: Versions,
    tag: int,
    default: Any,
    fields: tuple[Field, ...] | None,
    entity: str,
) -> Field:
    array = written_type.startswith("[]")
    kind = written_type.removeprefix("[]")
    value = _default(kind, array or fields is not None, default)
    return Field(name, attribute(name), kind, array, present, nullable, tagged, tag, value, fields, entity)


def _default(kind: str, many: bool, default: Any) -> Any:
    if default is None or default == "null":
        return None
    if many:
        return ()
    if kind in _INTEGERS:
        # Apache writes numbers as strings, some of them in hexadecimal
        return 0 if default is _UNSET else int(str(default), 0)
    if kind == "bool":
        return default is not _UNSET and str(default).lower() == "true"
    if kind == "float64":
        return 0.0 if default is _UNSET else float(default)
    if kind == "string":
        return "" if default is _UNSET else str(default)
    if kind == "uuid":
        return bytes(16)
    return b""
