"""Values and names that are typed in forms."""

from __future__ import annotations

import base64

import pytest

from gateway.console.typed import UnreadableError, editable, edited, names


@pytest.mark.parametrize(
    "value", [b"", b"plain", b'{\n  "a": 1\n}', "ü€".encode(), b"\xff\x00", b"a\r\nb", b"\0", b"\nx\n"]
)
def test_a_value_that_nobody_changed_is_the_same(value: bytes) -> None:
    text, kind = editable(value)
    assert base64.b64decode(edited(text.replace("\n", "\r\n"), kind)) == value


def test_what_is_no_base64_is_refused() -> None:
    with pytest.raises(UnreadableError, match="base64"):
        edited("abc", "base64")


@pytest.mark.parametrize(
    ("text", "name", "same"),
    [
        ("billing", "billing", True),
        (" billing ", "billing", True),
        ("billing", "billing ", True),
        ("pay\\u202eroll\\u000a", "pay\u202eroll\n", True),
        ("pay\u202eroll", "pay\u202eroll\n", True),
        ("payroll", "pay\u202eroll", False),
        ("Billing", "billing", False),
        ("", "billing", False),
    ],
)
def test_a_name_is_typed_as_it_is_or_as_it_is_shown(text: str, name: str, same: bool) -> None:
    assert names(text, name) is same
