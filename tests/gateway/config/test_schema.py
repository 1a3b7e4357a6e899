"""What a setting takes as text and from TOML, how it is shown, and what is said when a value does not fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.schema import (
    INT_MAX,
    LONG_MAX,
    Check,
    Kind,
    Setting,
    Source,
    Synonym,
    Value,
    at_least,
    between,
    complaint,
    described,
    each_of,
    nearest,
    one_of,
)


def setting(kind: Kind, check: Check | None = None, *, sensitive: bool = False) -> Setting:
    return Setting("a.b", kind, None, "What it is.", check, sensitive=sensitive)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.BOOLEAN, " TRUE ", True),
        (Kind.BOOLEAN, "False", False),
        (Kind.INT, "+7", 7),
        (Kind.INT, " 007 ", 7),
        (Kind.INT, str(INT_MAX), INT_MAX),
        (Kind.INT, str(-INT_MAX - 1), -INT_MAX - 1),
        (Kind.LONG, str(LONG_MAX), LONG_MAX),
        (Kind.LONG, str(-LONG_MAX - 1), -LONG_MAX - 1),
        (Kind.DOUBLE, "1e3", 1000.0),
        (Kind.STRING, "  a b  ", "a b"),
        (Kind.LIST, " a , b ", ("a", "b")),
        (Kind.LIST, "  ", ()),
    ],
)
def test_text_becomes_a_value(kind: Kind, text: str, value: Value) -> None:
    found = setting(kind).parse(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (Kind.BOOLEAN, "yes", "must be true or false"),
        (Kind.BOOLEAN, "1", "must be true or false"),
        (Kind.INT, "", "must be a whole number"),
        (Kind.INT, "--1", "must be a whole number"),
        (Kind.INT, "1.0", "must be a whole number"),
        (Kind.INT, "1_000", "must be a whole number"),
        (Kind.INT, "٣", "must be a whole number"),
        (Kind.INT, str(INT_MAX + 1), f"must fit in 32 bits, so be at most {INT_MAX}"),
        (Kind.INT, str(-INT_MAX - 2), f"must fit in 32 bits, so be at most {INT_MAX}"),
        (Kind.LONG, str(LONG_MAX + 1), f"must fit in 64 bits, so be at most {LONG_MAX}"),
        (Kind.LONG, "9" * 5000, f"must fit in 64 bits, so be at most {LONG_MAX}"),
        (Kind.DOUBLE, "inf", "must be a number"),
        (Kind.DOUBLE, "1e999", "must be a number"),
        (Kind.DOUBLE, "much", "must be a number"),
        (Kind.LIST, "a,,b", "must have something between all commas"),
        (Kind.LIST, ",", "must have something between all commas"),
    ],
)
def test_text_that_does_not_fit(kind: Kind, text: str, said: str) -> None:
    with pytest.raises(ValueError) as refused:
        setting(kind).parse(text)
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (Kind.BOOLEAN, True, True),
        (Kind.INT, 4, 4),
        (Kind.DOUBLE, 4, 4.0),
        (Kind.DOUBLE, 0.1, 0.1),
        (Kind.LIST, ["a", "b"], ("a", "b")),
        (Kind.LIST, [], ()),
        # text is read as a flag's would be
        (Kind.INT, "4", 4),
        (Kind.BOOLEAN, "true", True),
    ],
)
def test_tomls_own_types_are_taken(kind: Kind, given: object, value: Value) -> None:
    found = setting(kind).accept(given)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (Kind.INT, True, "must be a whole number"),
        (Kind.LONG, 1.5, "must be a whole number"),
        (Kind.BOOLEAN, 1, "must be true or false"),
        (Kind.STRING, 1, "must be text in quotes"),
        (Kind.DOUBLE, [1.0], "must be a number"),
        (Kind.LIST, ["a", 1], "must be a list of texts"),
        (Kind.LIST, {}, "must be a list of texts"),
    ],
)
def test_tomls_other_types_are_refused(kind: Kind, given: object, said: str) -> None:
    with pytest.raises(ValueError) as refused:
        setting(kind).accept(given)
    assert str(refused.value) == said


words = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1)
values: dict[Kind, st.SearchStrategy[Value]] = {
    Kind.BOOLEAN: st.booleans(),
    Kind.INT: st.integers(-INT_MAX - 1, INT_MAX),
    Kind.LONG: st.integers(-LONG_MAX - 1, LONG_MAX),
    Kind.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    Kind.STRING: words,
    Kind.PASSWORD: words,
    Kind.LIST: st.lists(words).map(tuple),
}


@given(st.sampled_from(Kind).flatmap(lambda kind: st.tuples(st.just(kind), values[kind])))
def test_what_is_shown_can_be_given_again(one: tuple[Kind, Value]) -> None:
    kind, value = one
    text = setting(kind).render(value)
    assert text is not None
    assert setting(kind).parse(text) == value


def test_an_open_setting_is_shown_as_nothing() -> None:
    assert setting(Kind.INT).render(None) is None
    assert setting(Kind.BOOLEAN).render(True) == "true"


@pytest.mark.parametrize(
    ("check", "good", "bad", "said"),
    [
        (at_least(1), (1, None), 0, "must be at least 1"),
        (between(1, 3), (1, 3, None), 4, "must be from 1 to 3"),
        (between(1, 3), (), 0, "must be from 1 to 3"),
        (one_of("a"), ("a",), "b", "must be a"),
        (one_of("a", "b"), ("a", "b"), "c", "must be a or b"),
        (one_of("a", "b", "c"), ("c",), "A", "must be a, b or c"),
        (each_of("a", "b"), ((), ("b", "a")), ("a", "c"), "may only hold a or b"),
        (each_of("a", "b"), (), ("a", "a"), "must name each thing once"),
    ],
)
def test_checks(check: Check, good: tuple[Value, ...], bad: Value, said: str) -> None:
    assert [check(value) for value in good] == [None] * len(good)
    assert check(bad) == said


def test_a_check_is_asked_however_the_value_is_given() -> None:
    number, flag = setting(Kind.INT, at_least(1)), setting(Kind.BOOLEAN, one_of("never"))
    with pytest.raises(ValueError):
        number.parse("0")
    with pytest.raises(ValueError):
        number.accept(0)
    with pytest.raises(ValueError):
        flag.accept(True)


def test_a_complaint_names_the_value_once() -> None:
    assert complaint(ValueError("must be at least 1"), "0") == "must be at least 1, not 0"
    said = 'must be host:port, and "x" is not'
    assert complaint(ValueError(said), '"x"') == said


def test_the_name_that_somebody_meant() -> None:
    assert nearest("num.partitons", ["node.id", "num.partitions"]) == "num.partitions"
    assert nearest("qqqqqq", ["node.id", "num.partitions"]) is None
    assert setting(Kind.INT).variable == "MAGNETAR_A_B"


def test_a_config_is_described_with_the_place_that_wins() -> None:
    row = setting(Kind.INT, sensitive=True)
    node = Synonym("c", "5", Source.STATIC_BROKER)
    own = Synonym("a.b", "7", Source.TOPIC)
    found = described(row, own, 5, (node,))
    assert (found.value, found.source, found.synonyms) == ("7", Source.TOPIC, (own, node))
    assert (found.read_only, found.sensitive, found.kind, found.doc) == (False, True, Kind.INT, row.doc)
    below = described(row, None, 5, (node,))
    assert (below.value, below.source, below.synonyms) == ("5", Source.STATIC_BROKER, (node,))
    assert described(row, None, None, ())[1:3] == (None, Source.DEFAULT)
