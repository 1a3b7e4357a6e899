"""From a request to a page: files, who asks, whether a form is ours, and which function makes the page.

A form is read first, up to a bound, since its token says whether it is ours; then who asks, and nothing of what the
gateway has is looked up before. Forms that change what it has need `admin.console=write`; those of the console's own
looks and of logins do not.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from gateway.admin.asker import EVERYBODY
from gateway.admin.exchange import RefusedError, Reply
from gateway.admin.login import LoginError
from gateway.admin.pages import UI
from gateway.audit import owner_of
from gateway.console import (
    acts,
    attention_page,
    audit_page,
    below,
    find,
    gateway_page,
    jobs,
    letters,
    message,
    new_topic,
    overview,
    redriving,
    subscription,
    subscriptions_page,
    topic,
    topics,
    transactions_page,
)
from gateway.console.chosen import Letters
from gateway.console.kept import Draft, Kept, Note
from gateway.console.requests import THEMES, View, at_home, cookies, form, is_zone
from gateway.console.sessions import Sessions, Tokens
from gateway.console.templates import HERE, Templates
from gateway.console.visit import SECURITY, Visit, segments, url

if TYPE_CHECKING:
    from gateway.admin.asker import Asker
    from gateway.admin.context import Context
    from gateway.admin.pages import Asked

_log = logging.getLogger(__name__)

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

Page = Callable[..., Awaitable[Reply]]

PAGES: dict[tuple[str, int], Page] = {
    ("", 0): overview.show,
    ("attention", 0): attention_page.show,
    ("topics", 0): topics.show,
    ("topics", 1): new_topic.show,
    ("t", 3): topic.show,
    ("s", 4): subscription.show,
    ("m", 5): message.show,
    ("subscriptions", 0): subscriptions_page.show,
    ("transactions", 0): transactions_page.show,
    ("gateway", 0): gateway_page.show,
    ("audit", 0): audit_page.show,
    ("find", 0): find.show,
    ("t", 4): acts.of_topic,
    ("dead", 0): letters.everywhere,
    ("jobs", 0): jobs.show,
    ("jobs", 1): jobs.one,
    ("s", 5): below.show,
}
"""By the first part of the path and how many parts follow."""

FORMS: dict[tuple[str, int], Page] = {
    ("topics", 0): new_topic.do,
    ("t", 4): acts.do_on_topic,
    ("jobs", 2): jobs.stop,
    ("s", 5): below.send,
}
"""The same for what a form is sent to."""

OF_LETTERS: dict[tuple[str, str], Page] = {
    ("GET", "dead"): letters.show,
    ("GET", "letter"): letters.letter,
    ("GET", "replay"): redriving.look,
    ("GET", "discard"): redriving.look,
    ("POST", "replay"): redriving.do,
    ("POST", "discard"): redriving.do,
}
"""Those of a subscription's dead letters, by the last part of the path: what else may stand there is in `below.py`."""

LARGEST_FORM = 64 * 1024
"""Bytes of a form."""
OF_MANY = ("replay", "reset", "clear")
"""Acts on a subscription whose forms may have more: the value of a dead letter, or where each partition ended."""
LARGEST_OF_MANY = 512 * 1024
"""Bytes of such a one: of a value more than may be sent, so that its page says so and has the text; the ends of 10,000
partitions.
"""


async def open_console(context: Context) -> Console:
    """Templates and files are read in a thread."""
    loop = asyncio.get_running_loop()
    templates, files = await loop.run_in_executor(None, lambda: (Templates(), _files()))
    return Console(context, templates, files)


def _files() -> dict[str, tuple[bytes, str]]:
    root = HERE / "static"
    return {
        each.relative_to(root).as_posix(): (each.read_bytes(), _TYPES[each.suffix])
        for each in sorted(root.rglob("*"))
        if each.suffix in _TYPES
    }


class Console:
    """Of one server."""

    def __init__(self, context: Context, templates: Templates, files: dict[str, tuple[bytes, str]]) -> None:
        self._context = context
        self._templates = templates
        self._files = files
        # pages name files by what is in them, so that a browser may keep them
        self._assets = hashlib.sha256(b"".join(data for data, _ in files.values())).hexdigest()[:12]
        self._writes = context.broker.settings.console == "write"
        self._sessions = Sessions(context.broker.loop.time)
        self._tokens = Tokens()
        self._drafts: Kept[Draft] = Kept(context.broker.loop.time)
        self._notes: Kept[Note] = Kept(context.broker.loop.time)

    # -- cookies: those of another gateway on the same host are others

    def _cookie(self, name: str) -> str:
        return f"magnetar-{name}-{self._context.address.rpartition(':')[2]}"

    def _set(self, name: str, value: str, seconds: int | None = None) -> str:
        lasts = f"; Max-Age={seconds}" if seconds is not None else ""
        secure = "; Secure" if self._context.tls else ""
        return f"{self._cookie(name)}={value}; Path={UI}; HttpOnly; SameSite=Strict{lasts}{secure}"

    # -- a request

    async def answer(self, asked: Asked) -> Reply:
        """A page, a file, or where to look instead."""
        if asked.path in ("/", UI):
            return Reply(303, b"", None, {**SECURITY, "Location": UI + "/"})
        if asked.path.startswith(UI + "/static/"):
            return self._file(asked)
        found = cookies(asked.headers.get("Cookie", ""))
        view = View.read(found.get(self._cookie("view"), ""))
        browser, session = found.get(self._cookie("browser"), ""), found.get(self._cookie("session"), "")
        new = "" if browser else self._tokens.browser()
        visit = self._visit(asked, view, self._tokens.of(browser or new, session))
        if new:
            visit.cookie = self._set("browser", new)
        reply = await self._answered(asked, visit, browser, session)
        return reply._replace(many=tuple(visit.large))

    async def _answered(self, asked: Asked, visit: Visit, browser: str, session: str) -> Reply:
        """A page, if only one that says why there is no other."""
        try:
            visit.path = segments(asked.path)[1:]
            return await self._answer(asked, visit, browser, session)
        except LoginError as refused:
            if refused.status == 401:
                self._sessions.close(session)
                if asked.method == "POST":
                    return await self._login_first(visit)
                return visit.to(f"{UI}/login?back={quote(visit.here, safe='')}")
            return await self._refuse(visit, refused)
        except RefusedError as refused:
            return await self._refuse(visit, refused)
        except Exception:
            _log.exception("The console failed at %s %s", asked.method, asked.path)
            failed = RefusedError(500, "The gateway failed at this page; its log says how.")
            return await self._refuse(visit, failed)

    async def _answer(self, asked: Asked, visit: Visit, browser: str, session: str) -> Reply:
        where = visit.path[0] if visit.path else ""
        if asked.method not in ("GET", "POST"):
            raise RefusedError(
                405, f"Pages are read (GET) and forms are sent (POST), not {asked.method[:20]}."
            )
        if asked.method == "POST":
            large = where == "s" and len(visit.path) == 6 and visit.path[-1] in OF_MANY
            visit.form = await _form(asked, LARGEST_OF_MANY if large else LARGEST_FORM)
            if not self._tokens.good(visit.form.get("token", ""), browser, session):
                raise RefusedError(
                    403, "This form was not made for this browser and login, or the gateway was started since: "
                    "go back, load its page again, and send it from there."
                )  # fmt: skip
        if visit.path == ("login",):
            return await self._login(asked, visit)
        if visit.path == ("logout",) and asked.method == "POST":
            self._sessions.close(session)
            visit.cookie = self._set("session", "", 0)
            return visit.to(UI + "/login")
        if visit.path == ("view",):
            return await self._looks(visit)
        visit.asker = await self._who(asked, session, visit.part)
        visit.known = True
        visit.session = bool(session) and self._sessions.authorization(session, used=False) is not None
        pages = PAGES if asked.method == "GET" else FORMS
        page = pages.get((where, max(len(visit.path) - 1, 0)))
        if where == "s" and len(visit.path) == 6:
            page = OF_LETTERS.get((asked.method, visit.path[-1]), page)
        if page is None:
            raise RefusedError(404, f"There is no page at {asked.path[:200]}.")
        if asked.method == "POST" and not self._writes:
            raise RefusedError(403, "This console changes nothing (admin.console=read). magnetar-admin may.")
        return await page(visit, *visit.path[1:])

    def _visit(self, asked: Asked, view: View, token: str) -> Visit:
        query = dict(asked.query.items())
        # no part of a page's own address
        part = query.pop("part", "") == "live"
        here = asked.path + ("?" + "&".join(_pairs(query)) if query else "")
        return Visit(
            self._context, self._templates, asked.method, (), query, {}, EVERYBODY, view, token,
            self._writes, False, asked.headers.get("Host", ""), here, f"{UI}/static/{self._assets}", self._drafts,
            self._notes, part, asked.headers.get("If-None-Match", ""),
        )  # fmt: skip

    async def _refuse(self, visit: Visit, refused: RefusedError) -> Reply:
        """A page that says why not."""
        return await visit.page(
            "refused.html",
            refused.status,
            title=_TITLES.get(refused.status, "Not done"),
            reason=refused.reason,
        )

    # -- who asks

    async def _who(self, asked: Asked, session: str, part: bool) -> Asker:
        """By the session; without one by what the request shows, as the API does. Raises LoginError."""
        said = self._sessions.authorization(session, used=not part) if session else None
        return await asked.who(said if said is not None else asked.headers.get("Authorization"))

    async def _login(self, asked: Asked, visit: Visit) -> Reply:
        back = at_home(visit.query.get("back", visit.form.get("back", "")))
        if asked.method == "GET":
            return await visit.page("login.html", title="Log in", back=back, wrong="", name="")
        name, password = visit.form.get("name", ""), visit.form.get("password", "")
        said = visit.form.get("said", "").strip()
        if said:
            authorization = "Bearer " + said.removeprefix("Bearer ")
        else:
            authorization = "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()
        try:
            asker = await asked.who(authorization)
        except LoginError as refused:
            return await visit.page(
                "login.html", refused.status, title="Log in", back=back, wrong=refused.reason, name=name
            )
        visit.cookie = self._set("session", self._sessions.open(authorization, owner_of(asker.principal)))
        return visit.to(back)

    async def _login_first(self, visit: Visit) -> Reply:
        """Of a form whose session has ended: nothing is done, and nothing that was typed is lost."""
        return await visit.page(
            "login.html",
            401,
            title="Log in",
            back=at_home(_again(visit)),
            wrong="You are not logged in any more, and nothing was done. "
            "After the login comes the page with what was chosen.",
            name="",
            typed=visit.form.get("value", ""),
        )

    # -- how it looks

    async def _looks(self, visit: Visit) -> Reply:
        """Theme, time zone, keys: kept in a cookie, so that the server makes pages so from the first byte on."""
        back = at_home(visit.query.get("back", visit.form.get("back", "")))
        if visit.method == "GET":
            return await visit.page("view.html", title="How pages look", back=back, wrong="", themes=THEMES)
        theme = visit.form.get("theme", visit.view.theme)
        zone = visit.form.get("zone", visit.view.zone).strip()
        keys = visit.form.get("keys", "on" if visit.view.keys else "off") != "off"
        if not is_zone(zone):
            wrong = f"There is no time zone {zone[:60]!r} here; try UTC or Europe/Berlin."
            return await visit.page(
                "view.html", 400, title="How pages look", back=back, wrong=wrong, themes=THEMES
            )
        chosen = View(theme if theme in THEMES else "auto", zone, keys)
        visit.cookie = self._set("view", chosen.cookie(), 365 * 86400)
        return visit.to(back)

    # -- files

    def _file(self, asked: Asked) -> Reply:
        """Of a name with the hash of all files in it: a browser keeps it for good."""
        name = asked.path.removeprefix(f"{UI}/static/").partition("/")[2]
        found = self._files.get(name)
        if found is None or asked.method != "GET":
            return Reply(404, b"", None, SECURITY)
        data, kind = found
        return Reply(200, data, kind, {**SECURITY, "Cache-Control": "private, max-age=31536000, immutable"})


_TITLES = {
    400: "That makes no sense",
    401: "Who are you?",
    403: "Not allowed",
    404: "Not here",
    405: "Not so",
    409: "In conflict",
    412: "Not as it is",
    413: "Too large",
    429: "Too often",
    500: "The gateway failed",
    501: "Not served",
    503: "Not now",
}


_OF_ONE_TIME = frozenset(
    ("token", "plan", "planned", "ends", "messages", "openBefore", "confirm", "value", "look")
)
"""Fields of a form that are of its preview, or do not belong into an address."""


def _again(visit: Visit) -> str:
    """The page that shows what a form asked for."""
    parts, said = list(visit.path), {n: text for n, text in visit.form.items() if n not in _OF_ONE_TIME}
    if parts[-1:] == ["stop"]:
        parts.pop()
    if letter := said.pop("edit", ""):
        parts[-1:], said = (
            ["letter"],
            {"id": letter, **{n: t for n, t in said.items() if n in Letters.FILTERS}},
        )
    return url(*parts) + ("?" + urlencode(said) if said else "")


async def _form(asked: Asked, largest: int) -> dict[str, str]:
    kind = asked.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise RefusedError(403, "Only a form of this console may be sent here.")
    body = await asked.body()
    if len(body) > largest:
        raise RefusedError(
            413,
            f"The form has more than {largest:,} bytes. Nothing was done; a step back shows what you typed.",
        )
    try:
        if len(body) > LARGEST_FORM:
            # tens of ms, in which others have their turn
            return dict(await asyncio.get_running_loop().run_in_executor(None, form, body))
        return dict(form(body))
    except (ValueError, UnicodeDecodeError):
        raise RefusedError(400, "The body is no form.") from None


def _pairs(query: dict[str, str]) -> list[str]:
    return [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query.items()]
