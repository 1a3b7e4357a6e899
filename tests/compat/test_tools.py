"""What is missing is said in a sentence that helps; jars and Prometheus are fetched once."""

from __future__ import annotations

import hashlib
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat import tools

CACHED = (
    tools.ensure_java,
    tools.ensure_jdk,
    tools.ensure_javac,
    tools.ensure_kcat,
    tools.ensure_chromium,
    tools.ensure_go,
    tools.ensure_cargo,
    tools.ensure_node,
    tools.ensure_npm,
    tools.ensure_prometheus,
)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    for cached in CACHED:
        cached.cache_clear()
    yield
    for cached in CACHED:
        cached.cache_clear()


def fake(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose PATH is this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(importlib, "import_module", _no_module)


def _no_module(name: str) -> Any:
    raise ImportError(name)


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(tmp_path, monkeypatch)
    with pytest.raises(tools.MissingToolError, match=r"Java 17 or newer is missing\. Install"):
        tools.ensure_java()


def test_an_old_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(tmp_path, monkeypatch)
    fake(tmp_path / "java", """echo 'openjdk version "11.0.2"' >&2""")
    with pytest.raises(tools.MissingToolError, match="is version 11"):
        tools.ensure_java()


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(tmp_path / "bin", monkeypatch)
    fake(tmp_path / "bin" / "java", """echo 'openjdk version "17.0.1"' >&2""")
    home = fake(tmp_path / "home" / "bin" / "java", """echo 'openjdk version "21.0.1"' >&2""")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert tools.ensure_java() == home


def test_a_jre_is_no_jdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(tmp_path, monkeypatch)
    fake(tmp_path / "java", """echo 'openjdk version "17.0.1"' >&2; echo java.base@17""")
    with pytest.raises(tools.MissingToolError, match="install a JDK"):
        tools.ensure_jdk()


def test_no_kcat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(tmp_path, monkeypatch)
    with pytest.raises(tools.MissingToolError, match="apt-get install kcat"):
        tools.ensure_kcat()


def test_no_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(tmp_path, monkeypatch)
    with pytest.raises(tools.MissingToolError, match="apt-get install chromium"):
        tools.ensure_chromium()


def test_no_axe_without_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(tmp_path, monkeypatch)
    monkeypatch.setattr(tools, "TOOLS", tmp_path / "tools")
    with pytest.raises(tools.MissingToolError, match=r"npm .* is missing: install it"):
        tools.ensure_axe()


@pytest.mark.parametrize(
    ("ensure", "words"),
    [
        (tools.ensure_go, "Go .* is missing: install it .*go.dev"),
        (tools.ensure_cargo, "Rust .* is missing: install it .*rustup"),
        (tools.ensure_node, "Node.js .* is missing: install it .*nodejs"),
        (tools.ensure_npm, "npm .* is missing: install it .*npm"),
    ],
)
def test_no_toolchain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ensure: Callable[[], Path], words: str
) -> None:
    only(tmp_path, monkeypatch)
    with pytest.raises(tools.MissingToolError, match=words):
        ensure()


def test_an_old_toolchain_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(tmp_path, monkeypatch)
    fake(tmp_path / "go", "echo go version go1.9.7 linux/amd64")
    with pytest.raises(tools.MissingToolError, match=r"go1\.9\.7"):
        tools.ensure_go()
    tools.ensure_go.cache_clear()
    new = fake(tmp_path / "go", "echo go version go1.24.0 linux/amd64")
    assert tools.ensure_go() == new


def test_no_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(tmp_path / "bin", monkeypatch)
    monkeypatch.setattr(tools, "JARS", tmp_path / "jars")
    with pytest.raises(tools.MissingToolError, match="Maven is missing"):
        tools.ensure_jars("kafka-clients-4.3.0")


def test_an_unknown_name_of_jars() -> None:
    with pytest.raises(ValueError, match="spark"):
        tools.ensure_jars("spark")


def test_jars_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def maven(arguments: list[Any], **_: Any) -> subprocess.CompletedProcess[str]:
        calls.append([str(part) for part in arguments])
        folder = next(part.split("=")[1] for part in calls[-1] if part.startswith("-DoutputDirectory="))
        Path(folder).mkdir()
        (Path(folder) / "kafka-clients-4.3.0.jar").write_text("jar")
        return subprocess.CompletedProcess(arguments, 0, stdout="")

    only(tmp_path / "bin", monkeypatch)
    fake(tmp_path / "bin" / "mvn", "")
    monkeypatch.setattr(tools, "JARS", tmp_path / "jars")
    monkeypatch.setattr(subprocess, "run", maven)

    first = tools.ensure_jars("kafka-clients-4.3.0")
    assert tools.ensure_jars("kafka-clients-4.3.0") == first
    assert len(calls) == 1
    assert "-Dkafka.version=4.3.0" in calls[0]
    assert (first / "kafka-clients-4.3.0.jar").exists()
    pom = (tools.PROJECT / "compat" / "java" / "pom.xml").read_bytes()
    assert (first / ".stamp").read_text() == hashlib.sha256(pom).hexdigest()


APT = """
case "$*" in
  *Dir::State*download*) test -e lists/fetched && echo package > prometheus_9.0_all.deb ;;
  *update*) echo >> lists/fetched ;;
  *) exit 100 ;;
esac"""
"""An apt-get without lists of packages, which has a package when it has fetched some."""
PROGRAM = "echo prometheus, version 2.53.3"


def maker(*folders: str) -> str:
    """Lines that make both programs in a folder."""
    programs = [f"{folder}/{name}" for folder in folders for name in ("prometheus", "promtool")]
    lines = [f"echo '#!/bin/sh' > {each}; echo '{PROGRAM}' >> {each}; chmod +x {each}" for each in programs]
    return "\n".join(lines)


def test_prometheus_of_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(tmp_path / "bin", monkeypatch)
    monkeypatch.setattr(tools, "TOOLS", tmp_path / "tools")
    fake(tmp_path / "bin" / "prometheus", PROGRAM)
    with pytest.raises(tools.MissingToolError, match=r"Prometheus 2\.42 .* with promtool"):
        tools.ensure_prometheus()
    fake(tmp_path / "bin" / "promtool", "echo promtool, version 2.41.0")
    with pytest.raises(tools.MissingToolError, match=r"Prometheus 2\.42 or newer"):
        tools.ensure_prometheus()
    fake(tmp_path / "bin" / "promtool", "echo promtool, version 2.42.0")
    assert tools.ensure_prometheus() == tmp_path / "bin"


def test_prometheus_of_debian_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(tmp_path / "bin", monkeypatch)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(tools, "TOOLS", tmp_path / "tools")
    fake(tmp_path / "bin" / "apt-get", APT)
    fake(
        tmp_path / "bin" / "dpkg-deb",
        f'echo >> {tmp_path}/unpacked\nmkdir -p "$3/usr/bin"; cd "$3/usr/bin"\n{maker(".")}',
    )
    assert tools.ensure_prometheus() == tmp_path / "tools" / "prometheus"
    tools.ensure_prometheus.cache_clear()
    assert tools.ensure_prometheus() == tmp_path / "tools" / "prometheus"
    assert (tmp_path / "unpacked").read_text() == "\n"
    assert (tmp_path / "tools" / "prometheus" / "promtool").exists()


def test_a_package_that_is_not_what_we_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(tmp_path / "bin", monkeypatch)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(tools, "TOOLS", tmp_path / "tools")
    monkeypatch.setattr(tools, "DEBS", {"prometheus_9.0_all.deb": "00ff"})
    fake(tmp_path / "bin" / "apt-get", APT)
    fake(tmp_path / "bin" / "dpkg-deb", f"echo >> {tmp_path}/unpacked")
    with pytest.raises(tools.MissingToolError, match="should have 00ff"):
        tools.ensure_prometheus()
    assert not (tmp_path / "unpacked").exists()


def test_prometheus_is_built_where_there_is_no_debian(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(tmp_path / "bin", monkeypatch)
    monkeypatch.setattr(tools, "TOOLS", tmp_path / "tools")
    asked = tmp_path / "asked"
    fake(
        tmp_path / "bin" / "go",
        f'PATH=/usr/bin:/bin\necho "$@" > {asked}\nmkdir -p "$GOBIN"; cd "$GOBIN"\n{maker(".")}',
    )
    assert tools.ensure_prometheus() == tmp_path / "tools" / "prometheus"
    module, version = tools.PROMETHEUS_MODULE
    assert asked.read_text().split() == [
        "install",
        f"{module}/cmd/prometheus@{version}",
        f"{module}/cmd/promtool@{version}",
    ]


@pytest.mark.parametrize("given", ["--nonsense", "stray"])
def test_nothing_is_fetched_for_a_command_line_that_is_wrong(
    given: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tools", given])
    with pytest.raises(SystemExit, match="2"):
        tools.main()
    assert given in capsys.readouterr().err


def test_jars_that_are_not_those_of_the_list_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def maven(arguments: list[Any], **_: Any) -> subprocess.CompletedProcess[str]:
        assert "-Dflink.version=2.2.1" in arguments
        folder = next(str(part).split("=")[1] for part in arguments if "-DoutputDirectory=" in str(part))
        Path(folder).mkdir()
        (Path(folder) / "kafka-clients-4.2.0.jar").write_text("jar")
        return subprocess.CompletedProcess(arguments, 0, stdout="")

    only(tmp_path / "bin", monkeypatch)
    fake(tmp_path / "bin" / "mvn", "")
    monkeypatch.setattr(tools, "JARS", tmp_path / "jars")
    monkeypatch.setattr(subprocess, "run", maven)

    with pytest.raises(tools.MissingToolError, match="other jars than"):
        tools.ensure_jars("flink-2.2.1")
    assert not (tmp_path / "jars" / "flink-2.2.1").exists()
