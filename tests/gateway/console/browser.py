"""A browser without a screen: it keeps cookies, reads the token of forms, and follows nothing by itself."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode

import uvloop
from yarl import URL

from gateway.console.console import open_console
from tests.gateway.admin.conftest import Admin, running
from tests.gateway.admin.secured import Secured, furnish, secured


@dataclass
class Seen:
    """An answer."""

    status: int
    text: str
    headers: Any
    set_cookies: list[str]

    @property
    def location(self) -> str:
        return str(self.headers["Location"])

    @property
    def token(self) -> str:
        found = re.search(r'name="token" value="([0-9a-f]+)"', self.text)
        assert found is not None, self.text
        return found[1]

    @property
    def words(self) -> str:
        """What a reader sees, more or less."""
        return html.unescape(" ".join(re.sub(r"<[^>]*>", " ", self.text.replace("<wbr>", "")).split()))


@dataclass
class Browser:
    admin: Admin
    cookies: dict[str, str] = field(default_factory=dict)

    async def get(self, path: str, **headers: str) -> Seen:
        return await self._ask("GET", path, None, headers)

    async def post(self, path: str, fields: dict[str, str], **headers: str) -> Seen:
        """`token` is that of the first page where the fields have none."""
        if "token" not in fields:
            fields = {**fields, "token": (await self.get("/ui/view")).token}
        headers = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        return await self._ask("POST", path, urlencode(fields).encode(), headers)

    async def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Seen:
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        url = URL(self.admin.server.url + path, encoded=True)
        async with self.admin.session.request(
            method, url, data=body, headers=headers, allow_redirects=False
        ) as answer:
            self.admin.session.cookie_jar.clear()
            said = answer.headers.getall("Set-Cookie", [])
            for line in said:
                for name, morsel in SimpleCookie(line).items():
                    if morsel["max-age"] == "0":
                        self.cookies.pop(name, None)
                    else:
                        self.cookies[name] = morsel.coded_value
            return Seen(answer.status, (await answer.read()).decode(errors="replace"), answer.headers, said)


def browse(test: Callable[[Browser], Coroutine[Any, Any, None]], *settings: str) -> None:
    """Run a coroutine function with a browser and a fresh server that asks nobody."""

    async def main() -> None:
        async with running(settings, pages=open_console) as admin:
            await test(Browser(admin))

    uvloop.run(main())


def browse_secured(test: Callable[[Browser, Secured], Coroutine[Any, Any, None]]) -> None:
    """The same with one that asks who calls, and has what `furnish` makes."""

    async def main() -> None:
        async with secured(pages=open_console) as at:
            await furnish(at)
            await test(Browser(at.admin), at)

    uvloop.run(main())
