"""Ids of groups, in which the groups of namespaces with listeners of their own are told apart.

    billing                 billing            (of clients whose home is public/default)
    shop/eu/\\x1fbilling     billing            (of clients whose home is shop/eu)

The left is what is kept, as a group's id and as the name of its subscriptions; the right is what its clients, and
Pulsar's admin API, call it. The mark between them is a control character, which no client's id may hold: so nobody can
name the group of another home, and no id has to be escaped.
"""

from __future__ import annotations

from semantics.names import DEFAULT, Namespace

SEPARATOR = "\x1f"
"""In an id that is kept, and in no id that a client says."""
MARK = "/" + SEPARATOR
"""Between a namespace and a name."""


def scoped(home: Namespace, name: str) -> str:
    """The id of the group that clients of a home call so. "" stays what it is: it is nobody's name."""
    return name if home == DEFAULT or not name else f"{home}{MARK}{name}"


def may_be_said(home: Namespace, group_id: str) -> bool:
    """Whether clients of a home have a name for the group of this id. They have one for "", which is nobody's."""
    scope = "" if home == DEFAULT or not group_id else f"{home}{MARK}"
    return group_id.startswith(scope) and SEPARATOR not in group_id[len(scope) :]


def bare(group_id: str) -> str:
    """What its clients call a group."""
    _, mark, name = group_id.partition(MARK)
    return name if mark else group_id


def home_of(group_id: str) -> Namespace:
    """Where its clients are at home."""
    namespace, mark, _ = group_id.partition(MARK)
    return Namespace(*namespace.split("/")) if mark else DEFAULT


def topic_prefix(group_id: str) -> str:
    """How the names of topics in a group's home begin in the catalog, where its members leave that out."""
    namespace, mark, _ = group_id.partition(MARK)
    return namespace.replace("/", ".") + "." if mark else ""


def shown(group_id: str) -> str:
    """An id for people: `billing`, or `shop/eu/billing`."""
    return group_id.replace(MARK, "/")
