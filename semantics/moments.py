"""Points in time as people type them: a time, a day, or how long ago that was. Pure.

| typed | means |
|---|---|
| `2026-01-31T12:00:00Z`, `2026-01-31 12:00` | that time; without a zone of its own it is in that of who types |
| `2026-01-31` | the midnight at which that day begins |
| `today`, `yesterday` | the same |
| `30m`, `2h`, `1.5d`, `500ms`, `45s`, `1w` | so long ago |
| `90` | so many seconds ago, as with pulsar-admin |
| `1774823400000` | ms since 1970 |
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_AGE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(ms|[smhdw])")
_DAYS = {"today": 0, "yesterday": 1}
_SECONDS_AGO = 8
"""Digits that a number of seconds has at most: some three years."""
_MS_DIGITS = 12, 15
"""Digits that ms since 1970 have: from 2001 on."""
_MOST = 253_402_200_000_000
"""Some hours before the year 10,000, which no zone comes to."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""Of the year 1, and of the year 9999: no calendar here has others."""


class MomentError(ValueError):
    """What is typed is no time. The text is for a person."""


def moment_ms(text: str, now: int, zone: tzinfo | None = None) -> int:
    """In ms since 1970. `zone`: of who types; None for that of this process. Raises MomentError."""
    said = text.strip()
    try:
        found = _read(said, now, zone)
    except (ValueError, OverflowError, OSError):
        found = None
    if found is None or not 0 <= found <= _MOST:
        raise MomentError(
            f"{said[:40]!r} is no time: write 2026-01-31 12:00, 2026-01-31T12:00:00Z, today, yesterday, or how long "
            "ago that was: 30m, 2h, 3d."
        )
    return found


def _read(said: str, now: int, zone: tzinfo | None) -> int | None:
    age = _AGE.fullmatch(said)
    if age is not None:
        return now - round(float(age[1]) * _UNITS[age[2]])
    if said.isascii() and said.isdigit():
        if len(said) <= _SECONDS_AGO:
            return now - int(said) * 1000
        return int(said) if _MS_DIGITS[0] <= len(said) <= _MS_DIGITS[1] else None
    days = _DAYS.get(said.lower())
    if days is not None:
        here = (_EPOCH + timedelta(milliseconds=now)).astimezone(zone)
        # a day may have begun at another distance from UTC than the one that is in force now
        return _ms(datetime.combine(here.date() - timedelta(days=days), time()), zone)
    return _ms(datetime.fromisoformat(said), zone)


def _ms(moment: datetime, zone: tzinfo | None) -> int:
    if moment.tzinfo is None:
        # of this process, where there is no other
        moment = moment.replace(tzinfo=zone) if zone is not None else moment.astimezone()
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def nearest(ms: int) -> datetime:
    """The time in UTC, or the first or last that there is: clients may stamp messages with any number."""
    return _EPOCH + timedelta(milliseconds=min(max(ms, _FIRST_MS), _LAST_MS))


def iso(ms: int, zone: tzinfo | None = None) -> str:
    """A time as it may be typed, with its zone, to the second where that is all of it."""
    here = (_EPOCH + timedelta(milliseconds=ms)).astimezone(zone)
    text = here.isoformat(timespec="milliseconds" if ms % 1000 else "seconds")
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text
