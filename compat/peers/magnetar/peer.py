"""Magnetar as users start it: the command, its own data folder, free ports.

    with MagnetarPeer() as peer:
        client = Producer({"bootstrap.servers": peer.bootstrap})

It listens on 127.0.0.1 only. `kill()` and `start()` on the same object give a restart over the same data.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from compat.peers.process import Peer, PeerError, free_port
from compat.peers.secured import Secured
from compat.tools import PROJECT

MODULE = "gateway.cli.main"
ADMIN_MODULE = "gateway.cli.admin"


class MagnetarPeer(Peer):
    """`magnetar serve FLAGS` in a child process.

    `data` is its data folder, by default "data" in `directory`. `settings` are given with --set. `environ` is added to
    the environment. `wrapper` is a command that runs the gateway's, e.g. in a name space of its own. `entry` is the
    module that is run, and arguments of its own: a gateway that is to come to harm has another one than Magnetar's.
    `secured` makes its listener one with TLS, logins or both.
    `checkout` is another checkout of the project, whose code runs: what is measured beside this one's.
    """

    name = "Magnetar"
    pause = 0.01

    def __init__(
        self,
        *flags: str,
        port: int = 0,
        directory: Path | None = None,
        data: Path | None = None,
        settings: Mapping[str, str | int] | None = None,
        environ: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
        entry: Sequence[str] = (MODULE,),
        start_timeout: float = 60.0,
        scratch: Path | None = None,
        checkout: Path | None = None,
        secured: Secured | None = None,
    ) -> None:
        super().__init__(port, directory, start_timeout, scratch)
        self.checkout = checkout
        self.secured = secured
        self.data = data or self.directory / "data"
        self.flags = [*flags, *(f"--set={key}={value}" for key, value in (settings or {}).items())]
        self.environ = dict(environ or {})
        self.wrapper = tuple(wrapper)
        self.entry = tuple(entry)
        self._admin_port = free_port()
        # what `secured` says, as flags
        self._securing: list[str] = []
        # where in its output the last start begins
        self._said_before = 0

    @property
    def folder(self) -> Path:
        # so that the modules of the tests are found, too
        return self.checkout or PROJECT

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, **self.environ}

    @property
    def admin_url(self) -> str:
        return f"http://{self.host}:{self._admin_port}"

    @property
    def admin_port(self) -> int:
        return self._admin_port

    @property
    def told(self) -> str:
        return f"{self.bootstrap}, admin {self.admin_url}"

    @property
    def lines(self) -> list[str]:
        """What it has said on standard output since it was started."""
        with open(self.directory / "stdout.log", "rb") as file:
            file.seek(self._said_before)
            return file.read().decode(errors="replace").splitlines()

    def log(self) -> str:
        """What it wrote to standard error, over all starts."""
        log = self.directory / "stderr.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        if self.secured is not None:
            self.secured.prepare()
            self._securing = [f"--set={key}={value}" for key, value in self.secured.magnetar().items()]
        output = self.directory / "stdout.log"
        self._said_before = output.stat().st_size if output.exists() else 0

    @property
    def arguments(self) -> list[str]:
        """What stands behind `magnetar`."""
        listen = f"{self.secured.protocol}://{self.bootstrap}" if self.secured is not None else self.bootstrap
        where = ("--listen", listen, "--admin", f"{self.host}:{self._admin_port}")
        return ["serve", *where, "--data", str(self.data), *self._securing, *self.flags]

    def command(self) -> list[str]:
        return [*self.wrapper, self.python, "-m", *self.entry, *self.arguments]

    @property
    def python(self) -> str:
        """Another checkout runs in its own environment, if it has one."""
        own = self.folder / ".venv" / "bin" / "python"
        return str(own) if self.checkout is not None and own.exists() else sys.executable

    def verify(self) -> subprocess.CompletedProcess[str]:
        """`magnetar store verify` over its data; it must not run."""
        command = [sys.executable, "-m", MODULE, "store", "verify", "--data", str(self.data)]
        return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)

    def admin(self, *arguments: str) -> str:
        """What `magnetar-admin` with these arguments prints. Raises `PeerError` when it says no."""
        command = [sys.executable, "-m", ADMIN_MODULE, *arguments, "--admin-url", self.admin_url]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PeerError(f"magnetar-admin {' '.join(arguments)}: {done.stderr.strip()}", done.returncode)
        return done.stdout

    def answers(self) -> bool:
        """Whether it has said its last address: it serves clients and the admin API then."""
        return any(line.startswith("admin on ") for line in self.lines)
