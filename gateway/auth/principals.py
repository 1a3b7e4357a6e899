"""What a client is called by its certificate: its subject as Java writes it, and Kafka's rules over that.

Principals stand in ACLs that people bring from Kafka, so names are those that Kafka has for the same certificates:
X500Principal.getName() (RFC 2253), and ssl.principal.mapping.rules. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gateway.auth import der
from gateway.auth.errors import RefusedError
from gateway.errors import StartError

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""RFC 2253, 2.3. All other types stand as numbers, and their values in hexadecimal."""

_TEXT = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""Strings to Java: UTF8, Printable, T61, IA5, General, BMP. It reads all of them as UTF-8."""

_ESCAPED = frozenset(',=+<>#;"\\')
_BLANK = " \r"
"""What is escaped where a value begins or ends."""


def subject(certificate: bytes) -> str:
    """The subject of a certificate (DER), as `distinguished` has it. Raises RefusedError."""
    try:
        return distinguished(der.subject(certificate))
    except der.DerError as error:
        raise RefusedError(f"the subject of its certificate cannot be read: {error}") from error


def distinguished(names: Sequence[Sequence[tuple[str, bytes]]]) -> str:
    """A name as X500Principal.getName() writes it, from what `der.name` gives: the last part comes first."""
    return ",".join("+".join(_pair(kind, value) for kind, value in pairs) for pairs in reversed(names))


def _pair(kind: str, value: bytes) -> str:
    keyword = _KEYWORDS.get(kind)
    if keyword is None or value[0] not in _TEXT:
        return f"{keyword or kind}=#{value.hex()}"
    _, begin, stop = der.element(value, 0, len(value))
    text = value[begin:stop].decode("utf-8", "replace")
    parts = [_character(each) for each in text]
    inner = text.strip(_BLANK)
    first = len(text) - len(text.lstrip(_BLANK))
    for at, each in enumerate(text):
        if each in _BLANK and not first <= at < first + len(inner):
            parts[at] = "\\" + each
    return f"{keyword}={''.join(parts)}"


def _character(each: str) -> str:
    if each == "\0":
        return "\\00"
    return "\\" + each if each in _ESCAPED else each


class Rule(NamedTuple):
    """One of ssl.principal.mapping.rules. Without a pattern it is DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""
    """L, U or nothing"""

    def apply(self, name: str) -> str | None:
        """What it makes of a name; None where it does not fit all of it."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        found = self.pattern.sub(_replacing(self.replacement), name)
        return found.lower() if self.case == "L" else found.upper() if self.case == "U" else found


class Mapping:
    """Rules, of which the first that fits counts."""

    def __init__(self, text: str) -> None:
        """`text` is ssl.principal.mapping.rules. Raises StartError."""
        self.rules = parse(text)

    def name(self, subject: str) -> str:
        """What a client with this subject is called. Raises RefusedError where no rule fits."""
        for rule in self.rules:
            found = rule.apply(subject)
            if found:
                return found
            if found is not None:
                raise RefusedError(f"a rule of ssl.principal.mapping.rules leaves nothing of {subject}")
        raise RefusedError(f"no rule of ssl.principal.mapping.rules fits {subject}")


_SEPARATED = re.compile(r"\s*(?:,\s*|$)")
_RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")


def parse(text: str) -> list[Rule]:
    """Rules with commas between them, as Kafka reads them; empty ones count for nothing. Raises StartError."""
    rules, at = list[Rule](), len(text) - len(text.lstrip())
    while at < len(text):
        if text.startswith("DEFAULT", at):
            rules.append(Rule(None))
            stop = at + len("DEFAULT")
        elif (found := _RULE.match(text, at)) is not None:
            rules.append(Rule(_pattern(found[1]), found[2], found[3]))
            stop = found.end()
        else:
            stop = at
        separated = _SEPARATED.match(text, stop)
        if separated is None:
            raise StartError(
                f'ssl.principal.mapping.rules has no rule at "{text[at : at + 60]}": rules are DEFAULT or '
                "RULE:pattern/replacement/ with L or U behind it, and commas between them."
            )
        at = separated.end()
    return rules


def _pattern(text: str) -> re.Pattern[str]:
    try:
        # Java names groups so, and its \w means ASCII
        return re.compile(re.sub(r"(?<!\\)\(\?<([A-Za-z])", r"(?P<\1", text), re.ASCII)
    except re.error as error:
        raise StartError(
            f"ssl.principal.mapping.rules has a pattern that cannot be used, {text}: {error} (it is a regular "
            "expression of Python's)."
        ) from error


_PARTS = re.compile(r"\\(.)|\$\{([A-Za-z][A-Za-z0-9]*)\}|\$(\d+)|(.)", re.DOTALL)


def _replacing(replacement: str) -> Callable[[re.Match[str]], str]:
    """Java's replacements: $1, ${name}, and a backslash before what means itself."""

    def of(match: re.Match[str]) -> str:
        return "".join(_part(part, match) for part in _PARTS.finditer(replacement))

    return of


def _part(part: re.Match[str], match: re.Match[str]) -> str:
    escaped, name, digits, literal = part.groups()
    if escaped is not None or literal is not None:
        return str(escaped or literal)
    if name is not None:
        return match[name] or "" if name in match.re.groupindex else part[0]
    # as many digits as there are groups for
    groups, used = match.re.groups, 1
    if int(digits[0]) > groups:
        return part[0]
    while used < len(digits) and int(digits[: used + 1]) <= groups:
        used += 1
    return (match[int(digits[:used])] or "") + digits[used:]
