"""Pages from templates, in slices: a page never holds the loop for more than a few milliseconds at a stretch."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from jinja2 import DictLoader, Environment, StrictUndefined, Template
from jinja2.meta import find_referenced_templates
from markupsafe import Markup, escape

from gateway.admin.slices import Pace
from gateway.console import shown, states
from semantics.moments import iso, moment_ms, nearest

HERE = Path(__file__).parent


class Templates:
    """All of them. They are read when this is made, and each is compiled when a page first needs it.

    So a gateway whose console nobody looks at compiles none, and one whose files are replaced while it runs shows pages
    of its own version.
    """

    def __init__(self) -> None:
        self._environment = _environment()

    async def page(self, name: str, values: dict[str, Any]) -> bytes:
        """The page of a template."""
        template = _made.get(name)
        if template is None:
            template = await asyncio.get_running_loop().run_in_executor(None, _make, self._environment, name)
        parts: list[str] = []
        pace = Pace()
        # what was done for the page comes before
        await pace.rest(0)
        for part in template.generate(values):
            parts.append(part)
            await pace.rest()
        await pace.rest(0)
        # a lone surrogate of somebody's name is no reason not to show the page
        return "".join(parts).encode("utf-8", "replace")


def segment(text: str) -> str:
    """A name as a part of a path."""
    return quote(text, safe="")


@functools.cache
def _environment() -> Environment:
    """Of this process: it never changes, and its templates are compiled once."""
    folder = HERE / "templates"
    made = Environment(
        loader=DictLoader(
            {each.name: _fields_kept(each.read_text("utf-8")) for each in sorted(folder.glob("*.html"))}
        ),
        finalize=shown.any_value,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        cache_size=-1,
    )
    made.filters.update(n=shown.number, size=shown.size, age=shown.age, seen=shown.one_line, seg=segment)
    made.filters.update(plural=shown.plural, short=shown.short, jointed=shown.jointed)
    made.globals.update(WORDS=states.WORDS, ICONS=states.ICONS)
    made.filters["kept"] = shown.Kept
    return made


_FIELD = re.compile(
    r'(?<=\bvalue=")\{\{ (?P<value>(?:(?!\}\}).)+) \}\}(?=")|\{\{ (?P<text>\w+) \}\}(?=</textarea>)'
)


def _fields_kept(source: str) -> str:
    """A template whose forms send back what they were given to the character: all else that pages show is visible
    (`shown.any_value`), but a name that is sent back escaped would be another one.
    """
    return _FIELD.sub(lambda found: f"{{{{ ({found['value'] or found['text']}) | string | kept }}}}", source)


LAYOUTS = WHOLE, PART = "base.html", "part.html"
"""What pages extend: a whole page, and what of it goes on by itself."""

_made: dict[str, Template] = {}
"""What is compiled, with all that it extends, includes or imports."""


def _make(environment: Environment, name: str) -> Template:
    """Compile a template and what it names: this takes some 10 ms each, so it is done in a thread.

    Else the loop would compile what a page extends, when it is shown.
    """
    if name not in _made:
        assert environment.loader is not None
        source, _, _ = environment.loader.get_source(environment, name)
        for other in find_referenced_templates(environment.parse(source)):
            # None: by a variable, and that is the frame
            for each in LAYOUTS if other is None else (other,):
                _make(environment, each)
        _made[name] = environment.get_template(name)
    return _made[name]


_ISO = re.compile(
    r"(?<![\w-])\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)(?!\w)", re.ASCII
)
"""A time as answers of the API have it."""


class Clock:
    """Times of one page, in a zone. `now` is ms since 1970."""

    def __init__(self, zone: str, now: int) -> None:
        self.tz = ZoneInfo(zone) if zone != "UTC" else UTC
        self.zone = zone
        self.now = now

    def at(self, when: int | str | None) -> Markup:
        """A time, ms since 1970 or as JSON has it: of today without the date, the whole of it when pointed at."""
        if when is None:
            return Markup("")
        if isinstance(when, str):
            moment = datetime.fromisoformat(when)
        else:
            moment = nearest(when)
        try:
            here, zone = moment.astimezone(self.tz), self.zone
        except (OverflowError, ValueError):
            # at an end of the calendar, as a client may have said
            here, zone = moment, "UTC"
        today = datetime.fromtimestamp(self.now / 1000, self.tz).date()
        plain = here.replace(tzinfo=None)
        text = f"{here:%H:%M:%S}" if here.date() == today else plain.isoformat(" ", "minutes")
        whole = f"{plain.isoformat(' ', 'milliseconds')} {zone}"
        return Markup('<time datetime="{}" title="{}">{}</time>').format(moment.isoformat(), whole, text)

    def said(self, sentence: str) -> Markup:
        """A sentence of the API, in which each time is shown as `at` shows one."""
        parts: list[str] = []
        end = 0
        for found in _ISO.finditer(sentence):
            with contextlib.suppress(ValueError, OverflowError):
                # one that there is not, such as the 31st of February, stays as it was said
                shown_at = self.at(found[0])
                parts += [escape(shown.any_value(sentence[end : found.start()])), shown_at]
                end = found.end()
        return Markup("").join([*parts, escape(shown.any_value(sentence[end:]))])

    def moment_ms(self, said: str) -> int:
        """A time as somebody typed it, in ms since 1970; without a zone of its own in this one. Raises MomentError."""
        return moment_ms(said, self.now, self.tz)

    def moment(self, said: str) -> str:
        """The same as the API has it. Raises MomentError."""
        return iso(self.moment_ms(said), self.tz)

    @property
    def as_of(self) -> str:
        """When the page was made, in words."""
        here = datetime.fromtimestamp(self.now / 1000, self.tz)
        return f"{here:%H:%M:%S} {self.zone}"

    def since(self, when: int | str) -> str:
        """How long ago that was."""
        ms = int(datetime.fromisoformat(when).timestamp() * 1000) if isinstance(when, str) else when
        return shown.age(max(self.now - ms, 0))
