"""What others wrote is as they published it, stands beside its licence, and goes with the package."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

from gateway.console.templates import HERE

ROOT = Path(__file__).parents[3]

PUBLISHED = {
    # npm: uplot 1.6.32, dist/uPlot.iife.min.js and dist/uPlot.min.css
    "uplot.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


def test_vendored_files_are_as_published() -> None:
    vendor = HERE / "static" / "vendor"
    found = {each.name: each for each in vendor.iterdir()}
    assert set(found) == {*PUBLISHED, "uplot.LICENSE"}
    for name, digest in PUBLISHED.items():
        assert hashlib.sha256(found[name].read_bytes()).hexdigest() == digest, name
    assert "MIT" in found["uplot.LICENSE"].read_text()


def test_all_of_it_is_package_data() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"][
        "gateway.console"
    ]
    packed = {each for pattern in patterns for each in HERE.glob(pattern) if each.is_file()}
    there = {each for each in HERE.rglob("*") if each.is_file() and each.suffix not in (".py", ".pyc", ".md")}
    assert there == packed


def test_no_page_has_a_style_or_a_script_of_its_own() -> None:
    for template in (HERE / "templates").glob("*.html"):
        text = template.read_text()
        assert " style=" not in text, template
        assert "<style" not in text, template
        assert text.count("<script") == text.count("<script src="), template
        assert "|safe" not in text.replace(" ", ""), template
        assert "http://" not in text.replace("http://www.w3.org", ""), template
        assert "https://" not in text, template
