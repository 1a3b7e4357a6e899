"""One request for a page: who asks, how it is to look, and the calls of the admin API that it makes."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import msgspec

from gateway.admin.exchange import HTML, Call, Many, RefusedError, Reply, Told
from gateway.admin.login import CHALLENGE, LoginError
from gateway.admin.performing import perform
from gateway.admin.roles import missed
from gateway.admin.slices import turn
from gateway.audit import clean
from gateway.console import counts
from gateway.console.commands import command_of
from gateway.console.kept import Note, told
from gateway.console.templates import PART, WHOLE, Clock
from gateway.peer import NOBODY
from semantics.command_line import line
from semantics.names import Namespace, NamingError, TopicName, canonical

if TYPE_CHECKING:
    from gateway.admin.asker import Asker
    from gateway.admin.context import Context
    from gateway.admin.routes import Key
    from gateway.console.kept import Draft, Kept
    from gateway.console.requests import View
    from gateway.console.templates import Templates

ROWS = 50
"""Rows of a table on a page."""
VIA = "console"
"""How the audit calls what pages do."""
LIVE = 5
"""A page with figures has them made anew so often, in seconds, while it is looked at."""
AS_OF = "X-As-Of"
"""The header that says when they were made, in the zone of the reader."""

DOORS: dict[str, Key] = {
    "gateway": ("GET", "brokers", "configuration/runtime"),
    "audit": ("GET", "magnetar", "audit"),
}
"""Pages that not everybody may see, and the call that each is made of."""

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""A page may load what this server has, and nothing else; no script and no style may stand in it."""

SECURITY = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # of "no-referrer" a browser makes the Origin of its own forms null
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of each answer."""


@dataclass(slots=True)
class Visit:
    """What page functions work with."""

    context: Context
    templates: Templates
    method: str
    # the parts of the path behind /ui, decoded
    path: tuple[str, ...]
    query: Mapping[str, str]
    form: Mapping[str, str]
    asker: Asker
    view: View
    # of this browser's forms
    token: str
    # whether pages may change something
    writes: bool
    # by a session, which can be left
    session: bool
    host: str
    here: str
    assets: str
    # edits that this browser looks at, and those of others
    drafts: Kept[Draft]
    # what was done, for the page behind it to tell
    notes: Kept[Note]
    # whether it is but for what may have changed of a page that is looked at
    part: bool = False
    # the ETag of what the browser has of it
    has: str = ""
    # a Set-Cookie of the answer
    cookie: str = ""
    # whether it was asked who that is
    known: bool = False
    # what pages were made of, to be let go behind them
    large: list[Many] = field(default_factory=list)
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = Clock(self.view.zone, self.context.broker.clock.wall_ms())

    # -- the admin API ----------------------------------------------------------------------------------------------

    async def call(self, method: str, *path: str, body: object = None, **query: str) -> Reply:
        """What the admin API answers. Raises RefusedError, with its reason, for what is no success."""
        said = b"" if body is None else msgspec.json.encode(body)
        # what was done for the page before
        await turn()
        reply = await perform(
            self.context,
            Call(
                method,
                path,
                query,
                said,
                self.host,
                "magnetar-console",
                asker=self.asker,
                told=Told(clean(command_of(method, path, body)), via=VIA),
            ),
        )
        await turn()
        if reply.status < 300:
            return reply
        reason = str(msgspec.json.decode(reply.body).get("reason", "")) if reply.body else ""
        if reply.status == 401:
            raise LoginError(401, reason, CHALLENGE)
        raise RefusedError(reply.status, reason)

    async def get(self, *path: str, **query: str) -> Any:
        """The JSON that it answers a read with."""
        reply = await self.call("GET", *path, **query)
        return msgspec.json.decode(reply.body) if reply.body else None

    async def value(self, *path: str, **query: str) -> Any:
        """The same as `get` for a large answer: what it was made of, where that says the same. Not to be changed."""
        reply = await self.call("GET", *path, **query)
        if isinstance(reply.value, dict):
            self.large += reply.many
            return reply.value
        return msgspec.json.decode(reply.body)

    async def try_get(self, *path: str, **query: str) -> tuple[Any, str]:
        """The same, or None and why not: a page shows the rest of what it has."""
        try:
            return await self.get(*path, **query), ""
        except LoginError:
            raise
        except RefusedError as refused:
            return None, refused.reason

    async def may(self, key: Key, *path: str) -> bool:
        """Whether the caller may make a call."""
        return not await self.missed(key, *path)

    async def missed(self, key: Key, *path: str) -> str:
        """What it takes, as a sentence, of a call that the caller may not make; "" of one that it may."""
        says = await missed(self.context.broker, key, Call(key[0], path, asker=self.asker))
        return f"{says[0].upper()}{says[1:]}." if says else ""

    async def get_if_may(self, need: Key, /, *path: str, **query: str) -> tuple[Any, str]:
        """`try_get` of what the caller may read. Else nothing is asked: a part of a page that its reader may not see is
        no attempt to see it, and the audit has nothing to tell.
        """
        why_not = await self.missed(need, *path)
        return (None, why_not) if why_not else await self.try_get(*path, **query)

    def number(self, name: str, most: int = 2**63 - 1) -> tuple[int, str]:
        """(a number of the query, from 0 to `most`, what is wrong with it): for what is none, where a list begins, 0,
        and why.
        """
        said = self.query.get(name, "").strip()
        if not said or (said.isascii() and said.isdigit() and len(said) < 20 and int(said) <= most):
            return int(said or 0), ""
        bounds = f" from 0 to {most:,}" if most < 2**31 else ""
        return 0, f"{name} is a number{bounds}, not {said[:40]!r}; this is the first page."

    def one_of(self, name: str, among: Collection[str], default: str) -> tuple[str, str]:
        """(which of some the query says, what is wrong with it): for what is none of them, the default and why. The
        default "" is none of them: what a page shows of which nobody says more.
        """
        said = self.query.get(name, "").strip()
        if not said:
            return default, ""
        if said in among:
            return said, ""
        shown = f"; this is {default}" if default else ""
        return default, f"{name} is one of {', '.join(among)}, not {said[:40]!r}{shown}."

    def domain(self, tenant: str, namespace: str, local: str) -> str:
        """Of a topic: persistent, unless the one of this name is not."""
        catalog = self.context.broker.catalog
        try:
            name = TopicName(Namespace.of(tenant, namespace), local, "persistent")
            found = catalog.get(canonical(name)) or catalog.get(canonical(name.parent))
        except NamingError:
            return "persistent"
        return "non-persistent" if found is not None and found.transient else "persistent"

    # -- answers ----------------------------------------------------------------------------------------------------

    async def page(self, template: str, status: int = 200, **values: Any) -> Reply:
        """A page. `title` and `section` are its name and where in the head it belongs; `live` says how often its
        figures are made anew, in seconds, 0 for never.
        """
        broker = self.context.broker
        # what runs here is told to who may ask the API for it
        tells = self.known or not broker.settings.admin_authentication
        body = await self.templates.page(
            template,
            {
                "v": self,
                "clock": self.clock,
                "line": line,
                "assets": self.assets,
                "version": broker.version if tells else "",
                "node": broker.node_id if tells else "",
                "who": self.asker.principal if self.asker.identity is not NOBODY else "",
                "section": "",
                "layout": PART if self.part else WHOLE,
                "live": 0,
                "open_letters": counts.open_letters(self.context, self.asker) if self.known else (0, False),
                "running_jobs": counts.running(self.context, self.asker) if self.known else 0,
                "crumbs": [],
                "closed": await self._closed(),
                **values,
            },
        )
        headers = {**SECURITY, "Cache-Control": "no-store"}
        if self.cookie:
            headers["Set-Cookie"] = self.cookie
        if self.part:
            headers[AS_OF] = self.clock.as_of
            headers["ETag"] = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
            if status == 200 and headers["ETag"] == self.has:
                return Reply(304, b"", None, headers)
        return Reply(status, body, HTML, headers)

    def note(self) -> str:
        """What this browser has just done, told once; "" for nothing. No link of somebody else says it."""
        return told(self.notes, self.token, self.query.get("did", ""), anew=self.part)

    def did(self, path: str, text: str) -> Reply:
        """See another page, which tells what was done."""
        return self.to(f"{path}?did={self.notes.keep(self.token, Note(text))}")

    async def _closed(self) -> list[str]:
        """Names of pages in the head that this caller may not see."""
        if not self.known:
            # nobody has said yet who it is
            return list(DOORS) if self.context.broker.settings.authorization else []
        return [name for name, key in DOORS.items() if not await self.may(key)]

    def to(self, path: str) -> Reply:
        """See another page."""
        headers = {**SECURITY, "Cache-Control": "no-store", "Location": path}
        if self.cookie:
            headers["Set-Cookie"] = self.cookie
        return Reply(303, b"", None, headers)


def url(*parts: str | int) -> str:
    """The path of a page."""
    return "/ui/" + "/".join([quote(str(part), safe="") for part in parts])


def topic_parts(full: str) -> tuple[str, str, str, str]:
    """(domain, tenant, namespace, local) of a topic's full name."""
    domain, _, rest = full.partition("://")
    tenant, namespace, local = rest.split("/", 2)
    return domain, tenant, namespace, local


def segments(path: str) -> tuple[str, ...]:
    """The parts of a path, decoded after they were split. Refuses what is not UTF-8 with 400."""
    try:
        return tuple(unquote(part, errors="strict") for part in path.strip("/").split("/") if part)
    except UnicodeDecodeError:
        raise RefusedError(400, "The path is not percent-encoded UTF-8.") from None
