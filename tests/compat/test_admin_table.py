"""The calls of the table are those that were seen."""

from __future__ import annotations

from pathlib import Path

from compat.admin.cases import Case
from compat.admin.judge import Finding, Verdict
from compat.admin.run import Results
from compat.admin.table import calls, unknown

TABLE = """
[verbs.topics]
stats = "GET P/stats"
reset = ["POST Q/reset", "POST Q/reset/*"]
lookup = "GET P/partitions, GET /lookup/v2/topic/P"

[verbs.topics.hidden]
get-rate = "GET P/rate"

[verbs.namespaces]
split = "PUT N/{bundle}/split"
"""

TOPIC = "/admin/v2/persistent/t/n/x"


def _found(noun: str, **seen: list[str]) -> Results:
    results = Results()
    findings = {verb.replace("_", "-"): Finding(Verdict.SERVED, "", calls) for verb, calls in seen.items()}
    results.add(Case(noun, "one", (), ()), findings)
    return results


def _table(folder: Path) -> Path:
    path = folder / "table.toml"
    path.write_text(TABLE)
    return path


def test_calls_that_are_in_the_table(tmp_path: Path) -> None:
    table = _table(tmp_path)
    topics = _found(
        "topics",
        stats=[f"GET {TOPIC}/stats", "GET /admin/v2/non-persistent/t/n/x/stats"],
        reset=[f"POST {TOPIC}/subscription/s/reset", f"POST {TOPIC}/subscription/s/reset/17"],
        lookup=[f"GET {TOPIC}/partitions", "GET /lookup/v2/topic/persistent/t/n/x"],
        get_rate=[f"GET {TOPIC}/rate"],
    )
    assert list(unknown(topics, [], table)) == []
    split = _found("namespaces", split=["PUT /admin/v2/namespaces/t/n/0x00000000_0xffffffff/split"])
    assert list(unknown(split, [], table)) == []


def test_calls_that_are_not(tmp_path: Path) -> None:
    table = _table(tmp_path)
    for call in (f"POST {TOPIC}/stats", f"GET {TOPIC}/stats/more", f"GET {TOPIC}/y/stats"):
        assert list(unknown(_found("topics", stats=[call]), [], table)) == [
            f"topics stats makes the call {call}, of which table.toml says nothing"
        ]
    assert list(unknown(_found("topics", dance=["GET /x"]), [], table))


def test_commands_that_do_not_wait_say_nothing_of_their_calls(tmp_path: Path) -> None:
    late = Case("topics", "one", (), (), client="it does not wait")
    assert list(unknown(_found("topics", stats=["GET /x"]), [late], _table(tmp_path))) == []


def test_the_real_table_has_the_verbs() -> None:
    assert len(calls()) > 450
    assert calls()["topics", "get-retention"][0].fullmatch(f"GET {TOPIC}/retention")
