"""ACLs: made, listed by filters, removed, refused."""

from __future__ import annotations

from typing import Any

from compat.compare.server import Server, wait_until

ANY, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN = 1, 2, 3, 4, 5, 6
MATCH, LITERAL, PREFIXED = 2, 3, 4
ALL, READ, WRITE, CREATE, DESCRIBE = 2, 3, 4, 5, 8
DENY, ALLOW = 2, 3


def script(server: Server) -> None:
    create(server)
    describe(server)
    refused(server)
    delete(server)


def acl(name: str = "orders", operation: int = READ, **others: Any) -> dict[str, Any]:
    return {
        "resource_type": TOPIC,
        "resource_name": name,
        "resource_pattern_type": LITERAL,
        "principal": "User:ada",
        "host": "*",
        "operation": operation,
        "permission_type": ALLOW,
        **others,
    }


def which(**others: Any) -> dict[str, Any]:
    """A filter."""
    return {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
        **others,
    }


ACLS = [
    acl(),
    acl(operation=DESCRIBE),
    acl(operation=WRITE, permission_type=DENY, principal="User:*", host="10.0.0.9"),
    acl("ord", resource_pattern_type=PREFIXED),
    acl("orders", resource_pattern_type=PREFIXED, principal="User:bob"),
    acl("*", ALL, principal="Group:x"),
    acl("*", ALL, host="no address", permission_type=DENY),
    acl("other", CREATE, principal="User:", host=""),
    acl("billing", resource_type=GROUP),
    acl("kafka-cluster", DESCRIBE, resource_type=CLUSTER),
    acl("kafka-cluster", DESCRIBE, resource_type=CLUSTER, resource_pattern_type=PREFIXED),
    acl("tx", WRITE, resource_type=TRANSACTIONAL_ID),
    # an operation that its resource has not
    acl("token", CREATE, resource_type=TOKEN),
]
FILTERS = {
    "all": which(),
    "topics": which(resource_type_filter=TOPIC),
    "literal": which(pattern_type_filter=LITERAL),
    "prefixed": which(pattern_type_filter=PREFIXED),
    "by name": which(resource_name_filter="orders"),
    "by name, literal": which(resource_name_filter="orders", pattern_type_filter=LITERAL),
    "by name, prefixed": which(resource_name_filter="orders", pattern_type_filter=PREFIXED),
    "what matches": which(
        resource_type_filter=TOPIC, resource_name_filter="orders", pattern_type_filter=MATCH
    ),
    "what matches of any type": which(resource_name_filter="tx", pattern_type_filter=MATCH),
    "what matches the star": which(resource_name_filter="*", pattern_type_filter=MATCH),
    "the star": which(resource_name_filter="*"),
    "an empty name": which(resource_name_filter=""),
    "nothing": which(resource_name_filter="missing"),
    "a principal": which(principal_filter="User:ada"),
    "everybody": which(principal_filter="User:*"),
    "no principal": which(principal_filter="ada"),
    "a host": which(host_filter="10.0.0.9"),
    "every host": which(host_filter="*"),
    "an operation": which(operation=READ),
    "all operations": which(operation=ALL),
    "what is denied": which(permission_type=DENY),
}


def create(server: Server) -> None:
    for version in server.versions("CreateAcls"):
        server.ask("ACLs", "CreateAcls", version, {"creations": ACLS})
        server.ask("ACLs that are there", "CreateAcls", version, {"creations": [acl(), acl(), acl()]})
        server.ask("no ACLs", "CreateAcls", version, {"creations": []})


def describe(server: Server) -> None:
    def known() -> bool:
        found = server.quietly("DescribeAcls", server.versions("DescribeAcls")[-1], which())
        return sum(len(each["acls"]) for each in found["resources"]) == len(ACLS)

    # Kafka's brokers hear from their controller a moment later
    wait_until(known)
    for label, said in FILTERS.items():
        server.ask_all(f"ACLs: {label}", "DescribeAcls", said)


def refused(server: Server) -> None:
    for label, bad in (
        ("an empty name", acl("")),
        ("another cluster", acl("cluster", resource_type=CLUSTER)),
        ("a cluster that is any", acl("*", resource_type=CLUSTER)),
        ("no principal", acl(principal="ada")),
        ("an empty principal", acl(principal="")),
    ):
        beside = {"creations": [acl("a"), bad, acl("b")]}
        server.ask_all(f"an ACL of {label}", "CreateAcls", beside)
    for label, said in (
        ("type", which(resource_type_filter=77)),
        ("operation", which(operation=77)),
        ("pattern", which(pattern_type_filter=77)),
        ("permission", which(permission_type=77)),
    ):
        server.ask_all(
            f"to remove ACLs of an unknown {label}", "DeleteAcls", {"filters": [said, which(operation=6)]}
        )


def delete(server: Server) -> None:
    for label, said in FILTERS.items():
        version = server.versions("DeleteAcls")[-1]
        server.quietly("CreateAcls", server.versions("CreateAcls")[-1], {"creations": ACLS})
        server.ask(f"to remove ACLs: {label}", "DeleteAcls", version, {"filters": [said]})
        server.ask(f"to remove what is left: {label}", "DeleteAcls", version, {"filters": [which()]})
    server.quietly("CreateAcls", server.versions("CreateAcls")[-1], {"creations": ACLS})
    several = [FILTERS["by name"], FILTERS["topics"], FILTERS["nothing"]]
    for version in server.versions("DeleteAcls"):
        server.ask("to remove ACLs by several filters", "DeleteAcls", version, {"filters": several})
        server.ask("to remove no ACLs", "DeleteAcls", version, {"filters": []})
    server.quietly("DeleteAcls", server.versions("DeleteAcls")[-1], {"filters": [which()]})
