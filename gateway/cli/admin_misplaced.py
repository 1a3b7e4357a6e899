"""What is said when a topic is named where a namespace belongs, or the other way round."""

from __future__ import annotations

import click


def instead(noun: str, name: str) -> str:
    """The verb that is being run, of the other noun that `name` is for; where it has none, that noun."""
    context = click.get_current_context(silent=True)
    if context is None or context.parent is None:
        return ""
    if context.parent.info_name == noun:
        # as `topics list`, which takes a namespace
        return ""
    main, verb = context.find_root().command, context.info_name
    other = main.commands.get(noun) if isinstance(main, click.Group) else None
    if isinstance(other, click.Group) and verb in other.commands:
        return f" Use `magnetar-admin {noun} {verb} {name}`."
    return f" Verbs of {noun}: `magnetar-admin {noun} --help`."
