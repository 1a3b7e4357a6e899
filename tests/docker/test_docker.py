"""The files in docker/ say what the programs take: images, compose files, and the commands on the README page."""

from __future__ import annotations

import json
import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
import yaml

from gateway.cli.admin import main as magnetar_admin
from gateway.cli.main import main as magnetar
from gateway.config import Settings, SettingsError
from pipeline.cli import main as magnetar_pipeline

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
DOCKERFILES = [DOCKER / "Dockerfile", DOCKER / "spark.Dockerfile"]
COMPOSE_FILES = [DOCKER / "compose.yaml", DOCKER / "compose.spark.yaml"]

PROGRAMS: dict[str, click.Command] = {
    "magnetar": magnetar,
    "magnetar-admin": magnetar_admin,
    "magnetar-pipeline": magnetar_pipeline,
}


class Step(NamedTuple):
    word: str
    rest: str


def steps(file: Path) -> list[Step]:
    """The instructions of a Dockerfile: comments gone, continued lines joined."""
    lines = [line for line in file.read_text().splitlines() if not line.lstrip().startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    return [Step(*line.split(None, 1)) for line in text.splitlines() if line.strip()]


def last_stage(file: Path) -> dict[str, str]:
    """Instructions that say how the image runs; the last of each counts."""
    found: dict[str, str] = {}
    for step in steps(file):
        if step.word == "FROM":
            found = {}
        found[step.word] = step.rest
    return found


def environment(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in shlex.split(text))


def parse(program: str, args: list[str]) -> click.Context:
    """What the program makes of its arguments. Raises click's UsageError for those it does not take."""
    command = PROGRAMS[program]
    context = click.Context(command, info_name=program, **command.context_settings)
    while isinstance(command, click.Group) and args != ["--help"]:
        name, found, args = command.resolve_command(context, args)
        assert found is not None
        command = found
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=name, parent=context)
        else:
            context = command.make_context(name, args, parent=context)
    return context


def settings_of(args: list[str], environ: dict[str, str] | None = None) -> Settings:
    """The settings that `magnetar serve ARGS` starts with."""
    params = parse("magnetar", args).params
    options = {
        "listeners": ",".join(params["listeners"]),
        "admin.listen": params["admin"],
        "data": params["data"],
        "ssl.certificate.location": params["tls_cert"],
        "ssl.key.location": params["tls_key"],
        "users.file": params["users_file"],
        "insecure": "true" if params["insecure"] else None,
    }
    given = {name: value for name, value in options.items() if value}
    return Settings.load(params["sets"], None, environ or {}, given)


class TestDockerfiles:
    @pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
    def test_what_is_copied_is_there_and_let_through(self, file: Path) -> None:
        let_through = {
            line[1:]
            for line in file.with_name(file.name + ".dockerignore").read_text().splitlines()
            if line.startswith("!")
        }
        copied = set()
        for step in steps(file):
            if step.word == "COPY" and not step.rest.startswith("--from"):
                copied.update(step.rest.split()[:-1])
        # pyproject.toml names its README: a checkout without one cannot be installed either
        assert all((ROOT / path).exists() for path in copied - {"README.md"})
        assert copied == let_through

    @pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
    def test_only_locked_packages(self, file: Path) -> None:
        pins = {line.strip() for line in (ROOT / "requirements" / "dev.in").read_text().splitlines()}
        for step in steps(file):
            if step.word == "RUN" and "pip install" in step.rest:
                packages = [
                    word for word in step.rest.split("pip install")[1].split() if not word.startswith("-")
                ]
                if "--require-hashes" in step.rest:
                    assert packages == ["requirements/run.lock"]
                elif "--no-deps" in step.rest:
                    assert packages == ["."]
                else:
                    assert set(packages) <= pins

    @pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
    def test_it_runs_as_nobody_special(self, file: Path) -> None:
        user = last_stage(file)["USER"]
        assert user not in ("root", "0")
        assert any(step.word == "RUN" and f"--create-home {user}" in step.rest for step in steps(file))

    @pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
    def test_its_command_is_one_of_ours(self, file: Path) -> None:
        stage = last_stage(file)
        (program,) = json.loads(stage["ENTRYPOINT"])
        parse(program, json.loads(stage["CMD"]))

    def test_the_gateway_keeps_what_is_acknowledged_through_a_power_cut(self) -> None:
        stage = last_stage(DOCKER / "Dockerfile")
        environ = {**environment(stage["ENV"]), "MAGNETAR_INSECURE": "true"}
        assert settings_of(json.loads(stage["CMD"]), environ).text("durability") == "fsync"

    def test_the_gateway_serves_what_the_image_exposes(self) -> None:
        stage = last_stage(DOCKERFILES[0])
        given = environment(stage["ENV"]) | {"MAGNETAR_INSECURE": "true"}
        settings = settings_of(json.loads(stage["CMD"]), given)
        assert settings.admin is not None
        ports = [listener.port for listener in settings.listeners] + [settings.admin.port]
        assert ports == [int(port) for port in stage["EXPOSE"].split()]
        assert settings.text("data") == stage["VOLUME"]
        health = json.loads(stage["HEALTHCHECK"].partition("CMD ")[2])[-1]
        copied = [step.rest.split() for step in steps(DOCKERFILES[0]) if step.word == "COPY"]
        assert ["docker/health.py", health] in copied

    def test_each_side_is_told_an_address_that_it_can_reach(self) -> None:
        stage = last_stage(DOCKERFILES[0])
        settings = settings_of(json.loads(stage["CMD"]), {"MAGNETAR_INSECURE": "true"})
        outside, inside = settings.listeners
        assert (outside.advertised_host, outside.advertised_port) == ("127.0.0.1", outside.port)
        # on a network a container is known by its own name
        assert (inside.advertised_host, inside.advertised_port) == (socket.gethostname(), inside.port)

    def test_nothing_that_asks_no_password_starts_by_itself(self) -> None:
        stage = last_stage(DOCKERFILES[0])
        with pytest.raises(SettingsError, match="--insecure"):
            settings_of(json.loads(stage["CMD"]), environment(stage["ENV"]))

    @pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
    def test_bases_are_pinned(self, file: Path) -> None:
        for step in steps(file):
            if step.word == "FROM":
                assert re.fullmatch(r"[a-z]+:\S+@sha256:[0-9a-f]{64}( AS \w+)?", step.rest)

    @pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
    def test_its_folder_is_writable_by_group_root(self, file: Path) -> None:
        stage = last_stage(file)
        made = [step.rest for step in steps(file) if "install -d" in step.rest]
        assert re.search(rf"-g root -m 0775 {stage['VOLUME']}\b", made[0])

    def test_the_python_is_one_we_support(self) -> None:
        wanted = re.search(r'requires-python = ">=([\d.]+),<[\d.]+"', (ROOT / "pyproject.toml").read_text())
        assert wanted is not None
        for file in DOCKERFILES:
            for step in steps(file):
                if step.word == "FROM" and step.rest.startswith("python:"):
                    assert re.match(rf"python:{re.escape(wanted[1])}\.\d+-slim", step.rest)

    def test_spark_gets_the_jars_that_the_tests_use(self) -> None:
        source = (ROOT / "compat" / "spark" / "jars.py").read_text()
        listed = re.search(r"ARTIFACTS = \((.*?)\)", source, re.DOTALL)
        assert listed is not None
        text = " ".join(step.rest for step in steps(DOCKERFILES[1]))
        artifacts = re.search(r"-DincludeArtifactIds=(\S+)", text)
        assert artifacts is not None
        assert artifacts[1].split(",") == re.findall(r'"([^"]+)"', listed[1])


def compose(file: Path) -> dict[str, Any]:
    """A compose file with what it includes."""
    data: dict[str, Any] = yaml.safe_load(file.read_text())
    for other in data.pop("include", []):
        for section, entries in compose(file.parent / other).items():
            if isinstance(entries, dict):
                data[section] = entries | data.get(section, {})
    return data


class TestCompose:
    @pytest.mark.parametrize("file", COMPOSE_FILES, ids=lambda file: file.name)
    def test_every_service(self, file: Path) -> None:
        data = compose(file)
        for service in data["services"].values():
            dockerfile = ROOT / service["build"]["dockerfile"]
            assert (file.parent / service["build"]["context"]).resolve() == ROOT
            stage = last_stage(dockerfile)
            (program,) = json.loads(stage["ENTRYPOINT"])
            parse(program, service["command"])
            for volume in service["volumes"]:
                name, target = volume.split(":")
                assert name in data["volumes"]
                assert target == stage["VOLUME"]
            for port in service.get("ports", []):
                assert port.startswith("127.0.0.1:"), "nothing asks for a password"
            for other, wanted in service.get("depends_on", {}).items():
                needed = ROOT / data["services"][other]["build"]["dockerfile"]
                assert wanted["condition"] != "service_healthy" or "HEALTHCHECK" in last_stage(needed)

    def test_each_side_is_told_an_address_that_it_can_reach(self) -> None:
        gateway = compose(COMPOSE_FILES[0])["services"]["gateway"]
        settings = settings_of(gateway["command"])
        published = dict(reversed(port.split(":")[1:]) for port in gateway["ports"])
        by_name = {listener.name: listener for listener in settings.listeners}
        outside, inside = by_name["HOST"], by_name["INSIDE"]
        assert (outside.advertised_host, str(outside.advertised_port)) == (
            "127.0.0.1",
            published[str(outside.port)],
        )
        assert (inside.advertised_host, inside.advertised_port) == ("gateway", inside.port)
        assert settings.admin is not None
        assert str(settings.admin.port) in published

    def test_spark_asks_the_listener_for_containers(self) -> None:
        services = compose(COMPOSE_FILES[1])["services"]
        params = parse("magnetar-pipeline", services["spark"]["command"]).params
        assert params["bootstrap"] == "gateway:29092"
        assert params["output"] == last_stage(DOCKERFILES[1])["VOLUME"]
        addresses = [
            listener.advertised_port for listener in settings_of(services["gateway"]["command"]).listeners
        ]
        assert 29092 in addresses


PROMPTED = re.compile(
    r"^    (?:\$ )?((?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?"
    r"(?:docker|magnetar|magnetar-admin|magnetar-pipeline|make run)\b(?! \d).*)$",
    re.MULTILINE,
)


def commands(page: Path) -> Iterator[list[str]]:
    """Command lines on a page, in `sh` blocks and indented ones: one list of words for each command in a line."""
    text = page.read_text().replace("\\\n", " ")
    lines = [
        line
        for block in re.findall(r"```(?:sh|bash)\n(.*?)```", text, re.DOTALL)
        for line in block.splitlines()
    ]
    lines += PROMPTED.findall(text)
    for line in lines:
        words: list[str] = []
        for word in [*shlex.split(line.removeprefix("$ "), comments=True), "&&"]:
            if word not in ("&&", "|", ";"):
                words.append(word.removeprefix(".venv/bin/"))
                continue
            if ">" in words:
                words = words[: words.index(">")]
            if words:
                yield words
            words = []


def mentions(page: Path) -> Iterator[list[str]]:
    """Our programs between single backquotes: often without their arguments."""
    for line in re.findall(
        r"`((?:magnetar|magnetar-admin|magnetar-pipeline|docker|make run) [^`\n]+)`", page.read_text()
    ):
        yield shlex.split(line)


PAGES = [
    page
    for page in (ROOT / "README.md", DOCKER / "README.md", ROOT / "gateway" / "README.md")
    if page.exists()
]


class TestPages:
    @pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
    def test_commands_are_what_the_programs_take(self, page: Path) -> None:
        for command in commands(page):
            check(command)

    @pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
    def test_what_is_mentioned_is_there(self, page: Path) -> None:
        for words in mentions(page):
            program, *args = words
            if any(word.startswith("-") for word in args):
                check(words)
            elif program in PROGRAMS:
                command: click.Command | None = PROGRAMS[program]
                for word in args:
                    assert isinstance(command, click.Group), words
                    command = command.get_command(click.Context(command), word)
                    assert command is not None, words

    def test_there_are_some(self) -> None:
        assert len(list(commands(DOCKER / "README.md"))) > 5


def check(command: list[str]) -> None:
    """Fail on a command that the program, the image or the compose file would not take."""
    images = {
        service["image"]: ROOT / service["build"]["dockerfile"]
        for service in compose(COMPOSE_FILES[1])["services"].values()
    }
    environ: dict[str, str] = {}
    while "=" in command[0]:
        name, _, value = command[0].partition("=")
        environ[name] = value
        command = command[1:]
    match command:
        case ["docker", "compose", "-f", file, verb, *rest]:
            services = compose(ROOT / file)["services"]
            if verb == "run":
                args = [word for word in rest if word != "--rm"]
                check_image(ROOT / services[args[0]]["build"]["dockerfile"], args[1:])
            else:
                assert verb in ("up", "down", "cp")
        case ["docker", "build", "-f", file, "-t", image, "."]:
            assert images[image] == ROOT / file
        case ["docker", "run", *rest]:
            named = next((word for word in rest if word in images), None)
            if named is None:
                return  # somebody else's
            before, after = rest[: rest.index(named)], rest[rest.index(named) + 1 :]
            given = dict(re.findall(r"-e (\w+)=(\S+)", " ".join(before)))
            for port in re.findall(r"-p (\S+)", " ".join(before)):
                assert port.startswith("127.0.0.1:"), "nothing asks for a password"
            stage = last_stage(images[named])
            if not after:
                settings_of(json.loads(stage["CMD"]), environment(stage["ENV"]) | given)
            Settings.load(environ=given)
            check_image(images[named], after)
        case [program, *args] if program in PROGRAMS:
            check_program(program, args, environ)
        case ["make", "run", *rest]:
            words = [word.removeprefix("ARGS=") for word in rest]
            check_program("magnetar", ["serve", *shlex.split(" ".join(words))], environ)
        case _:
            # other programs answer for themselves
            pass


def check_image(dockerfile: Path, args: list[str]) -> None:
    if args:
        (program,) = json.loads(last_stage(dockerfile)["ENTRYPOINT"])
        check_program(program, args, {})


def check_program(program: str, args: list[str], environ: dict[str, str]) -> None:
    if "--help" in args or "-h" in args:
        return
    context = parse(program, args)
    if program == "magnetar" and context.info_name == "serve":
        settings_of(args, environ)
