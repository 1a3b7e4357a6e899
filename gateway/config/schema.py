"""What a setting is: its type, what it accepts, how it is shown. Topic configs use the same words."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import NamedTuple

Value = int | float | str | tuple[str, ...] | None
"""A parsed value. Booleans are `bool` (an int), lists are tuples, None is a setting that was left open."""


class Kind(enum.IntEnum):
    """Kafka's config types, with the numbers that DescribeConfigs sends (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


class Source(enum.IntEnum):
    """Where a value comes from, with the numbers that DescribeConfigs sends (KIP-226).

    A topic's or a group's own config is strongest; then strongest first.

    Flags, variables and the file are all STATIC_BROKER to a client; `Settings.origin` tells them apart.
    """

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """One place where a value was given, in the order in which the places win."""

    name: str
    value: str | None
    source: Source


class Described(NamedTuple):
    """One row of DescribeConfigs. `value` is None when the setting is open, or sensitive."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    kind: Kind
    doc: str


Check = Callable[[Value], str | None]
"""Looks at a value of the right type and says what it should have been ("must be at least 1"), or None."""

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


def at_least(low: float) -> Check:
    """A number of at least `low`. An open value passes."""

    def check(value: Value) -> str | None:
        return f"must be at least {low}" if isinstance(value, (int, float)) and value < low else None

    return check


def between(low: float, high: float) -> Check:
    """A number from `low` to `high`, both included."""

    def check(value: Value) -> str | None:
        wrong = isinstance(value, (int, float)) and not low <= value <= high
        return f"must be from {low} to {high}" if wrong else None

    return check


def one_of(*choices: str) -> Check:
    """One word of a list."""

    def check(value: Value) -> str | None:
        return None if value in choices else f"must be {_either(choices)}"

    return check


def each_of(*choices: str) -> Check:
    """A list of different words out of `choices`."""

    def check(value: Value) -> str | None:
        assert isinstance(value, tuple)
        if any(item not in choices for item in value):
            return f"may only hold {_either(choices)}"
        return "must name each thing once" if len(set(value)) < len(value) else None

    return check


def _either(words: tuple[str, ...]) -> str:
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else words[0]


class Setting(NamedTuple):
    """One row of the table: everything there is to know about a setting."""

    name: str
    kind: Kind
    default: Value
    doc: str
    check: Check | None = None
    # AlterConfigs may change it while the gateway runs
    dynamic: bool = False
    # its value is never shown
    sensitive: bool = False
    # the flag of `magnetar serve` that stands for it, beside `--set`
    flag: str | None = None

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "MAGNETAR_" + self.name.upper().replace(".", "_")

    def parse(self, text: str) -> Value:
        """A value from text, as flags, variables, AlterConfigs give it. Raises ValueError("must be ...")."""
        stripped = text.strip()
        value: Value
        match self.kind:
            case Kind.BOOLEAN:
                word = stripped.lower()
                if word not in ("true", "false"):
                    raise ValueError("must be true or false")
                value = word == "true"
            case Kind.INT | Kind.LONG:
                value = self._whole(stripped)
            case Kind.DOUBLE:
                value = self._number(stripped)
            case Kind.LIST:
                value = tuple(item.strip() for item in stripped.split(",")) if stripped else ()
                if "" in value:
                    raise ValueError("must have something between all commas")
            case _:
                value = stripped
        return self._checked(value)

    def accept(self, value: object) -> Value:
        """A value from TOML, where numbers, booleans and arrays have their own types. Raises ValueError."""
        if isinstance(value, str):
            return self.parse(value)
        if isinstance(value, bool):
            if self.kind is Kind.BOOLEAN:
                return self._checked(value)
        elif isinstance(value, int):
            if self.kind in (Kind.INT, Kind.LONG, Kind.DOUBLE):
                return self.parse(str(value))
        elif isinstance(value, float):
            if self.kind is Kind.DOUBLE:
                return self.parse(repr(value))
        elif (
            isinstance(value, list)
            and self.kind is Kind.LIST
            and all(isinstance(item, str) for item in value)
        ):
            return self.parse(",".join(value))
        raise ValueError(f"must be {_EXPECTED[self.kind]}")

    def render(self, value: Value) -> str | None:
        """The text of a value as DescribeConfigs sends it. None when it is open."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        if isinstance(value, float):
            # as Java writes it
            return repr(value).replace("e+", "E").replace("e-", "E-")
        return str(value)

    def _whole(self, text: str) -> int:
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit()):
            raise ValueError("must be a whole number")
        # 19 digits hold every 64-bit number; longer text would only cost time
        number = int(text) if len(digits) <= 19 else LONG_MAX + 1
        limit = INT_MAX if self.kind is Kind.INT else LONG_MAX
        if not -limit - 1 <= number <= limit:
            raise ValueError(f"must fit in {32 if self.kind is Kind.INT else 64} bits, so be at most {limit}")
        return number

    @staticmethod
    def _number(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ValueError("must be a number")
        return number

    def _checked(self, value: Value) -> Value:
        problem = self.check(value) if self.check is not None else None
        if problem is not None:
            raise ValueError(problem)
        return value


def described(
    setting: Setting, own: Synonym | None, below: Value, synonyms: tuple[Synonym, ...]
) -> Described:
    """A config of a topic or a group for DescribeConfigs, with where its value comes from (KIP-226).

    `own` was set for the resource itself; `below` is what the config falls back to, and `synonyms` are the places
    that give that, strongest first.
    """
    if own is not None:
        synonyms = (own, *synonyms)
    return Described(
        setting.name,
        setting.render(below) if own is None else own.value,
        synonyms[0].source if synonyms else Source.DEFAULT,
        False,
        setting.sensitive,
        synonyms,
        setting.kind,
        setting.doc,
    )


_EXPECTED = {
    Kind.BOOLEAN: "true or false",
    Kind.STRING: "text in quotes",
    Kind.INT: "a whole number",
    Kind.LONG: "a whole number",
    Kind.DOUBLE: "a number",
    Kind.LIST: "a list of texts",
    Kind.PASSWORD: "text in quotes",
}


def complaint(error: ValueError, shown: str) -> str:
    """What `parse` and `accept` raised, with the value: `must be at least 1, not 0`.

    Where it goes on with ", and ..." it has said already what is wrong with the value.
    """
    text = str(error)
    return text if ", and " in text else f"{text}, not {shown}"


def quoted(text: str) -> str:
    return f'"{text}"'


def nearest(name: str, names: list[str], likeness: float = 0.6) -> str | None:
    """The known name that somebody probably meant. `likeness`: from 0 to 1, how much of it must be there."""
    import difflib  # only when something is wrong already

    found = difflib.get_close_matches(name, names, n=1, cutoff=likeness)
    return found[0] if found else None
