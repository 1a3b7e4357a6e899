"""Unmodified clients against a gateway: one test for each case of each program in compat/clients.

The programs run once, side by side, against one gateway, and the tests read what they reported: a JVM or a
client start for each test would take longer than all the cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from compat.harness import catalogue
from compat.harness.run import RESULTS, Results, run
from tests.integration.process import GatewayProcess

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("clients"), pytest.mark.timeout(600)]

CASES = [(client.name, case) for client in catalogue.clients().values() for case in client.cases]


class Shared(NamedTuple):
    results: Results
    gateway: GatewayProcess


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """What the programs reported for the cases that this run of pytest has selected."""
    asked: set[tuple[str, str]] = {
        (str(item.callspec.params["client"]), str(item.callspec.params["case"]))
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == "test_case"
    }
    programs = catalogue.chosen(dict.fromkeys(client for client, _ in sorted(asked)))
    cases = [] if len(asked) == len(CASES) else sorted({case for _, case in asked})
    flags = ("--set", "group.initial.rebalance.delay.ms=0")
    with GatewayProcess(tmp_path_factory.mktemp("clients") / "data", *flags) as gateway:

        def restart() -> None:
            gateway.kill()  # harder than a clean stop: what was acknowledged must be there after it
            gateway.start()

        found = run(gateway.bootstrap, programs, cases=cases, restart=restart)
        found.save(RESULTS / "magnetar.json")
        yield Shared(found, gateway)


@pytest.mark.parametrize(("client", "case"), CASES)
def test_case(shared: Shared, client: str, case: str) -> None:
    outcome = shared.results.outcomes[client, case]
    why = catalogue.clients()[client].known.get(case)
    if why and not outcome.ok:
        pytest.xfail(f"the client's own fault: {why}")
    assert outcome.ok, outcome.detail
    if case in catalogue.not_yet():
        assert outcome.refused, f"{case} works now: take it out of compat/clients/not_yet.toml"
    else:
        assert not outcome.refused, outcome.refused


def test_the_gateway_had_no_errors_of_its_own(shared: Shared) -> None:
    log = shared.gateway.log()
    wrong = [line for line in log.splitlines() if " ERROR " in line or "Traceback" in line]
    assert not wrong, "\n".join(wrong[:20])
