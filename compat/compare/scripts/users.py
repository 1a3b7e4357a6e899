"""DescribeUserScramCredentials, AlterUserScramCredentials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compat.compare.server import Server, wait_until

SALTED = bytes(range(32))

User = tuple[str, int]
"""A name, and the number of a mechanism."""


def script(server: Server) -> None:
    described(server, "nobody", None)
    altered(server, "made", [], [put("ada"), put("bob", 2, 16_384), put("eve", 1, 8192)])
    until(server, "ada", "bob", "eve")
    described(server, "all", None)
    described(server, "all of an empty list", [])
    described(server, "one", ["bob"])
    described(server, "one that is not there", ["dan"])
    described(server, "one twice", ["ada", "ada", "bob"])
    described(server, "no name", [""])
    for label, deletions, upsertions in (
        ("nothing", [], []),
        ("too few iterations", [], [put("dan", iterations=4095)]),
        ("too many iterations", [], [put("dan", iterations=16_385)]),
        ("negative iterations", [], [put("dan", iterations=-1)]),
        ("no name", [("", 1)], [put("")]),
        ("no such mechanism", [("ada", 3)], [put("dan", 0), put("joe", 77)]),
        ("no salted password", [], [put("dan", salted=b"")]),
        ("nobody to delete", [("dan", 1)], []),
        ("another mechanism to delete", [("bob", 1)], []),
        ("one put twice", [], [put("ada"), put("ada")]),
        ("both mechanisms at once", [], [put("ada"), put("ada", 2)]),
        ("deleted and put", [("ada", 1)], [put("ada", 2)]),
        ("deleted twice", [("ada", 1), ("ada", 1)], []),
        ("three times", [], [put("ada"), put("ada"), put("ada")]),
        ("nobody deleted and put", [("dan", 1)], [put("dan")]),
    ):
        altered(server, label, deletions, upsertions)
    described(server, "what is left after that", None)
    # alone: Kafka 4.3 loses it where another user's of this mechanism is deleted in the same request
    altered(server, "another mechanism", [], [put("eve", 2)])
    altered(
        server,
        "some good, some not",
        [("bob", 2), ("dan", 1)],
        [put("eve", 1, 5000), put("joe", iterations=1)],
    )
    until(server, "ada", "eve")
    described(server, "after some", ["ada", "bob", "eve", "joe"])
    altered(server, "the last ones", [("ada", 1)], [])
    altered(server, "the last but one of two", [("eve", 1)], [])
    until(server, "eve")
    described(server, "after the last ones", ["ada", "eve"])


def put(
    name: str, mechanism: int = 1, iterations: int = 4096, salt: bytes = b"salt", salted: bytes = SALTED
) -> dict[str, Any]:
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": salt,
        "salted_password": salted,
    }


def altered(
    server: Server, label: str, deletions: Sequence[User], upsertions: Sequence[dict[str, Any]]
) -> None:
    body = {
        "deletions": [{"name": name, "mechanism": mechanism} for name, mechanism in deletions],
        "upsertions": list(upsertions),
    }
    server.ask_all(label, "AlterUserScramCredentials", body)


def described(server: Server, label: str, names: list[str] | None) -> None:
    users = None if names is None else [{"name": name} for name in names]
    server.ask_all(label, "DescribeUserScramCredentials", {"users": users})


def until(server: Server, *names: str) -> None:
    """Kafka's broker hears of a change behind its answer."""

    def so() -> bool:
        answer = server.quietly("DescribeUserScramCredentials", 0, {"users": None})
        return {each["user"] for each in answer["results"]} == set(names)

    wait_until(so)
