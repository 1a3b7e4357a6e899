"""One Prometheus for tests: the program as it is published, in its own folder, on a free port of 127.0.0.1.

with PrometheusPeer([peer.admin_url]) as prometheus:
    prometheus.query("up")
"""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from compat.peers.process import Peer, PeerError
from compat.tools import ensure_prometheus

_CONFIG = """\
global:
  scrape_interval: {interval}
  scrape_timeout: {interval}
  evaluation_interval: {interval}
rule_files: [{rules}]
scrape_configs:
  - job_name: magnetar
    static_configs:
      - targets: [{targets}]
"""


class PrometheusPeer(Peer):
    """It scrapes `targets` (URLs of admin servers) each `interval`, as Prometheus writes times, and follows `rules`."""

    name = "Prometheus"

    def __init__(
        self,
        targets: Iterable[str],
        *,
        rules: Path | None = None,
        interval: str = "500ms",
        directory: Path | None = None,
    ) -> None:
        super().__init__(0, directory, 60.0)
        self.targets = [target.removeprefix("http://") for target in targets]
        self.rules = rules
        self.interval = interval

    @property
    def url(self) -> str:
        return f"http://{self.bootstrap}"

    def prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        if self.rules is not None:
            shutil.copy(self.rules, self.directory / "rules.yml")
        (self.directory / "prometheus.yml").write_text(
            _CONFIG.format(
                interval=self.interval,
                rules="rules.yml" if self.rules is not None else "",
                targets=", ".join(f'"{target}"' for target in self.targets),
            )
        )

    def command(self) -> list[str]:
        return [
            str(ensure_prometheus() / "prometheus"),
            f"--config.file={self.directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.directory / 'data'}",
            f"--web.listen-address={self.bootstrap}",
        ]

    def answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.url}/-/ready", timeout=2).close()
        except OSError:
            return False
        return True

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of /api/v1. Raises `PeerError` with the reason when Prometheus refuses."""
        try:
            with urllib.request.urlopen(
                f"{self.url}/api/v1/{path}?{urlencode(parameters)}", timeout=30
            ) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise PeerError(f"{path} {parameters}: {error.read().decode(errors='replace')}") from None

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """What an expression gives now: labels and values of an instant vector, or one value without labels."""
        data = self.ask("query", query=expression)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(one["metric"], float(one["value"][1])) for one in data["result"]]
