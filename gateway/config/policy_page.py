"""The table of policies in docs/SEMANTICS.md: `python -m gateway.config.policy_page` writes it anew."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gateway.config.page_table import put, row
from gateway.config.policy_settings import CONFIGS
from semantics.policies import Level, Policy
from semantics.policy_form import Form
from semantics.policy_forms import ALL

PAGE = Path(__file__).parents[2] / "docs" / "SEMANTICS.md"

BEGIN = "<!-- policies: written by python -m gateway.config.policy_page -->"
END = "<!-- end of policies -->"


def table() -> str:
    """The table in Markdown."""
    lines = [
        "| policy (`get-`, `set-`, `remove-`) | of | config | setting | what it does |",
        "|---|---|---|---|---|",
    ]
    for form in ALL:
        for number, field in enumerate(form.fields):
            policy = field.policy
            cells = (
                "" if number else _verbs(form),
                "" if number else " and ".join(f"{level}s" for level in Level if level in form.levels),
                _config(policy),
                "" if policy.setting is None else f"`{policy.setting}`{_default(policy)}",
                CONFIGS[policy.name].doc,
            )
            lines.append(row(cells))
    return "\n".join(lines)


def with_table(page: str) -> str:
    """The page with the table as it is now. Raises ValueError when it has no place for one."""
    return put(page, BEGIN, END, table())


def _verbs(form: Form) -> str:
    verbs = dict.fromkeys(
        form.verb_at(level) for level in (Level.NAMESPACE, Level.TOPIC) if level in form.levels
    )
    kind = f", `{form.type}`" if form.type else ""
    return ", ".join(f"`{verb}`" for verb in verbs) + kind


def _config(policy: Policy) -> str:
    if Level.TOPIC not in policy.levels:
        return ""
    return f"`{policy.name}`" + (f", `{policy.kafka}`" if policy.kafka else "")


def _default(policy: Policy) -> str:
    if policy.default is None:
        return ""
    if isinstance(policy.default, tuple):
        return f" = {','.join(policy.default)}"
    return f" = {str(policy.default).lower()}"


def main() -> int:
    argparse.ArgumentParser(prog="python -m gateway.config.policy_page", description=__doc__).parse_args()
    PAGE.write_text(with_table(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
