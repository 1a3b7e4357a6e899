"""Reads settings from flags, the TOML file and the environment, and says in a sentence what is wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gateway.config import listener_settings
from gateway.config.elsewhere import ELSEWHERE, elsewhere
from gateway.config.schema import Setting, Value, complaint, nearest
from gateway.config.table import SETTINGS

if TYPE_CHECKING:
    from pathlib import Path

PREFIX = "MAGNETAR_"

# Variables that are no settings: CONFIG names the file; the others belong to Magnetar's other programs.
_OTHER_VARIABLES = re.compile(
    r"MAGNETAR_(CONFIG|ADMIN_(TOKEN|USER|PASSWORD)|(ADMIN_URL|BOOTSTRAP|PIPELINE|SPARK|TEST|BENCH|DEMO|COMPAT)(_.*)?)"
)

# What Kubernetes and old Docker links put into the environment beside a service called "magnetar".
_SERVICE_LINKS = re.compile(r"MAGNETAR_(.*_)?(SERVICE_(HOST|PORT(_.*)?)|PORT(_\d+_(TCP|UDP).*)?|ENV_.*)")


_A_SLIP = 0.94
"""How like a setting's name one of Kafka's family is that was meant to be it: one or two letters."""


class Given(NamedTuple):
    """A value that somebody gave, and where: "--set num.partitions", "file m.toml, line 3"."""

    value: Value
    origin: str


Layer = dict[str, Given]
"""What one source gives, by setting."""


def from_flags(flags: Iterable[str], options: Mapping[str, str], problems: list[str]) -> Layer:
    """`flags` are the `name=value` of --set; `options`, by setting, flags of their own."""
    layer: Layer = {}
    named: set[str] = set()
    for flag in flags:
        name, equals, text = flag.partition("=")
        name = name.strip()
        if not equals:
            problems.append(f"--set {flag}: a setting is given as name=value.")
        elif (setting := row_of(name)) is None:
            problems.append(f"--set {flag}: {unknown(name)}")
        else:
            named.add(name)
            _parse(layer, setting, text, f"--set {name}", problems)
    for name, text in options.items():
        setting = SETTINGS[name]
        flag = setting.flag or f"--set {name}"
        if name in named:
            problems.append(f"{flag} and --set {name}: {name} is given twice; leave one of them out.")
        else:
            _parse(layer, setting, text, flag, problems)
    return layer


def from_environment(environ: Mapping[str, str], problems: list[str]) -> Layer:
    """Every variable that begins with MAGNETAR_ must be a setting, so that a slip does not go unseen."""
    layer: Layer = {}
    by_variable = {setting.variable: setting for setting in SETTINGS.values()}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX):
            continue
        setting = by_variable.get(variable) or listener_settings.of_variable(variable)
        if setting is not None:
            _parse(layer, setting, text, f"variable {variable}", problems)
        elif not _OTHER_VARIABLES.fullmatch(variable) and not _SERVICE_LINKS.fullmatch(variable):
            problems.append(f"variable {variable}: {_unknown_variable(variable, by_variable)}")
    return layer


def from_file(file: Path, problems: list[str]) -> Layer:
    """A TOML file. Tables and dotted keys are one thing: `[num] partitions = 4` is `num.partitions = 4`."""
    import tomllib

    try:
        text = file.read_bytes().decode("utf-8")
    except OSError as error:
        problems.append(f"file {file}: it cannot be read ({error.strerror}).")
        return {}
    except UnicodeDecodeError:
        problems.append(f"file {file}: it is not text in UTF-8, as TOML must be.")
        return {}
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problems.append(_not_toml(file, error))
        return {}
    layer: Layer = {}
    lines = key_lines(text)
    given = list(_flatten(tree, ""))
    times = Counter(name for name, _ in given)
    for name in (name for name, count in times.items() if count > 1):
        where = " and ".join(str(line) for line in lines.get(name, ()))
        where = f", {'lines' if ' ' in where else 'line'} {where}" if where else ""
        problems.append(f"file {file}{where}: {name} is given twice; leave one of them out.")
    for name, value in given:
        if times[name] > 1:
            continue
        line = _line_of(name, lines)
        origin = f"file {file}, line {line}" if line else f"file {file}"
        setting = row_of(name)
        if setting is None:
            problems.append(f"{origin}: {unknown(name)}")
            continue
        try:
            layer[setting.name] = Given(setting.accept(value), origin)
        except ValueError as error:
            problems.append(f"{origin}: {name} {complaint(error, _shown(value))}.")
    return layer


def row_of(name: str) -> Setting | None:
    """The setting of this name, of the gateway or of one listener; None for a name that is none."""
    return SETTINGS.get(name) or listener_settings.row(name)


def unknown(name: str) -> str:
    """What to say of a name that is not in the table."""
    known = elsewhere(name)
    if known is not None:
        slip = None if name in ELSEWHERE else nearest(name, list(SETTINGS), _A_SLIP)
        return f'Did you mean "{slip}"? {known}' if slip else known
    if (ours := listener_settings.names_like(name)) is not None:
        near = nearest(name, ours, 0.85)
        hint = f'Did you mean "{near}"?' if near else f"A listener has {' and '.join(ours)}."
        return f'there is no setting "{name}". {hint}'
    near = _by_flag(name) or nearest(name, [*SETTINGS, listener_settings.EXAMPLE])
    hint = f' Did you mean "{near}"?' if near else ' "magnetar config" lists them all.'
    return f'there is no setting "{name}".{hint}'


def _by_flag(name: str) -> str | None:
    """The setting that a flag of `magnetar serve` stands for: who knows the flag writes `admin` or `tls-cert`."""
    flag = "--" + name.replace(".", "-").replace("_", "-")
    return next((each.name for each in SETTINGS.values() if each.flag == flag), None)


def _unknown_variable(variable: str, by_variable: Mapping[str, Setting]) -> str:
    known = elsewhere(variable.removeprefix(PREFIX).lower().replace("_", "."))
    if known is not None:
        named = variable.removeprefix(PREFIX).lower().replace("_", ".") in ELSEWHERE
        slip = None if named else nearest(variable, list(by_variable), _A_SLIP)
        return f"Did you mean {slip}? {known}" if slip else known
    meant = _by_flag(variable.removeprefix(PREFIX).lower())
    near = next((each for each, row in by_variable.items() if row.name == meant), None)
    near = near or nearest(variable, list(by_variable))
    hint = f"Did you mean {near}?" if near else '"magnetar config" lists them all.'
    return f"there is no such setting. {hint}"


def _parse(layer: Layer, setting: Setting, text: str, origin: str, problems: list[str]) -> None:
    try:
        layer[setting.name] = Given(setting.parse(text), origin)
    except ValueError as error:
        # a flag's origin names the setting already, a variable's does not
        name = "" if setting.name in origin else f"{setting.name} "
        problems.append(f"{origin}: {name}{complaint(error, _shown(text))}.")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    text = str(value)
    return f'"{text}"' if isinstance(value, str) else text


def _flatten(tree: Mapping[str, object], prefix: str) -> Iterable[tuple[str, object]]:
    for key, value in tree.items():
        name = prefix + key
        if isinstance(value, dict) and value:
            yield from _flatten(value, name + ".")
        else:
            yield name, value


def _not_toml(file: Path, error: Exception) -> str:
    text = str(error)
    where = ""
    if (match := re.search(r" \(at line (\d+), column \d+\)$", text)) is not None:
        text = text[: match.start()]
        where = f", line {match[1]}"
    hint = ""
    if text.startswith("Cannot overwrite a value"):
        hint = (
            " A name that goes on where another one ends must stand in quotes, "
            'as in "max.connections.per.ip" = 100 beside max.connections = 1000; '
            "and no name may be given twice."
        )
    return f"file {file}{where}: it is not TOML ({text[:1].lower() + text[1:]}).{hint}"


_KEY = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_KEYS = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*\[\s*({_KEYS})\s*\]")
_ASSIGNMENT = re.compile(rf"\s*({_KEYS})\s*=")


_TOKEN = re.compile(
    r'''\#[^\n]* | """(?:\\.|[^\\])*?"{3,5} | '{3}.*?'{3,5} | "(?:\\.|[^"\\\n])*" | '[^'\n]*' ''', re.X | re.S
)
"""What may hold anything: comments and strings, of one line and of several."""


def _blank(token: re.Match[str]) -> str:
    """A string of several lines, or a comment, without what it says; the others may be keys."""
    text = token[0]
    return re.sub(r"[^\n]", " ", text) if text.startswith(('"""', "'''", "#")) else text


def key_lines(text: str) -> dict[str, list[int]]:
    """Dotted name to line numbers (from 1) of each key and table of a TOML text: tomllib does not tell."""
    lines: dict[str, list[int]] = {}
    prefix = ""
    # splitlines knows more ends of lines than TOML
    for number, line in enumerate(_TOKEN.sub(_blank, text).split("\n"), 1):
        if (header := _HEADER.match(line)) is not None:
            prefix = _dotted(header[1]) + "."
            lines.setdefault(prefix[:-1], []).append(number)
        elif (assignment := _ASSIGNMENT.match(line)) is not None:
            lines.setdefault(prefix + _dotted(assignment[1]), []).append(number)
    return lines


def _dotted(keys: str) -> str:
    return ".".join(part[1:-1] if part[0] in "\"'" else part for part in re.findall(_KEY, keys))


def _line_of(name: str, lines: Mapping[str, list[int]]) -> int | None:
    """The key's own line, or that of the table (an inline one, say) that holds it."""
    while name:
        if name in lines:
            return lines[name][0]
        name = name.rpartition(".")[0]
    return None
