"""The picture of the console that README.md shows: the first page of a shop's gateway, as a browser draws it."""

from __future__ import annotations

import os
import struct
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from compat.console.shop import Shop
from compat.peers.magnetar import MagnetarPeer
from compat.tools import ensure_chromium

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "console.png"
WIDTH, HEIGHT = 1280, 900
LARGEST = 200 * 1000
"""Bytes."""


def draw(to: Path) -> None:
    """Start a gateway, let a shop use it, and take the picture."""
    with (
        tempfile.TemporaryDirectory(prefix="magnetar-picture-") as folder,
        MagnetarPeer(directory=Path(folder)) as gateway,
        Shop(gateway),
        sync_playwright() as playwright,
    ):
        # as root there is no sandbox to be had, and what is shown is our own
        browser = playwright.chromium.launch(executable_path=ensure_chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        shoot(page, gateway.admin_url, to)
        browser.close()


def shoot(page: Page, admin_url: str, to: Path) -> None:
    """Take the picture of a gateway's first page. Replaces the file at once."""
    answer = page.goto(admin_url + "/ui/")
    assert answer is not None
    assert answer.status == 200, page.inner_text("body")
    page.locator("main").wait_for()
    part = to.with_name(f".{to.stem}.{os.getpid()}.png")
    page.screenshot(path=part)
    if part.stat().st_size > LARGEST:
        part.unlink()
        raise ValueError(f"The picture has more than {LARGEST:,} bytes.")
    part.replace(to)


def size_of(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG file. Raises ValueError for what is none."""
    head = picture.read_bytes()[:24]
    if head[:8] != b"\x89PNG\r\n\x1a\n" or head[12:16] != b"IHDR":
        raise ValueError(f"{picture} is no PNG file.")
    width, height = struct.unpack(">II", head[16:24])
    return width, height
