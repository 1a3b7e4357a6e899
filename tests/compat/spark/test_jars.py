"""The connector's jars: fetched once, and one sentence for what is missing."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from compat.spark import jars


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH without Java and Maven."""
    tools = tmp_path / "bin"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(jars, "java_home", lambda: None)
    return tools


def tool(folder: Path, name: str, script: str = "") -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_without_java(no_tools: Path, tmp_path: Path) -> None:
    with pytest.raises(jars.SparkMissingError, match="needs Java 17 or newer and none was found"):
        jars.ensure_spark_jars(tmp_path / "cache")


def test_without_maven(no_tools: Path, tmp_path: Path) -> None:
    tool(no_tools, "java")

    with pytest.raises(jars.SparkMissingError, match="`mvn` was not found: install Maven"):
        jars.ensure_spark_jars(tmp_path / "cache")


def test_maven_fails(no_tools: Path, tmp_path: Path) -> None:
    tool(no_tools, "java")
    tool(no_tools, "mvn", "echo '[ERROR] Could not find artifact x'; exit 1")

    with pytest.raises(jars.SparkMissingError, match=r"kafka-clients, .*Could not find artifact x"):
        jars.ensure_spark_jars(tmp_path / "cache")
    assert list((tmp_path / "cache").glob("spark-*/")) == []


def test_a_filled_cache_needs_neither(no_tools: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / f"spark-{jars.SPARK_VERSION}"
    folder.mkdir(parents=True)
    (folder / "a.jar").touch()
    (folder / f".complete-{hashlib.sha256(jars.POM.read_bytes()).hexdigest()[:16]}").touch()

    assert jars.ensure_spark_jars(tmp_path / "cache") == [folder / "a.jar"]


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(jars.SparkMissingError, match="there is no bin/java in it"):
        jars.require_java()
