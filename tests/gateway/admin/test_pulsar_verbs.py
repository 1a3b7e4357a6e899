"""The table of pulsar-admin's verbs is one that can be read."""

from __future__ import annotations

from collections import Counter

from gateway.admin.pulsar_verbs import Asked, Remark, table


def test_a_call_is_written_short() -> None:
    assert str(Asked.parse("GET N/retention")) == "GET namespaces/*/*/retention"
    assert str(Asked.parse("POST Q/skip/*")) == "POST persistent/*/*/*/subscription/*/skip/*"
    assert str(Asked.parse("GET /lookup/v2/topic/P/bundle")) == "GET /lookup/v2/topic/persistent/*/*/*/bundle"


def test_an_example_has_a_range_of_hashes_for_a_bundle() -> None:
    asked = Asked.parse("PUT N/{bundle}/split")
    assert asked.example == ("namespaces", "x", "x", "0x00000000_0xffffffff", "split")
    assert asked.below
    assert not Asked.parse("GET /lookup/v2/topic/P").below


def test_every_verb_is_there_once() -> None:
    twice = [verb for verb, count in Counter(str(verb) for verb in table().verbs).items() if count > 1]
    assert not twice


def test_how_many_there_are() -> None:
    """As the tool itself lists them; `python -m compat.admin run` compares name by name."""
    verbs = table().verbs
    counts = Counter(verb.noun for verb in verbs)
    hidden = Counter(verb.noun for verb in verbs if verb.hidden)
    assert (counts["topics"], hidden["topics"]) == (142, 80)
    assert (counts["namespaces"], hidden["namespaces"]) == (141, 2)
    assert (counts["topicPolicies"], counts["persistent"], counts["tenants"]) == (85, 33, 5)
    assert table().hidden <= counts.keys()


def test_what_a_verb_asks_is_a_call() -> None:
    for verb in table().verbs:
        for way in verb.ways:
            for asked in way:
                assert asked.method in ("GET", "PUT", "POST", "DELETE"), str(verb)
                assert asked.path.strip("/"), str(verb)


def test_a_remark_is_of_the_verbs_that_its_patterns_fit() -> None:
    by_name = {str(verb): verb for verb in table().verbs}
    remark = Remark(("* *-publish-rate", "topics compact"))
    assert remark.of(by_name["topics get-publish-rate"])
    assert remark.of(by_name["namespaces remove-publish-rate"])
    assert remark.of(by_name["topics compact"])
    assert not remark.of(by_name["persistent compact"])
