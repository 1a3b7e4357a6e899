"""The stub that type checkers read: it is up to date, and says what there is when the gateway runs."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from gateway.wire import compiler, schema, stubs


def test_the_stub_is_up_to_date() -> None:
    assert stubs.PATH.read_text() == stubs.generate(), "run: python -m gateway.wire.stubs"


def said_by_the_stub() -> dict[str, list[str]]:
    """The attributes of each class in the stub, structs as Message.Struct."""
    said: dict[str, list[str]] = {}

    def read(node: ast.ClassDef, prefix: str) -> None:
        said[prefix + node.name] = [
            row.target.id
            for row in node.body
            if isinstance(row, ast.AnnAssign) and isinstance(row.target, ast.Name)
        ]
        for row in node.body:
            if isinstance(row, ast.ClassDef):
                read(row, f"{prefix}{node.name}.")

    for row in ast.parse(stubs.generate()).body:
        if isinstance(row, ast.ClassDef) and row.name != "_Message":
            read(row, "")
    return said


def test_type_checkers_see_the_classes_and_attributes_that_there_are() -> None:
    there: dict[str, list[str]] = {}
    for name in schema.names():
        for inner, made in compiler.classes(name).items():
            cls: Any = made
            there[f"{name}.{inner}" if inner else name] = list(cls.__struct_fields__)
    assert said_by_the_stub() == there


@pytest.mark.parametrize(
    "line",
    [
        # in all versions, in none before and none after, behind a tag; lists, structs, and what may be null
        "    group_instance_id: str | None = ...  # v3+",
        "    cluster_id: str | None = ...  # v12+ tagged 0",
        "    v3_and_below_transactional_id: str = ...  # v0-3",
        "    topics: list[FetchRequest.FetchTopic] = ...",
        "    replica_state: FetchRequest.ReplicaState = ...  # v15+ tagged 1",
        "        records: Buffer | None = ...",
        "    topics: list[MetadataRequest.MetadataRequestTopic] | None = ...",
        "        topic_id: bytes = ...  # v13+",
    ],
)
def test_an_attribute_says_its_type_and_its_versions(line: str) -> None:
    assert line in stubs.generate().splitlines()
