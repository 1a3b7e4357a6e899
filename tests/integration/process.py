"""A gateway as users start it: the command, its own data folder, free ports; stopped by its pid."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

_LISTENING = re.compile(r"listening on (\S+)")
_ADMIN = re.compile(r"admin on (http://\S+)")


class GatewayProcess:
    """`magnetar serve` in a process of its own. `start` returns when it listens."""

    def __init__(
        self,
        data: Path,
        *flags: str,
        environ: dict[str, str] | None = None,
        wrapper: tuple[str, ...] = (),
    ) -> None:
        """`wrapper` is a command that runs the gateway's, e.g. in a name space of its own."""
        self.wrapper = wrapper
        self.data = data
        self.flags = list(flags)
        self.environ = {**os.environ, **(environ or {})}
        self.bootstrap = ""
        self.admin_url = ""
        self.lines: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._log = data.with_suffix(".log")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def command(self) -> list[str]:
        listen = self.bootstrap or "127.0.0.1:0"
        admin = self.admin_url.removeprefix("http://") or "127.0.0.1:0"
        return [
            *self.wrapper,
            sys.executable,
            "-m",
            "gateway.cli.main",
            "serve",
            "--listen",
            listen,
            "--admin",
            admin,
            "--data",
            str(self.data),
            *self.flags,
        ]

    def start(self, timeout: float = 30.0) -> GatewayProcess:
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=subprocess.PIPE, stderr=log, text=True, env=self.environ
            )
        lines: queue.Queue[str | None] = queue.Queue()
        stdout = self._process.stdout
        assert stdout is not None

        def read() -> None:
            for line in stdout:
                lines.put(line)
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        self.lines = []
        while not self.lines or not _ADMIN.search(self.lines[-1]):
            try:
                line = lines.get(timeout=timeout)
            except queue.Empty:
                line = None
            if line is None:
                raise AssertionError(
                    f"the gateway did not start; it said {self.lines} and\n{self.log()[-4000:]}"
                )
            self.lines.append(line.strip())
        text = "\n".join(self.lines)
        listening, admin = _LISTENING.search(text), _ADMIN.search(text)
        assert listening is not None
        assert admin is not None
        self.bootstrap, self.admin_url = listening[1], admin[1]
        return self

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll() if self._process is not None else 0

    def log(self) -> str:
        """What it wrote to stderr, over all starts."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def stop(self, timeout: float = 30.0) -> int:
        """SIGTERM; its exit code."""
        return self._end(signal.SIGTERM, timeout)

    def kill(self) -> int:
        """SIGKILL: what a crash of the process looks like."""
        return self._end(signal.SIGKILL, 30.0)

    def restart(self) -> None:
        """Stop cleanly and start again on the same ports and data."""
        assert self.stop() == 0, self.log()[-4000:]
        self.start()

    def _end(self, number: int, timeout: float) -> int:
        process, self._process = self._process, None
        assert process is not None
        process.send_signal(number)
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()

    def __enter__(self) -> GatewayProcess:
        try:
            return self.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise

    def __exit__(self, kind: object = None, *exception: object) -> None:
        if self._process is not None and kind is KeyboardInterrupt:
            # whoever pressed Ctrl-C does not wait for what a stop saves
            self.kill()
        elif self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.stop()
