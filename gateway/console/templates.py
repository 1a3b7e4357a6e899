"""Pages from templates, in slices: a page never holds the loop for more than a few milliseconds at a stretch."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from gateway.console import shown

HERE = Path(__file__).parent
SLICE_SECONDS = 0.002
"""So long a page is made before the loop may do something else."""


class Templates:
    """All of them, compiled. To make this takes some 100 ms: do it in a thread."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            cache_size=-1,
        )
        self._environment.filters.update(
            n=shown.number, size=shown.size, age=shown.age, seen=shown.one_line, seg=segment
        )
        self._templates: dict[str, Template] = {
            name: self._environment.get_template(name) for name in self._environment.list_templates()
        }

    async def page(self, name: str, values: dict[str, Any]) -> bytes:
        """The page of a template."""
        parts: list[str] = []
        began = perf_counter()
        for part in self._templates[name].generate(values):
            parts.append(part)
            if perf_counter() - began > SLICE_SECONDS:
                await asyncio.sleep(0)
                began = perf_counter()
        # a lone surrogate of somebody's name is no reason not to show the page
        return "".join(parts).encode("utf-8", "replace")


def segment(text: str) -> str:
    """A name as a part of a path."""
    return quote(text, safe="")


class Clock:
    """Times of one page, in a zone. `now` is ms since 1970."""

    def __init__(self, zone: str, now: int) -> None:
        self._zone = ZoneInfo(zone) if zone != "UTC" else UTC
        self.zone = zone
        self.now = now

    def at(self, when: int | str | None) -> Markup:
        """A time, ms since 1970 or as JSON has it: of today without the date, the whole of it when pointed at."""
        if when is None:
            return Markup("")
        if isinstance(when, str):
            moment = datetime.fromisoformat(when)
        else:
            moment = datetime.fromtimestamp(when / 1000, UTC)
        here = moment.astimezone(self._zone)
        today = datetime.fromtimestamp(self.now / 1000, self._zone).date()
        text = f"{here:%H:%M:%S}" if here.date() == today else f"{here:%Y-%m-%d %H:%M}"
        whole = f"{here:%Y-%m-%d %H:%M:%S.%f}"[:-3] + f" {self.zone}"
        return Markup('<time datetime="{}" title="{}">{}</time>').format(moment.isoformat(), whole, text)

    @property
    def as_of(self) -> str:
        """When the page was made, in words."""
        here = datetime.fromtimestamp(self.now / 1000, self._zone)
        return f"{here:%H:%M:%S} {self.zone}"

    def since(self, when: int | str) -> str:
        """How long ago that was."""
        ms = int(datetime.fromisoformat(when).timestamp() * 1000) if isinstance(when, str) else when
        return shown.age(max(self.now - ms, 0))
