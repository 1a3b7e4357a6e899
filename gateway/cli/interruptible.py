"""Commands that Ctrl-C ends quietly where none listens for it; click itself says "Aborted!" and exits with 1."""

from __future__ import annotations

from typing import Any

import click

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


class Interruptible(click.Group):
    """The exit code is 130, as shells have it."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **options)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
