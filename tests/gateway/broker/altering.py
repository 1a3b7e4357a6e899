"""Changes of configs, as AlterConfigs asks for them."""

from __future__ import annotations

from collections.abc import Callable

Change = Callable[[dict[str, str]], dict[str, str]]


def setting(name: str, value: str | None) -> Change:
    """One config gets this value, or (None) goes back to what it falls back to."""

    def change(old: dict[str, str]) -> dict[str, str]:
        rest = {key: each for key, each in old.items() if key != name}
        return rest if value is None else {**rest, name: value}

    return change
