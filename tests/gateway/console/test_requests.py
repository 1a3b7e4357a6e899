"""Cookies, forms, and how pages are to look."""

from __future__ import annotations

import pytest

from gateway.console.requests import View, at_home, cookies, form, is_zone


def test_of_two_cookies_of_a_name_the_first_counts() -> None:
    assert cookies("a=1; b=2=3; a=4; lonely;; c=") == {"a": "1", "b": "2=3", "c": ""}
    assert cookies("") == {}


def test_what_a_cookie_says_of_looks_is_read_as_far_as_it_makes_sense() -> None:
    view = View("dark", "Europe/Berlin", False)
    assert View.read(view.cookie()) == view
    assert View.read("") == View()
    assert View.read("purple|Mars/Base|x") == View()
    assert View.read("dark%7C..%2F..%2Fetc%2Fpasswd%7Con") == View("dark", "UTC")


def test_a_button_goes_through_all_themes() -> None:
    view, seen = View(), []
    for _ in range(3):
        seen.append(view.theme)
        view = view._replace(theme=view.next_theme)
    assert seen == ["auto", "light", "dark"]
    assert view == View()


@pytest.mark.parametrize(
    "name", ["", "Mars", "/etc/passwd", "../UTC", "Europe", "Europe/", "a" * 65, "UTC\0"]
)
def test_what_is_no_zone(name: str) -> None:
    assert not is_zone(name)


def test_a_zone() -> None:
    assert is_zone("UTC")
    assert is_zone("America/Argentina/Buenos_Aires")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "//evil.example/ui/",
        "https://evil.example/ui/",
        "/ui\\..",
        "/other",
        "/ui//evil",
        "/ui/\r\nX: y",
        "/ui/ x",
    ],
)
def test_nobody_is_sent_to_another_site(path: str) -> None:
    assert at_home(path) == "/ui/"


def test_who_is_sent_back_gets_where_it_was() -> None:
    assert (
        at_home("/ui/s/public/default/orders/billing?from=50")
        == "/ui/s/public/default/orders/billing?from=50"
    )


def test_forms() -> None:
    assert form(b"a=1&b=%C3%A4+x&c=") == {"a": "1", "b": "ä x", "c": ""}
    assert form(b"") == {}
    for wrong in (b"a", b"a=%ff", "a=ä".encode(), b"&".join(b"a=1" for _ in range(201))):
        with pytest.raises(ValueError):
            form(wrong)
