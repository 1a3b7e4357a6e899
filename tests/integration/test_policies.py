"""Each policy of the table as real clients meet it: said of a namespace, of a topic, after a SIGKILL, taken back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat.peers.magnetar import MagnetarPeer
from semantics.policies import Level
from semantics.policy_forms import ALL
from tests.integration.policy_case import Case, Said
from tests.integration.policy_cases import CASES, parameters
from tests.integration.policy_place import Place

ENTRY = ("tests.integration.hurried_gateway",)
SETTINGS = {
    "message.expiry.check.interval.ms": 50,
    "log.retention.check.interval.ms": 50,
    "log.cleaner.backoff.ms": 50,
}


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MagnetarPeer]:
    """One gateway for all of them: each has a namespace of its own."""
    folder = tmp_path_factory.mktemp("policies")
    with MagnetarPeer(directory=folder, settings=SETTINGS, entry=ENTRY) as gateway:
        gateway.admin("tenants", "create", "shop")
        yield gateway


def test_each_policy_of_the_table_has_a_case() -> None:
    told = [(each.verb, each.type) for each in CASES]
    assert sorted(told) == sorted((form.verb, form.type) for form in ALL)
    for case in CASES:
        assert bool(case.at_topic) == (Level.TOPIC in case.form().levels), case.verb
        assert bool(case.at_namespace) == (Level.NAMESPACE in case.form().levels), case.verb


@pytest.mark.integration
@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", parameters())
def test_the_nearest_level_counts_also_after_a_kill(hurried: MagnetarPeer, kind: type[Case]) -> None:
    place = Place(hurried, kind.type.replace("_", "-") or kind.verb)
    place.admin("namespaces", "create", place.namespace)
    assert place.make("t") is None
    case = kind(place)
    case.prepare()
    case.shows(Said.NOBODY)
    namespaces, topics = bool(kind.at_namespace), bool(kind.at_topic)
    if namespaces:
        case.set_at(Level.NAMESPACE)
        case.shows(Said.NAMESPACE)
    if topics:
        if "t" not in place.topics():
            assert place.make("t") is None
        case.set_at(Level.TOPIC)
        case.shows(Said.TOPIC)
    hurried.kill()
    hurried.start()
    if topics:
        case.shows(Said.TOPIC)
        case.remove_at(Level.TOPIC)
    if namespaces:
        case.shows(Said.NAMESPACE)
        case.remove_at(Level.NAMESPACE)
    case.shows(Said.NOBODY)
