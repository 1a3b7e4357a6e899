"""Patterns over topics: they match as regular expressions do, in bounded time, and say what is wrong with them."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator

import pytest

from semantics.names import Namespace, TopicName
from semantics.patterns import LONGEST, Expression, Pattern, PatternError, as_kafkas

PIECES = ["a", "b", "c", ".", "[ab]", "[^a]", "[a-c.]", "[^a-c]", r"\d", r"\W", r"\.", "-"]
TIMES = ["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "{0}"]


def drawn(source: random.Random, depth: int = 0) -> str:
    kind = source.random()
    if depth > 3 or kind < 0.4:
        return source.choice(PIECES)
    if kind < 0.6:
        return "".join(drawn(source, depth + 1) for _ in range(source.randint(1, 3)))
    if kind < 0.75:
        return f"({drawn(source, depth + 1)}|{drawn(source, depth + 1)}|)"
    return f"(?:{drawn(source, depth + 1)}){source.choice(TIMES)}"


def test_a_whole_name_matches_as_pythons_own_says() -> None:
    source = random.Random(7)
    matched = 0
    for _ in range(1_500):
        text = drawn(source)
        pattern, known = Pattern(text), re.compile(text)
        for _ in range(12):
            name = "".join(source.choices("abc.-1", k=source.randint(0, 6)))
            expected = known.fullmatch(name) is not None
            matched += expected
            assert pattern.fits(name) == expected, (text, name)
            assert not expected or name.startswith(pattern.prefix)
    assert matched > 1_000


def test_any_text_matches_an_expression_as_pythons_own_says() -> None:
    """Of ASCII: there `\\d` and the like mean the same."""
    source = random.Random(8)
    matched = 0
    for _ in range(1_500):
        text = drawn(source)
        expression, known = Expression(text), re.compile(text, re.ASCII)
        for _ in range(12):
            asked = "".join(source.choices("abc.-1 é\n", k=source.randint(0, 6)))
            expected = known.fullmatch(asked) is not None
            matched += expected
            assert expression.matches(asked) == expected, (text, asked)
    assert matched > 1_000


@pytest.mark.parametrize(
    "text", ["(", "a)", "[", "*", "a{2", r"\1", r"\pN", "(?i)a", "[a-é]", "a^", "x" * 501, "(" * 40]
)
def test_what_is_no_expression(text: str) -> None:
    with pytest.raises(PatternError):
        Expression(text)


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        ("orders-.*", "orders-"),
        ("^orders-[a-z]+$", "orders-"),
        ("orders", "orders"),
        ("(orders-eu|orders-us)", "orders-"),
        ("orders-?", "orders"),
        (r"shop\.orders", "shop.orders"),
        ("[^/]+", ""),
        (".*-orders", ""),
    ],
)
def test_how_all_that_match_begin(text: str, prefix: str) -> None:
    assert Pattern(text).prefix == prefix


def test_it_is_of_one_namespace() -> None:
    home, shop = Namespace("public", "default"), Namespace("shop", "eu")
    for text, namespace in (
        ("orders-.*", home),
        ("persistent://public/default/orders-.*", home),
        ("persistent://shop/eu/orders-[^/]*", shop),
    ):
        pattern = Pattern(text)
        assert (str(pattern), pattern.namespace) == (text, namespace)
        for other in (home, shop):
            assert pattern.matches(TopicName(other, "orders-1")) == (other == namespace)
        assert not pattern.matches(TopicName(namespace, "orders-1", "non-persistent"))
        assert not pattern.matches(TopicName(namespace, "my-orders-1"))


def test_it_says_where_it_is_that_is_no_other_home() -> None:
    shop = Namespace("shop", "eu")
    pattern = Pattern("orders-.*", shop)
    assert str(pattern) == "persistent://shop/eu/orders-.*"
    again = Pattern(str(pattern))
    assert (again.namespace, again.prefix) == (shop, "orders-")
    # also the longest one
    longest = Pattern("[" + "a" * (LONGEST - 2) + "]", Namespace("t" * 100, "n" * 100))
    assert str(Pattern(str(longest))) == str(longest)


@pytest.mark.parametrize(
    ("text", "at_home", "in_shop"),
    [
        ("orders-.*", "public/default orders-.*", "shop/eu orders-.*"),
        ("shop.eu.orders-.*", "shop/eu orders-.*", "shop/eu shop.eu.orders-.*"),
        (r"shop\.eu\.orders-.*", "shop/eu orders-.*", r"shop/eu shop\.eu\.orders-.*"),
        (r"^shop\.eu.(a|b)$", "shop/eu (a|b)$", r"shop/eu ^shop\.eu.(a|b)$"),
        ("public.default.a", "public/default public.default.a", "public/default a"),
        ("shop.us.a", "public/default shop.us.a", "shop/eu shop.us.a"),
        ("shop.eu", "public/default shop.eu", "shop/eu shop.eu"),
        ("shop.eu.", "public/default shop.eu.", "shop/eu shop.eu."),
        ("(shop).eu.a", "public/default (shop).eu.a", "shop/eu (shop).eu.a"),
        ("shop/eu/a", None, None),
        ("persistent://shop/us/a", "shop/us a", "shop/us a"),
        (r"shop\.eu\.[ab]|c", None, r"shop/eu shop\.eu\.[ab]|c"),
        ("shop.eu.*", None, "shop/eu shop.eu.*"),
    ],
)
def test_what_begins_like_kafkas_names_is_of_the_namespace_that_is_there(
    text: str, at_home: str | None, in_shop: str | None
) -> None:
    home, shop = Namespace("public", "default"), Namespace("shop", "eu")
    for namespace, expected in ((home, at_home), (shop, in_shop)):
        if expected is None:
            with pytest.raises(PatternError):
                as_kafkas(text, namespace, {home, shop}.__contains__)
            continue
        found = as_kafkas(text, namespace, {home, shop}.__contains__)
        where, local = expected.split()
        assert str(found.namespace) == where
        # what is kept means the same wherever it is read
        full = f"persistent://{where}/{local}"
        assert str(found) in ((local, full) if found.namespace == home else (full,))
        assert str(Pattern(str(found))) == str(found)


@pytest.mark.parametrize(
    "text",
    ["(a*)*b", "(a|aa)+", "(.*a){20}", "(a?){60}a{60}", ".*a.{150}", "(a|b|ab)*c", "(x+x+)+y", "((a*)*)*"],
)
def test_the_time_of_a_name_is_bounded(text: str) -> None:
    """Some of these take others longer than the universe is old."""
    begun = time.process_time()
    pattern = Pattern(text)
    source = random.Random(1)
    for letters in ("a", "ab", "x"):
        pattern.fits("".join(source.choices(letters, k=249)))
    assert time.process_time() - begun < 2


class Counted(str):
    """A name that knows how many of its letters were looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[str]:
        for letter in str(self):
            self.looked_at += 1
            yield letter


@pytest.mark.parametrize(
    ("text", "letters"), [("orders-.*", 8), (".*", 1), (".*b.*", 10), (".*b", 249), ("x.*", 0)]
)
def test_where_all_that_may_come_matches_the_rest_is_not_looked_at(text: str, letters: int) -> None:
    name = Counted("orders-ab" + "b" * 240)
    pattern = Pattern(text)
    # "x" is no beginning of it
    assert pattern.fits(name) == (letters > 0)
    assert name.looked_at == letters


def test_an_expression_goes_through_a_text_in_pieces() -> None:
    source = random.Random(9)
    for _ in range(500):
        expression = Expression(drawn(source))
        text = "".join(source.choices("abc.-1", k=source.randint(0, 8)))
        cut = source.randint(0, len(text))
        state = expression.through(text[:cut])
        if state >= 0 and cut < len(text):
            state = expression.through(text[cut:], state)
        assert expression.ends(state) == expression.matches(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not empty"),
        ("persistent://public/default/", "not empty"),
        ("orders-(.*", "a ')' is missing (at character 11)"),
        ("orders)", "there is no '('"),
        ("*", "nothing before"),
        ("a|*", "nothing before"),
        ("[a", "a ']' is missing"),
        ("[z-a]", "no end above its beginning"),
        ("[[:alpha:]]", "names of classes"),
        ("a{", "written {n}"),
        ("a{3,2}", "2 is less than 3"),
        ("a{9999}", "at most"),
        ("a++", "not served"),
        ("(?=a)b", "(?:...)"),
        ("(?i)a", "(?:...)"),
        (r"(a)\1", r"\\1"),
        ("a\\", "nothing stands behind"),
        ("a^", "at an end only"),
        ("(a$)b", "at an end only"),
        ("shop/orders", "no '/orders'"),
        ("[/ ]", "no '[/ ]'"),
        (r"\s", "and no"),
        ("persistent://orders", "persistent://tenant/namespace/pattern"),
        ("persistent://a.b/c/orders", "cannot be a tenant"),
        ("non-persistent://public/default/a", "persistent topics"),
        ("a" * (LONGEST + 1), "at most 500 characters"),
        ("persistent://public/default/" + "a" * (LONGEST + 1), "at most 500 characters; this one has 501"),
        ("persistent://" + "a" * 1_000_000, "at most 500 characters"),
        ("(" * 100 + ")" * 100, "deep at most"),
        ("(((a{99}){99}){99}){99}", "too large"),
        ("(((){250}){250}){250}", "too large"),
        ("a{251}", "at most 250 times"),
    ],
)
def test_what_is_no_pattern_says_why(text: str, why: str) -> None:
    with pytest.raises(PatternError) as error:
        Pattern(text)
    assert why in str(error.value), str(error.value)
