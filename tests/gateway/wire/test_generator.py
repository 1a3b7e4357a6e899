"""What encoders and decoders have in common: which fields a version has, and the fewest bytes that they take."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.wire import compiler, schema
from gateway.wire.generator import Generator
from gateway.wire.schema import Field
from tests.gateway.wire.values import versions_of

NOTHING = {"string": "", "bytes": b"", "uuid": bytes(16), "bool": False, "float64": 0.0}


def generator(name: str, version: int) -> Generator:
    return Generator(name, version, compiler.classes(name))


def least(classes: dict[str, Any], field: Field) -> Any:
    """An element of an array that takes as few bytes as one can."""
    return NOTHING.get(field.type, 0) if field.fields is None else classes[field.type]()


@pytest.mark.parametrize("name", schema.names())
def test_the_fewest_bytes_of_an_element_are_those_that_it_takes(name: str) -> None:
    """Counts are checked against it: if it were more, good messages would be refused; if less, a count costs memory."""
    classes = compiler.classes(name)
    for version in versions_of(name):
        made, encode = generator(name, version), compiler.compile_encoder(name, version)
        body, _ = made.split(schema.load(name).fields)
        for field in (field for field in body if field.array):
            sizes = [
                len(encode(classes[""](**{field.attribute: [least(classes, field)] * count})))
                for count in (1, 2)
            ]
            assert made.smallest(field) == sizes[1] - sizes[0], (version, field.name)


@pytest.mark.parametrize(
    ("name", "version", "body", "tagged"),
    [
        ("FetchRequest", 6, 6, []),
        ("FetchRequest", 12, 10, ["ClusterId"]),
        # the replica's id went into a tagged field
        ("FetchRequest", 15, 9, ["ClusterId", "ReplicaState"]),
        ("ApiVersionsResponse", 2, 3, []),
        (
            "ApiVersionsResponse",
            3,
            3,
            ["SupportedFeatures", "FinalizedFeaturesEpoch", "FinalizedFeatures", "ZkMigrationReady"],
        ),
    ],
)
def test_fields_of_a_version_are_in_its_body_or_behind_a_tag(
    name: str, version: int, body: int, tagged: list[str]
) -> None:
    found = generator(name, version).split(schema.load(name).fields)
    assert (len(found[0]), [field.name for field in found[1]]) == (body, tagged)
