"""Ids of groups, in which the groups of namespaces with listeners of their own are told apart.

    billing                 billing            (of clients whose home is public/default)
    shop/eu/\\x1fbilling     billing            (of clients whose home is shop/eu)

The left is what is kept, as a group's id and as the name of its subscriptions; the right is what its clients, and
Pulsar's admin API, call it. The mark between them is a control character, which no client's id may hold: so nobody can
name the group of another home, and no id has to be escaped.

People read neither the mark nor an id that might be two: `shown` writes a home where it is not that of the reader, with
two slashes behind, and no two ids are shown alike.
"""

from __future__ import annotations

import re

from semantics.names import DEFAULT, Namespace

SEPARATOR = "\x1f"
"""In an id that is kept, and in no id that a client says."""
MARK = "/" + SEPARATOR
"""Between a namespace and a name."""
_SHOWN = "//"
"""The same for people."""
_FULL = re.compile(r"([a-zA-Z0-9_-]+)/([a-zA-Z0-9_-]+)//(?=.)", re.DOTALL)
"""How an id is shown that has its home in front."""


def scoped(home: Namespace, name: str) -> str:
    """The id of the group that clients of a home call so. "" stays what it is: it is nobody's name."""
    return name if home == DEFAULT or not name else f"{home}{MARK}{name}"


def scope_of(home: Namespace) -> str:
    """How the ids of groups begin whose clients are at home there. Those of public/default have nothing in common."""
    assert home != DEFAULT
    return f"{home}{MARK}"


def may_be_said(home: Namespace, group_id: str) -> bool:
    """Whether clients of a home have a name for the group of this id. They have one for "", which is nobody's."""
    scope = "" if home == DEFAULT or not group_id else f"{home}{MARK}"
    return group_id.startswith(scope) and SEPARATOR not in group_id[len(scope) :]


def bare(group_id: str) -> str:
    """What its clients call a group."""
    scope, mark, name = group_id.partition(MARK)
    return name if mark and scope.count("/") == 1 else group_id


def home_of(group_id: str) -> Namespace:
    """Where its clients are at home. Ids that clients made up before the mark was refused are of public/default."""
    scope, mark, _ = group_id.partition(MARK)
    return Namespace(*scope.split("/")) if mark and scope.count("/") == 1 else DEFAULT


def topic_prefix(group_id: str) -> str:
    """How the names of topics in a group's home begin in the catalog, where its members leave that out."""
    namespace, mark, _ = group_id.partition(MARK)
    return namespace + "/" if mark else ""


def shown(group_id: str, home: Namespace = DEFAULT) -> str:
    """An id for people to whom groups of a home have their bare names: `billing`, or `shop/eu//billing` of another one.
    A name that begins like that itself has its home in front, too: so this is the name of one group only.
    """
    own, name = home_of(group_id), bare(group_id)
    return name if own == home and not _FULL.match(name) else full(own, name)


def full(home: Namespace, name: str) -> str:
    """A name with its home in front, for people."""
    return f"{home}{_SHOWN}{name}"


def parts(text: str) -> tuple[Namespace, str] | None:
    """(home, name) of what has its home in front; None for what has not."""
    found = _FULL.match(text)
    return (Namespace(found[1], found[2]), text[found.end() :]) if found is not None else None


def in_text(text: str) -> str:
    """A text for people that has ids in it."""
    return text.replace(MARK, _SHOWN)
