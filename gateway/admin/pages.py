"""What answers beside the API on the same port: web pages (`gateway.console`), as this package sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from gateway.admin.asker import Asker
    from gateway.admin.context import Context
    from gateway.admin.exchange import Reply

UI = "/ui"
"""Where pages begin."""


class Asked(NamedTuple):
    """A request for a page. Its Host and its Origin are looked at already."""

    method: str
    # as it came, percent-encoded
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    # the whole body, where it is wanted
    body: Callable[[], Awaitable[bytes]]
    # who it is that shows this Authorization, or with None what its connection shows. Raises LoginError
    who: Callable[[str | None], Awaitable[Asker]]


class Pages(Protocol):
    """What answers."""

    async def answer(self, asked: Asked) -> Reply: ...


MakePages = Callable[["Context"], Awaitable[Pages]]


def is_page(path: str) -> bool:
    """Whether a path, as it came, is that of a page."""
    return path in ("/", UI) or path.startswith(UI + "/")
