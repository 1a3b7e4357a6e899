"""Lines of `magnetar-admin` as a shell takes them."""

from __future__ import annotations

from semantics.command_line import line


def test_words_are_as_a_shell_takes_them() -> None:
    assert line("topics", "stats", "orders") == "magnetar-admin topics stats orders"
    assert line("topics", "stats", "x; rm -rf $HOME") == "magnetar-admin topics stats 'x; rm -rf $HOME'"
