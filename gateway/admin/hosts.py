"""By which names this gateway may be called over HTTP, and by which pages.

A browser adds a password to what it asks by itself, and a loopback port may ask for none: so a page in somebody's
browser must not be able to use the browser as its hand. A page of another site is known by its Origin. One whose own
name was made to lead here after it was loaded (DNS rebinding) has the right Origin, and is known by the Host that it
asks for: a name that is not this gateway's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gateway.admin.exchange import RefusedError

if TYPE_CHECKING:
    from gateway.config.settings import Settings

ANY = "*"
"""In admin.allowed.hosts: every name."""


def own_names(settings: Settings) -> frozenset[str]:
    """The names that settings give this gateway: what it binds, what it advertises, admin.allowed.hosts."""
    names = set(settings.strings("admin.allowed.hosts"))
    if settings.admin is not None:
        names.add(settings.admin.host)
    for listener in settings.listeners:
        names.update((listener.host, listener.advertised_host))
    return frozenset(name.lower().rstrip(".") for name in names if name)


def check_host(host: str | None, names: Collection[str]) -> None:
    """Refuse a Host (`name:port`) that is no address, not localhost and none of `names`. None: HTTP/1.0 has no Host."""
    if host is None or ANY in names:
        return
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        name = ""
    if name == "localhost" or name.endswith(".localhost") or name in names or _is_address(name):
        return
    raise RefusedError(
        403,
        f"This gateway is not known as {name[:200]!r}. If it is meant to be reached by that name, put the name into "
        "admin.allowed.hosts.",
    )


def check_origin(method: str, headers: Mapping[str, str]) -> None:
    """Refuse a write that a page of another site makes."""
    if method in ("GET", "HEAD"):
        return
    origin = headers.get("Origin")
    if origin is None:
        return
    try:
        site = urlsplit(origin).netloc
    except ValueError:
        # no browser writes such a one
        site = ""
    if not site or site.lower() != headers.get("Host", "").lower():
        raise RefusedError(403, "A page of another site may not change anything here.")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
