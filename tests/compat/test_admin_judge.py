"""From commands and answers to served, refused and wrong."""

from __future__ import annotations

from compat.admin.cases import Step
from compat.admin.judge import Done, Finding, Verdict, fails, judge
from compat.admin.recorder import Exchange
from compat.admin.tool import Said

OK = Said(0, "7\n")


def _exchange(
    status: int = 200, answer: bytes = b"7", path: str = "/admin/v2/x", method: str = "GET"
) -> Exchange:
    return Exchange(method, path, "", b"", status, answer)


REFUSAL = _exchange(501, b'{"reason": "Not served."}')


def _done(
    verb: str | None,
    said: Said = OK,
    *exchanges: Exchange,
    seen: str = "",
    absent: bool = False,
    error: bool = False,
) -> Done:
    step = Step(verb, ("topics", verb or "other"), seen, absent, error)
    asks = verb is None or verb in ("bundles", "get", "get-x")
    return Done(
        step, f"topics {verb}", seen, said, exchanges or (_exchange(method="GET" if asks else "POST"),)
    )


def _verdict(*done: Done, client: bool = False) -> dict[str, Verdict]:
    return {verb: found.verdict for verb, found in judge(done, client).items()}


def test_served_is_what_ends_well_and_shows_what_was_expected() -> None:
    assert _verdict(_done("get", seen="^7$")) == {"get": Verdict.SERVED}
    assert _verdict(_done("get", seen="8", absent=True)) == {"get": Verdict.SERVED}
    assert _verdict(_done("get", Said(1, err="no topic"), seen="no topic", error=True)) == {
        "get": Verdict.SERVED
    }


def test_refused_is_a_501_whose_reason_is_shown() -> None:
    found = judge([_done("get", Said(1, err="Not served.\n\nReason: Not served."), REFUSAL)])
    assert found == {"get": Finding(Verdict.REFUSED, "Not served.", ["GET /admin/v2/x"])}
    assert _verdict(_done("get", Said(1, err="null"), REFUSAL)) == {"get": Verdict.WRONG}
    assert _verdict(_done("get", Said(1, err="x"), _exchange(501, b"<html>"))) == {"get": Verdict.WRONG}


def test_a_client_that_hides_the_answer_is_not_the_servers_fault() -> None:
    hidden = _done("get", Said(0, "a promise"), REFUSAL, seen="7")
    assert _verdict(hidden) == {"get": Verdict.WRONG}
    assert _verdict(hidden, client=True) == {"get": Verdict.REFUSED}


def test_of_several_refusals_one_is_shown() -> None:
    other = _exchange(501, b'{"reason": "Neither is this."}')
    assert _verdict(_done("get", Said(1, err="Neither is this."), REFUSAL, other)) == {"get": Verdict.REFUSED}


def test_everything_else_is_wrong() -> None:
    for done in (
        _done("get", Said(None, ms=20_000)),
        _done("get", Said(1, err="There is nothing here."), _exchange(404)),
        _done("get", Said(0, "8"), seen="7"),
        _done("get", Said(0, "7"), seen="7", absent=True),
        _done("get", Said(0, "7"), seen="7", error=True),
        _done("get", Said(1, err="java.lang.NullPointerException: …"), seen="Null", error=True),
        _done("get", Said(0, "7", err="\tat org.apache.pulsar.Client.get")),
    ):
        [found] = judge([done]).values()
        assert found.verdict is Verdict.WRONG
        assert found.why.startswith("topics get: ")


def test_a_set_that_does_not_show_is_wrong_as_well() -> None:
    steps = [_done("set-x"), _done("get-x", Said(0, "null"), seen="7")]
    assert _verdict(*steps) == {"set-x": Verdict.WRONG, "get-x": Verdict.WRONG}
    # the get itself failed: nothing is known of what was set
    steps = [_done("set-x"), _done("get-x", Said(1, err="404"), _exchange(404), seen="7")]
    assert _verdict(*steps) == {"set-x": Verdict.SERVED, "get-x": Verdict.WRONG}


def test_what_is_done_and_cannot_be_seen_is_wrong() -> None:
    steps = [_done("set-x"), _done("get-x", Said(1, err="Not served."), REFUSAL)]
    assert _verdict(*steps) == {"set-x": Verdict.WRONG, "get-x": Verdict.REFUSED}


def test_what_only_asks_has_done_nothing() -> None:
    steps = [_done("bundles"), _done("get-x", Said(1, err="Not served."), REFUSAL)]
    assert _verdict(*steps) == {"bundles": Verdict.SERVED, "get-x": Verdict.REFUSED}


def test_what_another_noun_shows_tells_of_the_verb_before() -> None:
    assert _verdict(_done("skip"), _done(None, Said(0, "10"), seen="7")) == {"skip": Verdict.WRONG}
    assert _verdict(_done("skip"), _done(None, Said(0, "7"), seen="7")) == {"skip": Verdict.SERVED}


def test_behind_a_refusal_nothing_is_expected_but_an_end() -> None:
    refused = _done("set-x", Said(1, err="Not served."), REFUSAL)
    assert _verdict(refused, _done("get-x", Said(0, "null"), seen="7")) == {
        "set-x": Verdict.REFUSED,
        "get-x": Verdict.SERVED,
    }
    assert _verdict(refused, _done("get-x", Said(None, ms=1)))["get-x"] is Verdict.WRONG


def test_the_worst_of_a_verbs_commands_counts_and_all_of_its_calls() -> None:
    found = judge(
        [_done("get", OK, _exchange(path="/a")), _done("get", Said(0, "8"), _exchange(path="/b"), seen="7")]
    )
    assert found["get"].verdict is Verdict.WRONG
    assert found["get"].calls == ["GET /a", "GET /b"]


def test_a_command_is_tried_again_that_has_not_shown_it() -> None:
    assert fails(_done("get", Said(0, "8"), seen="7"))
    assert not fails(_done("get", seen="7"))
