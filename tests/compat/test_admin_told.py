"""docs/ADMIN.md is read as it is written, and a run is held against it."""

from __future__ import annotations

from pathlib import Path

from compat.admin.cases import Case, load, not_run
from compat.admin.judge import Finding, Verdict
from compat.admin.run import Results, missing
from compat.admin.told import differences, told
from compat.admin.told import missing as not_told

PAGE = """# What

| noun | verbs |
|---|---|
| [topics](#topics) | 4 |

## bookies

| refused | why |
|---|---|
| `list` | There is no `BookKeeper`. |

## topics

Served: `stats`, *`get-ttl`*.

Never set: `get-persistence`.

| in part | why |
|---|---|
| `create` | Without properties. |

| refused | why |
|---|---|
| *`set-rate`*, `compact` | Not yet. |
"""


def _page(folder: Path) -> Path:
    page = folder / "ADMIN.md"
    page.write_text(PAGE)
    return page


def test_every_verb_of_the_page(tmp_path: Path) -> None:
    assert told(_page(tmp_path)) == {
        ("bookies", "list"): "refused",
        ("topics", "stats"): "served",
        ("topics", "get-ttl"): "served",
        ("topics", "get-persistence"): "never set",
        ("topics", "create"): "in part",
        ("topics", "set-rate"): "refused",
        ("topics", "compact"): "refused",
    }


def test_the_real_page_has_every_noun() -> None:
    found = told()
    assert {noun for noun, _ in found} >= {"topics", "namespaces", "topicPolicies", "functions", "bookies"}
    assert len(found) > 500
    assert set(found.values()) == {"served", "kept", "never set", "in part", "refused"}


def _results(**verdicts: Verdict) -> Results:
    results = Results()
    case = Case("topics", "one", (), ())
    results.add(case, {verb.replace("_", "-"): Finding(verdict) for verb, verdict in verdicts.items()})
    return results


def test_where_the_page_is_wrong(tmp_path: Path) -> None:
    page = _page(tmp_path)
    assert (
        differences(_results(stats=Verdict.SERVED, compact=Verdict.REFUSED, create=Verdict.PARTLY), page)
        == []
    )
    assert differences(_results(stats=Verdict.REFUSED, get_ttl=Verdict.WRONG), page) == [
        "topics stats is refused, and docs/ADMIN.md says: served"
    ]
    assert differences(_results(dance=Verdict.SERVED), page) == [
        "topics dance is served, and docs/ADMIN.md says: nothing"
    ]


def test_the_page_and_the_tool_have_the_same_verbs(tmp_path: Path) -> None:
    model: dict[str, dict[str, object]] = {
        "topics": {
            "verbs": {
                "stats": False, "get-ttl": True, "get-persistence": False, "create": False, "set-rate": True,
                "terminate": False,
            }
        },
        "bookies": {"verbs": {"list": False}},
    }  # fmt: skip
    assert not_told(model, _page(tmp_path)) == [
        "docs/ADMIN.md says nothing of topics terminate",
        "docs/ADMIN.md has topics compact, and pulsar-admin has not",
    ]


def test_a_verb_without_a_case_is_told() -> None:
    verbs = {verb: False for case in load("tenants") for verb in case.verbs}
    assert missing({"tenants": {"verbs": verbs}}, {"tenants": load("tenants")}) == []
    assert missing({"tenants": {"verbs": {**verbs, "dance": False}}}, {"tenants": load("tenants")}) == [
        "no case has tenants dance"
    ]
    del verbs["list"]
    assert missing({"tenants": {"verbs": verbs}}, {"tenants": load("tenants")}) == [
        "pulsar-admin has no tenants list"
    ]


def test_a_verb_that_is_not_run_needs_no_case_but_a_reason() -> None:
    verbs = {verb: False for case in load("sinks") for verb in case.verbs}
    assert "localrun" not in verbs
    assert missing({"sinks": {"verbs": {**verbs, "localrun": False}}}, {"sinks": load("sinks")}) == []
    assert not_run("sinks")["localrun"].startswith("it asks nothing")


def test_results_are_kept_beside_those_of_other_cases(tmp_path: Path) -> None:
    path = tmp_path / "admin.json"
    known = {"tenants": load("tenants")}
    first, second, gone = known["tenants"][0], known["tenants"][1], Case("tenants", "gone", (), ())
    early = Results()
    early.add(first, {"create": Finding(Verdict.WRONG, "x"), "list": Finding(Verdict.SERVED)})
    early.add(gone, {"create": Finding(Verdict.WRONG, "y")})
    early.save(path, {})
    late = Results()
    late.add(first, {"create": Finding(Verdict.SERVED)})
    late.add(second, {"create": Finding(Verdict.REFUSED, "Not yet.")})
    late.save(path, known)
    found = Results.load(path)
    assert set(found.findings["tenants"]["create"]) == {first.name, second.name}
    assert list(found.verdicts()) == [
        ("tenants", "create", Verdict.PARTLY, "Not yet."),
        ("tenants", "list", Verdict.SERVED, ""),
    ]
