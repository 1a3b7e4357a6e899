"""What somebody types in a form: values of messages, and names that are asked for before something is done. Pure."""

from __future__ import annotations

import base64
import binascii

from gateway.console.shown import visible


class UnreadableError(ValueError):
    """A form that says what cannot be read. The text is for a person."""


def edited(text: str, kind: str) -> str:
    """A value as somebody typed it, as base64. Raises UnreadableError.

    Browsers end lines in a form with CR LF, whatever they were.
    """
    if kind == "base64":
        try:
            data = base64.b64decode("".join(text.split()), validate=True)
        except (ValueError, binascii.Error):
            raise UnreadableError("That is no base64.") from None
    else:
        data = text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")
    return base64.b64encode(data).decode()


def editable(value: bytes) -> tuple[str, str]:
    """(a value as it is typed, as what): as text where a form gives back the same bytes, else as base64."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\r" in text or "\0" in text:
        return base64.b64encode(value).decode(), "base64"
    return text, "text"


def names(text: str, name: str) -> bool:
    """Whether somebody typed a name, as it is or as pages show it: what cannot be seen in it nobody can type."""
    return text.strip() in (name.strip(), visible(name, lines=False).strip())
