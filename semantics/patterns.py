"""Patterns over the topics of one namespace: the regular expressions of Pulsar's pattern subscriptions.

Users write them, and they are matched on the loop. So the time is bounded: a name costs at most a few look-ups for
each of its characters, and mostly one; where all that may come matches, the rest is not looked at. That is what RE2
does (which Pulsar and KIP-848 take); what cannot be done so, back references and looking around, is refused. Whoever
matches many names counts their characters and lets others have their turn.

    orders-.*                          in the home namespace
    persistent://shop/eu/orders-.*     as Pulsar writes it
    shop.eu.orders-.*                  as Kafka clients call the topics of that namespace (`as_kafkas`)

    pattern  = sequence { "|" sequence } ;                 (the whole name matches; "^" and "$" may stand at the ends)
    sequence = { atom [ ( "*" | "+" | "?" | "{n}" | "{n,}" | "{n,m}" ) [ "?" ] ] } ;
    atom     = character | "." | "\\d" | "\\w" | "\\s" | "\\D" | "\\W" | "\\S" | "\\" sign | "[" class "]"
             | "(" pattern ")" | "(?:" pattern ")" ;

The automaton is Glushkov's: a state is the set of places in the pattern at which the last character may stand
(`walk`).
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from typing import NamedTuple

from semantics.names import (
    DEFAULT,
    DOMAINS,
    MAX_KAFKA_NAME,
    Namespace,
    NamingError,
    TopicName,
    check_part,
    only_default,
)
from semantics.walk import Walk, bits

LONGEST = 500
"""Characters of a pattern, without the namespace before it."""
_LONGEST_WRITTEN = LONGEST + MAX_KAFKA_NAME + len("persistent://")
MOST_PLACES = 250
"""Characters and classes in a pattern, when what is to come n times is written n times."""
LETTERS = 20_000
"""So many letters are matched before others have their turn: about five ms."""
_DEEPEST = 30
_MOST_STEPS = 5_000

_LETTERS = string.ascii_letters + string.digits + "._-"
"""What a topic's name is made of."""
_ALL = frozenset(_LETTERS)
_CLASSES = {
    "d": frozenset(string.digits),
    "w": frozenset(string.ascii_letters + string.digits + "_"),
    "s": frozenset("\t\n\f\r "),
}
_OTHER = ""
"""Stands for all characters that an expression says nothing of."""


_DOTTED = re.compile(r"\^?([a-zA-Z0-9_-]+)\\?\.([a-zA-Z0-9_-]+)\\?\.(.+)\Z", re.DOTALL)
"""Tenant and namespace in front, as in Kafka's names; the dots may be written as characters of an expression."""


class PatternError(ValueError):
    """What cannot be a pattern. The text says why, for a person."""


class Pattern:
    """`str()` gives it so that it means the same everywhere: as it was written, with its namespace if that is not
    public/default.
    """

    __slots__ = (
        "_forever",
        "_last",
        "_masks",
        "_nullable",
        "_text",
        "_walked",
        "branches",
        "namespace",
        "prefix",
    )

    def __init__(self, text: str, home: Namespace = DEFAULT) -> None:
        """`home`: where it is when it does not say so. Raises PatternError."""
        if len(text) > _LONGEST_WRITTEN:
            raise PatternError(f"A pattern has at most {LONGEST} characters; this one has {len(text)}.")
        self.namespace, local = _split(text, home)
        if len(local) > LONGEST:
            raise PatternError(f"A pattern has at most {LONGEST} characters; this one has {len(local)}.")
        self._text = text if self.namespace == DEFAULT else f"persistent://{self.namespace}/{local}"
        if not local:
            raise PatternError("A pattern is not empty: 'orders-.*' is one.")
        parser = _Parser(local, _ALL)
        whole = parser.whole()
        self._nullable, self._last = whole.nullable, whole.last
        self.branches = parser.branches
        """whether it is several, with "|" between them"""
        # by character: the places at which it may stand
        self._masks = {
            letter: sum(1 << place for place, letters in enumerate(parser.places) if letter in letters)
            for letter in _LETTERS
        }
        # state -> what may follow; state 0 is the beginning
        self._walked = Walk(whole.first, parser.follow)
        self._forever = parser.forever(whole.last)
        self.prefix = self._prefix()
        """how all that match begin"""

    def __str__(self) -> str:
        return self._text

    def matches(self, topic: TopicName) -> bool:
        """Whether it is a topic of the namespace whose whole name matches."""
        return topic.namespace == self.namespace and topic.persistent and self.fits(topic.local)

    def fits(self, local: str) -> bool:
        """The same of a name within the namespace."""
        if not local.startswith(self.prefix):
            return False
        state, step, masks, forever = 0, self._walked.step, self._masks, self._forever
        for letter in local:
            state = step(state) & masks.get(letter, 0)
            if not state:
                return False
            if state & forever:
                # of the letters of names: all of a topic's are
                return True
        return bool(state & self._last) if local else self._nullable

    def _prefix(self) -> str:
        found, state = "", 0
        while not (state & self._last if found else self._nullable):
            after = self._walked.step(state)
            can = [(letter, after & mask) for letter, mask in self._masks.items() if after & mask]
            if len(can) != 1 or len(found) >= LONGEST:
                break
            found, state = found + can[0][0], can[0][1]
        return found


def as_kafkas(
    text: str, home: Namespace = DEFAULT, exists: Callable[[Namespace], bool] = only_default
) -> Pattern:
    """The pattern that a Kafka client means whose namespace is `home`: what begins as the names of topics of another
    namespace do that exists is over these, as `names.elsewhere` reads names. Raises PatternError.
    """
    dotted = _DOTTED.match(text)
    if dotted is None:
        return Pattern(text, home)
    namespace = Namespace(dotted[1], dotted[2])
    if namespace == home or not exists(namespace):
        return Pattern(text, home)
    whole = f"persistent://{namespace}/"
    if dotted[3][0] in "*+?{":
        raise PatternError(
            f"{text[:100]!r} begins with the namespace {namespace}, and {dotted[3][0]!r} stands behind the dot that "
            f"would end it: all topics of {namespace} are {whole}.*"
        )
    found = Pattern(whole + dotted[3])
    if found.branches:
        # the other half says its namespace again, or means another
        raise PatternError(
            f"{text[:100]!r} begins with the namespace {namespace}, and has a '|' outside of groups: what stands "
            f"behind that may be of another. Write {whole}(...|...)"
        )
    return found


class Expression:
    """The same over any text, such as transactional ids: all of it matches, or none. A dot is any character but the end
    of a line.
    """

    __slots__ = ("_last", "_masks", "_nullable", "_walked")

    def __init__(self, text: str) -> None:
        """Raises PatternError."""
        if len(text) > LONGEST:
            raise PatternError(f"An expression has at most {LONGEST} characters; this one has {len(text)}.")
        alphabet = frozenset(map(chr, range(128))) | frozenset(text) | {_OTHER}
        parser = _Parser(text, alphabet)
        whole = parser.whole()
        self._nullable, self._last = whole.nullable, whole.last
        self._masks = {
            letter: sum(1 << place for place, letters in enumerate(parser.places) if letter in letters)
            for letter in alphabet
        }
        self._walked = Walk(whole.first, parser.follow)

    def matches(self, text: str) -> bool:
        """Whether all of it does."""
        return self.ends(self.through(text))

    def through(self, text: str, state: int = 0) -> int:
        """The state behind a text, or behind a piece of one from the state behind the piece before; -1: whatever comes,
        it does not match.
        """
        step, masks = self._walked.step, self._masks
        other = masks[_OTHER]
        for letter in text:
            state = step(state) & masks.get(letter, other)
            if not state:
                return -1
        return state

    def ends(self, state: int) -> bool:
        """Whether a text may end in this state."""
        return bool(state & self._last) if state > 0 else not state and self._nullable


def _split(text: str, home: Namespace) -> tuple[Namespace, str]:
    """The namespace, and the pattern of what is in it."""
    domain, separator, rest = text.partition("://")
    if separator and domain in DOMAINS:
        if domain != "persistent":
            raise PatternError(f"A pattern is over persistent topics; not {domain}:// ones.")
        parts = rest.split("/", 2)
        if len(parts) != 3:
            raise PatternError(
                f"A pattern is written persistent://tenant/namespace/pattern, or pattern alone; not {text!r}."
            )
        try:
            return Namespace(check_part("tenant", parts[0]), check_part("namespace", parts[1])), parts[2]
        except NamingError as error:
            raise PatternError(f"A pattern is over the topics of one namespace: {error}") from None
    return home, text


class _Part(NamedTuple):
    """A piece of the pattern: whether it may be empty, and at which places it may begin and end."""

    nullable: bool
    first: int
    last: int


_EMPTY = _Part(True, 0, 0)


class _Node(NamedTuple):
    """What was parsed: `kind` and what it is made of."""

    kind: str
    """letters, sequence, choice, repeat"""
    letters: frozenset[str] = frozenset()
    parts: tuple[_Node, ...] = ()
    least: int = 0
    most: int | None = None


class _Parser:
    def __init__(self, text: str, alphabet: frozenset[str]) -> None:
        self._text = text
        self._all = alphabet
        self._at = 0
        self._depth = 0
        self._steps = 0
        self.branches = False
        self.places: list[frozenset[str]] = []
        self.follow: list[int] = []

    def whole(self) -> _Part:
        """Raises PatternError."""
        node = self._choice()
        if self._at < len(self._text):
            raise self._wrong("there is no '(' for this ')'")
        self.branches = node.kind == "choice"
        return self._build(node)

    # -- the text ---------------------------------------------------------------------------------------------------

    def _wrong(self, why: str) -> PatternError:
        shown = self._text if len(self._text) <= 100 else self._text[:97] + "..."
        return PatternError(f"{shown!r} is no pattern: {why} (at character {self._at + 1}).")

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, what: str) -> bool:
        found = self._text.startswith(what, self._at)
        if found:
            self._at += len(what)
        return found

    def _choice(self) -> _Node:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else _Node("choice", parts=tuple(parts))

    def _sequence(self) -> _Node:
        outermost = not self._depth
        if outermost:
            self._take("^")
        parts: list[_Node] = []
        while (sign := self._peek()) not in ("", "|", ")"):
            if sign == "$" and outermost and self._text[self._at + 1 : self._at + 2] in ("", "|"):
                self._at += 1
                break
            if sign in "^$":
                raise self._wrong(f"{sign!r} stands at an end only: the whole name has to match anyway")
            parts.append(self._repeated(self._atom()))
        return _Node("sequence", parts=tuple(parts))

    def _atom(self) -> _Node:
        if self._take("("):
            if self._peek() == "?" and not self._take("?:"):
                raise self._wrong("of groups that begin with '(?' there is '(?:...)' alone")
            self._depth += 1
            if self._depth > _DEEPEST:
                raise self._wrong(f"groups stand in each other {_DEEPEST} deep at most")
            node = self._choice()
            self._depth -= 1
            if not self._take(")"):
                raise self._wrong("a ')' is missing")
            return node
        begin = self._at
        sign = self._text[begin]
        self._at += 1
        if sign in "*+?{":
            self._at = begin
            raise self._wrong(f"there is nothing before this {sign!r}")
        if sign == "[":
            letters = self._class()
        elif sign == "\\":
            letters = self._escaped()
        else:
            letters = self._all - {"\n"} if sign == "." else frozenset(sign)
        letters &= self._all
        if not letters:
            self._at = begin
            shown = self._text[begin : begin + 10]
            if _OTHER in self._all:
                raise self._wrong(f"there is no character that is {shown!r}")
            raise self._wrong(f"a topic's name has only a-z, A-Z, 0-9, '.', '_' and '-', and no {shown!r}")
        return _Node("letters", letters)

    def _escaped(self) -> frozenset[str]:
        sign = self._peek()
        if not sign:
            raise self._wrong("nothing stands behind the '\\'")
        self._at += 1
        if sign in _CLASSES:
            return _CLASSES[sign]
        if sign.lower() in _CLASSES:
            return self._all - _CLASSES[sign.lower()]
        if sign.isascii() and sign.isalnum():
            self._at -= 2
            raise self._wrong(
                f"'\\{sign}' is not served: of '\\' with a letter there are \\d, \\w, \\s, \\D, \\W and \\S"
            )
        return frozenset(sign)

    def _class(self) -> frozenset[str]:
        """Behind its "["."""
        others = self._take("^")
        found: frozenset[str] = frozenset()
        empty = True
        while empty or self._peek() != "]":
            low = self._member()
            empty = False
            rest = self._text[self._at : self._at + 2]
            if rest[:1] == "-" and rest[1:] not in ("", "]"):
                self._at += 1
                high = self._member()
                if len(low) != 1 or len(high) != 1 or min(low) > min(high):
                    raise self._wrong("this range has no end above its beginning")
                if _OTHER in self._all and not min(high).isascii():
                    raise self._wrong("a range ends within ASCII")
                low = frozenset(map(chr, range(ord(min(low)), ord(min(high)) + 1))) & self._all
            found |= low
        self._at += 1
        return self._all - found if others else found

    def _member(self) -> frozenset[str]:
        sign = self._peek()
        if not sign:
            raise self._wrong("a ']' is missing")
        if self._text.startswith("[:", self._at) or self._text.startswith("&&", self._at):
            raise self._wrong("names of classes and '&&' are not served")
        self._at += 1
        return self._escaped() if sign == "\\" else frozenset(sign)

    def _repeated(self, node: _Node) -> _Node:
        while True:
            if self._take("*"):
                node = _Node("repeat", parts=(node,))
            elif self._take("+"):
                node = _Node("repeat", parts=(node,), least=1)
            elif self._take("?"):
                node = _Node("repeat", parts=(node,), most=1)
            elif self._peek() == "{":
                node = self._counted(node)
            else:
                return node
            # a lazy one matches the same names
            self._take("?")
            if self._peek() == "+":
                raise self._wrong("a '+' behind another is not served")

    def _counted(self, node: _Node) -> _Node:
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at + 1 : end if end > 0 else None].partition(",")
        numbers = [each for each in (least, most) if each]
        if end < 0 or not least or not all(each.isascii() and each.isdigit() for each in numbers):
            raise self._wrong("how often is written {n}, {n,} or {n,m}")
        if any(len(each) > 3 or int(each) > MOST_PLACES for each in numbers):
            raise self._wrong(f"at most {MOST_PLACES} times")
        low, high = int(least), int(most) if most else None if comma else int(least)
        if high is not None and high < low:
            raise self._wrong(f"{high} is less than {low}")
        self._at = end + 1
        return _Node("repeat", parts=(node,), least=low, most=high)

    # -- the automaton ----------------------------------------------------------------------------------------------

    def _build(self, node: _Node) -> _Part:
        self._steps += 1
        if self._steps > _MOST_STEPS or len(self.places) > MOST_PLACES:
            raise PatternError(
                f"The pattern is too large: with all that is to come n times it has more than {MOST_PLACES} characters."
            )
        if node.kind == "letters":
            place = 1 << len(self.places)
            self.places.append(node.letters)
            self.follow.append(0)
            return _Part(False, place, place)
        if node.kind == "choice":
            whole = _Part(False, 0, 0)
            for each in node.parts:
                built = self._build(each)
                whole = _Part(
                    whole.nullable or built.nullable, whole.first | built.first, whole.last | built.last
                )
            return whole
        if node.kind == "sequence":
            whole = _EMPTY
            for each in node.parts:
                whole = self._joined(whole, self._build(each))
            return whole
        return self._repeat(node)

    def _repeat(self, node: _Node) -> _Part:
        (inner,) = node.parts
        whole = _EMPTY
        for _ in range(node.least):
            whole = self._joined(whole, self._build(inner))
        if node.most is None:
            again = self._build(inner)
            self._then(again.last, again.first)
            return self._joined(whole, again._replace(nullable=True))
        # n more at most: (x(x(x)?)?)?, from the inside
        more = _EMPTY
        for _ in range(node.most - node.least):
            more = self._joined(self._build(inner), more)._replace(nullable=True)
        return self._joined(whole, more)

    def _joined(self, one: _Part, other: _Part) -> _Part:
        self._then(one.last, other.first)
        return _Part(
            one.nullable and other.nullable,
            one.first | (other.first if one.nullable else 0),
            other.last | (one.last if other.nullable else 0),
        )

    def forever(self, last: int) -> int:
        """The places from which on everything matches: any letter may stand there, again and again, and the last."""
        return sum(
            1 << place
            for place in bits(last)
            if self.follow[place] >> place & 1 and self.places[place] == self._all
        )

    def _then(self, last: int, first: int) -> None:
        for place in bits(last) if first else ():
            self.follow[place] |= first
