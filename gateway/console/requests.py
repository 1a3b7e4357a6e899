"""What a browser sends: cookies, forms, and how its user wants pages to look. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote
from zoneinfo import ZoneInfo

MOST_FIELDS = 200
"""Fields of a form."""
MOST_COOKIES = 100
"""Cookies that are looked at."""

THEMES = ("auto", "light", "dark")
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_AT_HOME = re.compile(r"/ui/[^\\\x00-\x20]*")


class View(NamedTuple):
    """How pages look, from a cookie."""

    theme: str = "auto"
    zone: str = "UTC"
    # whether single keys do something
    keys: bool = True

    @classmethod
    def read(cls, cookie: str) -> View:
        """What a cookie says, as far as it makes sense."""
        theme, zone, keys = (*unquote(cookie).split("|"), "", "", "")[:3]
        return cls(theme if theme in THEMES else "auto", zone if is_zone(zone) else "UTC", keys != "off")

    def cookie(self) -> str:
        return quote(f"{self.theme}|{self.zone}|{'on' if self.keys else 'off'}", safe="")

    @property
    def next_theme(self) -> str:
        """What the button in the head switches to."""
        return THEMES[(THEMES.index(self.theme) + 1) % len(THEMES)]


def is_zone(name: str) -> bool:
    """Whether there is a time zone of this name."""
    if len(name) > 64 or not _ZONE.fullmatch(name):
        return False
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # a folder of zones is none
        return False
    return True


def cookies(header: str) -> dict[str, str]:
    """By name; of two of a name the first, as browsers send the most specific first."""
    found: dict[str, str] = {}
    for each in header.split(";", MOST_COOKIES)[:MOST_COOKIES]:
        name, equals, value = each.strip().partition("=")
        if equals:
            found.setdefault(name, value)
    return found


def form(body: bytes) -> Mapping[str, str]:
    """The fields of a form; of two of a name the last. Raises ValueError for what is none."""
    pairs = parse_qsl(
        body.decode("ascii"),
        keep_blank_values=True,
        strict_parsing=bool(body),
        errors="strict",
        max_num_fields=MOST_FIELDS,
    )
    return dict(pairs)


def at_home(path: str) -> str:
    """A path to go back to, if it is one of ours; else the first page. Nobody is sent to another site."""
    return path if _AT_HOME.fullmatch(path) and "//" not in path else "/ui/"
