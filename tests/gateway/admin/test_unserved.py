"""The verb that makes a call which is not served, and what a refusal says of it."""

from __future__ import annotations

import pytest

from gateway.admin.pulsar_verbs import table
from gateway.admin.unserved import reason, refused, refused_elsewhere, verb_of_call
from gateway.not_served import find, sentence


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("PUT", "persistent/t/n/x/compaction", "topics compact"),
        ("POST", "persistent/t/n/x/terminate", "topics terminate"),
        ("POST", "persistent/t/n/x/terminate/partitions", "topics partitioned-terminate"),
        (
            "GET",
            "persistent/t/n/x/subscription/s/replicatedSubscriptionStatus",
            "topics get-replicated-subscription-status",
        ),
        (
            "POST",
            "namespaces/t/n/permissions/subscription/billing",
            "namespaces grant-subscription-permission",
        ),
        ("PUT", "namespaces/t/n/0x00000000_0x40000000/split", "namespaces split-bundle"),
        ("PUT", "clusters/mars", "clusters create"),
        ("POST", "clusters/mars/failureDomains/a", "clusters create-failure-domain"),
        ("GET", "bookies/racks-info", "bookies racks-placement"),
        ("GET", "schemas/t/n/x/schema", "schemas get"),
        # one part says more than any
        ("GET", "brokers/internal-configuration", "brokers get-internal-config"),
        ("GET", "brokers/mars", "brokers list"),
        # the same of a topic that is not persistent
        ("GET", "non-persistent/t/n/x/maxProducers", "topics get-max-producers"),
        # what only one noun has
        ("GET", "persistent/t/n/x/entryFilters", "topicPolicies get-entry-filters-per-topic"),
        ("DELETE", "namespaces/t/n/removeOffloadPolicies", "namespaces remove-offload-policies"),
    ],
)
def test_the_verb_that_a_person_typed(method: str, path: str, name: str) -> None:
    assert str(verb_of_call(method, path.split("/"))) == name


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "persistent/t/n/x/retention"),
        ("GET", "persistent/t/n/x/a-b"),
        ("GET", "persistent/t/n/x/permissions2/17"),
        ("GET", "clusters/mars/peers/more"),
        ("GET", "worker/dance"),
        ("GET", ""),
    ],
)
def test_what_pulsar_admin_has_no_verb_for(method: str, path: str) -> None:
    assert verb_of_call(method, path.split("/")) is None


def test_no_path() -> None:
    assert verb_of_call("GET", ()) is None


def test_what_is_served_is_so_under_its_old_noun_too() -> None:
    by_name = {str(verb): verb for verb in table().verbs}
    assert reason(by_name["persistent compact"]) is None
    assert find("topics", "compact") is None
    # the command line does not know the noun at all
    assert find("persistent", "compact") is not None


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("PUT", "persistent/t/n/x/offload", "`topics offload` is not served: it would move old"),
        (
            "POST",
            "bookies/racks-info/x",
            "`bookies set-bookie-rack` is not served: it would say in which racks",
        ),
        (
            "POST",
            "persistent/t/n/x/subscribeRate",
            "`topics set-subscribe-rate` is not served: it would limit",
        ),
        # what no verb of pulsar-admin asks for
        ("GET", "bookies/dance", "`bookies` is not served: it would say"),
        ("GET", "brokers/a/b/c/d", "Magnetar does not serve this call of brokers yet."),
    ],
)
def test_a_refusal_says_the_verb_and_the_reason(method: str, path: str, words: str) -> None:
    noun = path.split("/")[0]
    assert refused(method, path.split("/"), noun).startswith(words)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (
            "/proxy-stats/connections",
            "`proxy-stats connections` is not served: it would tell of the connections",
        ),
        ("/proxy-stats/more", "`proxy-stats` is not served: it would tell of the connections"),
        ("/admin/v3/functions/a/b", "`functions list` is not served: it would run code of yours"),
        ("/admin/v3/sink/dance/a/b/c/d", "`sinks` is not served: it would run a connector"),
        ("/admin/v3/packages", "`packages` is not served: it would keep"),
        ("/admin/v3", "Magnetar serves nothing of /admin/v3."),
        ("/admin/v3/dance", "Magnetar serves nothing of /admin/v3."),
        ("/admin/namespaces/public/standalone", "`namespaces list-cluster` is not served: it would list"),
        ("/admin/persistent/a/b/c/d/stats", "`/admin/persistent` is not served: it would use names"),
        ("/lookup/v2/destination", "Magnetar looks topics up at"),
    ],
)
def test_calls_elsewhere_say_theirs(path: str, words: str) -> None:
    assert (refused_elsewhere("GET", path) or "").startswith(words)


def test_other_paths_are_nothing_of_pulsars() -> None:
    assert refused_elsewhere("GET", "/favicon.ico") is None
    assert sentence("favicon.ico") is None
