"""docs/ADMIN.md says of every verb of pulsar-admin what the routes say."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from gateway.admin import page as written
from gateway.admin import routes
from gateway.admin.exchange import Call, RefusedError
from gateway.admin.page import PAGE, Status, call_of, page, routed, status
from gateway.admin.pulsar_verbs import AdminVerb, Asked, table
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin

EDIT = "edit gateway/admin/pulsar_admin.toml, then run: python -m gateway.admin.page"

OURS = {
    ("GET", "magnetar/kafka"), ("GET", "magnetar/lag"), ("GET", "magnetar/hash"), ("PUT", "magnetar/queues/*"),
    ("GET", "magnetar/acls/*/*"), ("GET", "magnetar/users"), ("GET", "magnetar/users/*"), ("PUT", "magnetar/users/*"),
    ("DELETE", "magnetar/users/*"), ("POST", "magnetar/users/*/password"), ("POST", "magnetar/users/*/home"),
    ("GET", "magnetar/resourcegroups/*/stats"),
    ("GET", "magnetar/subscriptions"), ("GET", "magnetar/attention"),
    ("GET", "persistent/*/*/*/subscription/*/magnetar/consumers"),
    ("GET", "persistent/*/*/*/hash"), ("GET", "persistent/*/*/*/lag"), ("GET", "persistent/*/*/*/policies"),
    ("GET", "persistent/*/*/*/subscription/*/explain"), ("GET", "persistent/*/*/*/subscription/*/hash"),
    *(("GET", f"persistent/*/*/*/subscription/*/magnetar/{each}") for each in ("causes", "due", "open", "strip")),
    ("POST", "persistent/*/*/*/subscription/*/magnetar/act"),
    ("GET", "magnetar/audit"), ("GET", "magnetar/jobs"), ("GET", "magnetar/jobs/*"), ("POST", "magnetar/jobs/*/stop"),
    ("GET", "magnetar/transactions"),
    ("GET", "persistent/*/*/*/subscription/*/magnetar/deadletters"),
    ("GET", "persistent/*/*/*/subscription/*/magnetar/deadletters/groups"),
    ("POST", "persistent/*/*/*/subscription/*/magnetar/replay"),
    ("POST", "persistent/*/*/*/subscription/*/magnetar/discard"),
    ("GET", "persistent/*/*/*/magnetar/records"), ("GET", "persistent/*/*/*/magnetar/trace"),
    ("GET", "persistent/*/*/*/subscription/*/magnetar/series"), ("GET", "magnetar/series"),
    ("GET", "persistent/*/*/*/subscription/*/magnetar/watch"),
    ("POST", "persistent/*/*/*/subscription/*/magnetar/watch"),
}  # fmt: skip
"""Calls of magnetar-admin."""

OTHERS = {
    ("GET", "brokers"), ("GET", "brokers/ready"), ("GET", "broker-stats/destinations"), ("PUT", "tenants"),
}  # fmt: skip
"""Calls of Pulsar's that its command line does not make, or only by an empty name."""


def test_the_page_is_as_the_routes_are() -> None:
    assert PAGE.read_text() == page(), "run: python -m gateway.admin.page"


@pytest.mark.parametrize("noun", table().nouns)
def test_what_is_refused_is_refused_with_a_reason(noun: str) -> None:
    for verb in table().verbs:
        if verb.noun != noun:
            continue
        said, why = status(verb)
        if said not in (Status.SERVED, Status.NEVER):
            assert len(why) > 4, f"{verb}: {EDIT}"
            assert why.endswith("."), f"{verb}: {EDIT}"


def test_what_is_served_has_its_routes() -> None:
    for verb in table().verbs:
        if status(verb)[0] in (Status.SERVED, Status.KEPT, Status.NEVER):
            for way in verb.ways:
                assert all(map(routed, way)), verb


def test_calls_without_a_route_are_refused_as_such_and_not_as_unknown() -> None:
    """A 404 says that a topic is missing, and a client believes it."""
    for verb in table().verbs:
        for way in verb.ways:
            for asked in way:
                if asked.below and not routed(asked):
                    with pytest.raises(RefusedError) as refused:
                        routes.verb_of(Call(asked.method, asked.example))
                    assert refused.value.status == 501, verb


def test_every_route_is_a_call_of_a_verb() -> None:
    """Who adds a route says here whose it is."""
    known = {asked for verb in table().verbs for way in verb.ways for asked in way}
    others = {Asked(method, path) for method, path in OURS | OTHERS}
    calls = [call_of(asked) for asked in known | others]
    shapes = {_shape(call) for call in calls if call is not None}
    lost = [route for route in routes.VERBS if route not in shapes]
    assert not lost, (
        f"no verb of pulsar-admin makes these calls: {EDIT} (or tests/gateway/admin/test_page.py)"
    )


def _shape(call: Call) -> tuple[str, str, str]:
    """The key of the route that serves a call; of one that none does, something else."""
    try:
        verb = routes.verb_of(call)
    except RefusedError:
        return call.method, "", ""
    place, rest = routes._place(call)
    fitting = [
        (method, kind, tail)
        for (method, kind, tail), served in routes.VERBS.items()
        if (method, kind) == (call.method, place) and served is verb
        if len(list(filter(None, tail.split("/")))) == len(rest) and fnmatchcase("/".join(rest), tail)
    ]
    return max(fitting, key=lambda key: len(key[2]))


def test_no_sentence_is_left_of_a_verb_that_is_served_by_now() -> None:
    found = {verb: status(verb)[0] for verb in table().verbs}
    for kind, remarks in (
        (Status.REFUSED, (table().within,)),
        (Status.PARTLY, table().partly),
        (Status.KEPT, table().kept),
    ):
        for remark in remarks:
            for pattern in remark.patterns:
                assert any(
                    said is kind and fnmatchcase(str(verb), pattern) for verb, said in found.items()
                ), f"no verb that is {kind} is called {pattern!r}: {EDIT}"


def test_a_verb_that_nothing_is_said_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody sees who takes a route away."""
    verb = AdminVerb("topics", "dance", ((Asked.parse("POST P/dance"),),))
    with pytest.raises(ValueError, match="does not say why `topics dance` is refused"):
        status(verb)


def test_a_way_of_several_that_is_not_served_is_told() -> None:
    verb = AdminVerb("topics", "dance", ((Asked.parse("GET P/stats"),), (Asked.parse("POST P/dance"),)))
    with pytest.raises(ValueError, match="is served in part"):
        status(verb)


def test_what_the_client_does_alone_is_served() -> None:
    assert status(AdminVerb("documents", "print", ((),))) == (Status.SERVED, "")


def test_calls_elsewhere_are_refused_by_the_server(serve: Serve) -> None:
    """Those that have no routes: who serves one has the page say so."""
    asked_of = (asked for verb in table().verbs for way in verb.ways for asked in way)
    paths = {asked for asked in asked_of if call_of(asked) is None}

    async def test(admin: Admin) -> None:
        for asked in sorted(paths, key=str):
            answer = await admin.ask(asked.method, "/" + "/".join(asked.example))
            assert answer.status == 501, f"{asked}: {written.__file__}, call_of()"
            assert "is not served: it would" in answer.json["reason"]

    serve(test)


def test_what_is_never_set_is_told_apart() -> None:
    found = {str(verb): status(verb)[0] for verb in table().verbs}
    assert found["topics get-persistence"] is found["namespaces remove-persistence"] is Status.NEVER
    assert found["topicPolicies get-replication-clusters"] is Status.NEVER
    assert found["namespaces remove-deduplication-snapshot-interval"] is Status.NEVER
    assert found["namespaces set-deduplication-snapshot-interval"] is Status.REFUSED
    assert found["topics get-retention"] is Status.SERVED
    # one of its calls is, the other is not
    assert found["topicPolicies get-subscription-dispatch-rate"] is Status.SERVED


def test_a_flag_that_is_refused_has_its_reason_from_the_refusals() -> None:
    verb = next(verb for verb in table().verbs if str(verb) == "persistent create-subscription")
    said, why = status(verb)
    assert said is Status.PARTLY
    assert why.startswith("`--replicated` is refused. It would keep a subscription in step")
