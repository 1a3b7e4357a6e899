"""Unmodified clients against a gateway: one test for each case of each program in compat/clients.

The programs run once, side by side, against one gateway, and the tests read what they reported: a JVM or a
client start for each test would take longer than all the cases. Workers of pytest-xdist share that one run.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from compat.harness import catalogue
from compat.harness.__main__ import SETTINGS
from compat.harness.run import RESULTS, Results, run
from compat.peers.magnetar import MagnetarPeer

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("clients"), pytest.mark.timeout(600)]

CASES = [(client.name, case) for client, case in catalogue.tested()]


class Run:
    """What one run of the programs found, kept in a folder that the workers share."""

    def __init__(self, folder: Path) -> None:
        self._outcomes, self._errors = folder / "outcomes.json", folder / "errors.json"

    @property
    def done(self) -> bool:
        return self._errors.exists()

    def save(self, results: Results, log: str) -> None:
        results.save(self._outcomes)
        wrong = [line for line in log.splitlines() if " ERROR " in line or line.startswith("Traceback")]
        self._errors.write_text(json.dumps(wrong))

    def results(self) -> Results:
        return Results.load(self._outcomes)

    def errors(self) -> list[str]:
        """Lines of the gateway's own log that speak of an error."""
        found: list[str] = json.loads(self._errors.read_text())
        return found


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run, made by the first that asks, for the cases that this run of pytest has selected."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "client-programs"
    folder.mkdir(exist_ok=True)
    found = Run(folder)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.done:
            _work(request, folder, found)
    return found


def _work(request: pytest.FixtureRequest, folder: Path, found: Run) -> None:
    asked: set[tuple[str, str]] = {
        (str(item.callspec.params["client"]), str(item.callspec.params["case"]))
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == "test_case"
    }
    programs = catalogue.chosen(dict.fromkeys(client for client, _ in sorted(asked)))
    cases = sorted({case for _, case in asked})
    with MagnetarPeer(directory=folder, settings=SETTINGS) as gateway:

        def restart() -> None:
            gateway.kill()  # harder than a clean stop: what was acknowledged must be there after it
            gateway.start()

        results = run(gateway.bootstrap, programs, cases=cases, restart=restart, limit=420)
    found.save(results, gateway.log())
    results.save(RESULTS / "magnetar.json")


@pytest.mark.parametrize(("client", "case"), CASES)
def test_case(shared: Run, client: str, case: str) -> None:
    outcome = shared.results().outcomes[client, case]
    why = catalogue.clients()[client].known.get(case)
    if why and not outcome.ok:
        pytest.xfail(f"the client's own fault: {why}")
    assert outcome.ok, outcome.detail
    if case in catalogue.not_yet():
        assert outcome.refused, f"{case} works now: take it out of compat/clients/not_yet.toml"
    else:
        assert not outcome.refused, outcome.refused


def test_the_gateway_had_no_errors_of_its_own(shared: Run) -> None:
    assert shared.errors() == []
