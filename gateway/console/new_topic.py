"""/ui/topics/new: a topic that is to be made. What it would be comes first, then the form that makes it.

With what is wrong in what was typed, the list of topics has the form again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from gateway.admin.exchange import RefusedError
from gateway.console import topics
from gateway.console.topic import Place, says
from gateway.console.visit import url
from semantics.command_line import line
from semantics.names import NON_PERSISTENT, NamingError, parse

if TYPE_CHECKING:
    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit

_WRONG = (400, 403, 404, 409, 412, 422)
"""Statuses that say something of what was typed."""


class _Typed(NamedTuple):
    place: Place
    partitions: int
    """0: a plain topic"""

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> _Typed:
        """Refuses with 412 what is no name of a topic, and what is no number of partitions."""
        count = fields.get("partitions", "1").strip()
        try:
            name = parse(fields.get("topic", "").strip())
        except NamingError as error:
            raise RefusedError(412, str(error)) from None
        if not count.isascii() or not count.isdigit() or len(count) > 6:
            raise RefusedError(
                412, f"How many partitions is a number, 0 for a plain topic; not {count[:20]!r}."
            )
        return cls(Place(name.domain, name.namespace.tenant, name.namespace.name, name.local), int(count))

    async def call(self, visit: Visit, **query: str) -> Reply:
        """The call that makes it, or says with a query what it would be."""
        if self.partitions:
            return await visit.call("PUT", *self.place.path, "partitions", body=self.partitions, **query)
        return await visit.call("PUT", *self.place.path, body={}, **query)

    @property
    def command(self) -> str:
        if not self.partitions:
            return line("topics", "create", self.place.word)
        return line("topics", "create-partitioned-topic", self.place.word, "-p", str(self.partitions))


async def show(visit: Visit, page: str) -> Reply:
    """What it would be."""
    if page != "new":
        raise RefusedError(404, "There is no such page of topics.")
    try:
        typed = _Typed.read(visit.query)
        reply = await typed.call(visit, dryRun="true")
    except RefusedError as refused:
        return await _again(visit, refused)
    seen: dict[str, Any] = msgspec.json.decode(reply.body)
    place, in_memory = typed.place, typed.place.domain == NON_PERSISTENT
    return await visit.page(
        "new_topic.html",
        title=f"Make the {'non-persistent ' if in_memory else ''}topic {place.local}?",
        section="topics",
        crumbs=place.crumbs(),
        place=place,
        in_memory=in_memory,
        count=typed.partitions,
        typed=visit.query.get("topic", "").strip(),
        policies=[{**each, "says": says(each)} for each in seen["policies"]],
        command=typed.command,
    )


async def do(visit: Visit) -> Reply:
    """Make it."""
    try:
        typed = _Typed.read(visit.form)
        await typed.call(visit)
    except RefusedError as refused:
        return await _again(visit, refused)
    return visit.to(url("t", *typed.place.path[1:]))


async def _again(visit: Visit, refused: RefusedError) -> Reply:
    if refused.status not in _WRONG:
        raise refused
    return await topics.show(visit, refused.reason, refused.status)
