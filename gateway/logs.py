"""Log lines for people (text) and for machines (json), over the standard library's logging.

    log = logging.getLogger(__name__)
    log.info("topic created", extra={"topic": "orders", "partitions": 4})

gives one line on stderr, whatever a client put into a name:

    2026-01-31T12:00:00.123Z INFO    topic created  topic=orders partitions=4
    {"time": "2026-01-31T12:00:00.123Z", "level": "info", "logger": "gateway.broker", "message": ...}

What is said again and again is written some times and counted from then on: see `log_budget.py`.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator
from typing import TextIO

from gateway.log_budget import LogBudget
from semantics.group_names import in_text, shown
from semantics.names import dotted, is_canonical

# what logging itself puts on every record; the rest came in by `extra`
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

_COLOURS = {"DEBUG": "2", "WARNING": "33", "ERROR": "31", "CRITICAL": "31;1"}

# printable, and not a character that would make a bare word ambiguous
_QUOTED = frozenset(' "=\\')


# the handler that writes, and what it may write
_writing: tuple[logging.Handler, LogBudget] | None = None


def setup(level: str = "info", form: str = "text", stream: TextIO | None = None) -> None:
    """Send the log to `stream` (None: stderr). `level` and `form` are settings: log.level, log.format."""
    stream = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(stream)
    if form == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(TextFormatter(coloured=stream.isatty() and not os.environ.get("NO_COLOR")))
    budget = LogBudget()
    handler.addFilter(budget)
    global _writing
    _writing = handler, budget
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    # a line for every scrape is noise; /metrics counts them
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    # a reader of stderr that went away must not put tracebacks between the answers to clients
    logging.raiseExceptions = False


def tell_untold() -> None:
    """Write how many lines were left out where something was said too often: call it once a second."""
    if _writing is not None:
        handler, budget = _writing
        for record in budget.untold():
            handler.emit(record)


def left_out() -> int:
    """Lines that were left out since the start, because their place had said too much."""
    return _writing[1].left_out if _writing is not None else 0


def fields(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    """What `extra` added to a record, in its order."""
    for name, value in vars(record).items():
        if name not in _OWN:
            yield name, value


def timestamp(seconds: float) -> str:
    """UTC with milliseconds, as in RFC 3339."""
    whole = int(seconds)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{int((seconds - whole) * 1000):03d}Z"


class TextFormatter(logging.Formatter):
    """`time LEVEL message  key=value ...`, one line; a traceback follows on lines of its own."""

    def __init__(self, *, coloured: bool = False) -> None:
        super().__init__()
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname:<7}"
        if self._coloured and (colour := _COLOURS.get(record.levelname)):
            level = f"\x1b[{colour}m{level}\x1b[0m"
        line = f"{timestamp(record.created)} {level} {_one_line(in_text(record.getMessage()))}"
        extra = " ".join(f"{name}={_word(_told(name, value))}" for name, value in fields(record))
        if extra:
            line = f"{line}  {extra}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the extra fields, and exception if any."""

    def __init__(self) -> None:
        super().__init__()
        import json  # text logs do not need it

        self._dumps = json.dumps

    def format(self, record: logging.LogRecord) -> str:
        # extra fields first, so that none can pass for one of ours
        row: dict[str, object] = {name: _told(name, value) for name, value in fields(record)}
        row |= {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": in_text(record.getMessage()),
        }
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        head = ("time", "level", "logger", "message")
        ordered = {name: row[name] for name in head} | row
        return self._dumps(ordered, default=str)


def _told(name: str, value: object) -> object:
    """What `extra` says, for people: in "group" there is the id of one, in "topic" a name of the catalog."""
    if not isinstance(value, str):
        return value
    if name == "topic" and is_canonical(value):
        return dotted(value)
    return shown(value) if name == "group" else in_text(value)


def _one_line(text: str) -> str:
    """Control characters written out: no text of a client begins a line of its own or paints the terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = in_text(str(value))
    if text and text.isprintable() and not _QUOTED.intersection(text):
        return text
    return '"' + _one_line(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'
