"""Kafka's quotas of clients: whose they are, which one binds a client, what it leaves (KIP-13, 124, 546, 599, 612).

A row is of an entity: a user, a client id, a client id of a user, or an address; each by its name, or as the default of
those that have no row of their own. What a row says binds each that it is about by itself: a default of users is a
bucket for each user, not one for all.

    1. this user, this client id          5. any user, any client id
    2. this user, any client id           6. any user
    3. this user                          7. this client id
    4. any user, this client id           8. any client id

The first of these that says something of a key is what counts for it; the next key may be said by another.
Pure: whoever asks says what time it is.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

USER, CLIENT, IP = KINDS = ("user", "client-id", "ip")

PRODUCED, FETCHED, WORK, MUTATIONS, CONNECTIONS = KEYS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
"""Bytes, bytes, percent of one processor, partitions made or deleted, connections: each of a second."""

OF_CLIENTS = KEYS[:4]
OF_ADDRESSES = (CONNECTIONS,)
_WHOLE = frozenset((PRODUCED, FETCHED, CONNECTIONS))

LONGEST_NAME = {USER: 1024, CLIENT: 256, IP: 64}
"""Characters of a name that has a quota; of a longer client id the beginning counts."""

Part: TypeAlias = tuple[str, "str | None"]
"""a kind, and a name; None is the default of this kind"""
Entity: TypeAlias = tuple[Part, ...]
"""its parts, in the order of KINDS"""
Whose: TypeAlias = tuple[str, str, str]
"""whose bucket it is: the key, a user and a client id; "" where it is about all of them together"""


_NEARLY = 1 - 1e-9
"""Sums of fractions come to a little less than the whole."""


class QuotaError(ValueError):
    """What can be no quota, in a sentence."""


class Binding(NamedTuple):
    """What binds a client for one key."""

    rate: float
    whose: Whose


def entity_of(parts: Iterable[Part]) -> Entity:
    """Raises QuotaError for what can have no quotas."""
    given = list(parts)
    kinds = dict(given)
    if not kinds or len(kinds) < len(given):
        raise QuotaError("A quota is of one user, client or address, or of a user's client.")
    for kind, name in given:
        if kind not in KINDS:
            raise QuotaError(f"There are no quotas of '{kind}'.")
        if name == "":
            raise QuotaError("A name is empty; what has none is the default.")
        if name is not None and len(name) > LONGEST_NAME[kind]:
            raise QuotaError(f"A name of a {kind} has at most {LONGEST_NAME[kind]} characters.")
    if IP in kinds:
        if len(kinds) > 1:
            raise QuotaError("Addresses cannot be combined with users or clients.")
        address = kinds[IP]
        try:
            if address is not None:
                # one address has many spellings
                found = ipaddress.ip_address(address)
                mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
                return ((IP, str(mapped or found)),)
        except ValueError:
            raise QuotaError(f"'{address}' is no address.") from None
    return tuple((kind, kinds[kind]) for kind in KINDS if kind in kinds)


def check(entity: Entity, key: str, value: float) -> None:
    """Raises QuotaError for a value that a row of this entity cannot have."""
    check_key(entity, key)
    # what is no number is not above 0 either
    if not value > 0 or value == float("inf"):
        raise QuotaError(f"{key} is a number above 0.")
    if key in _WHOLE and not (value.is_integer() and value < 2**63):
        raise QuotaError(f"{key} is a whole number.")


def check_key(entity: Entity, key: str) -> None:
    """Raises QuotaError for a key that rows of this entity do not have."""
    keys = OF_ADDRESSES if entity[0][0] == IP else OF_CLIENTS
    if key not in keys:
        raise QuotaError(f"There is no quota '{key}' here, only: {', '.join(keys)}.")


def levels(user: str, client: str) -> tuple[tuple[Entity, str, str], ...]:
    """The rows that may bind a client, the first first, each with the user and the client id that share its bucket."""
    users, clients = ((USER, user), (USER, None)), ((CLIENT, client), (CLIENT, None))
    found: list[tuple[Entity, str, str]] = []
    for each in users:
        found += [((each, other), user, client) for other in clients]
        found.append(((each,), user, ""))
    return (*found, *(((other,), "", client) for other in clients))


def binding(rows: Mapping[Entity, Mapping[str, float]], key: str, user: str, client: str) -> Binding | None:
    """What binds a client for a key of clients; None: nothing does."""
    for entity, whose_user, whose_client in levels(user, client):
        rate = rows.get(entity, {}).get(key)
        if rate is not None:
            return Binding(rate, (key, whose_user, whose_client))
    return None


def bound(
    rows: Mapping[Entity, Mapping[str, float]],
    lower: Mapping[Entity, Mapping[str, float]],
    key: str,
    user: str,
    client: str,
) -> Binding | None:
    """The same where a tenant has rows of its own for its users, `lower`: these leave nobody more than `rows` do.

    Where a row of users binds already, the bucket is that one's, and a tenant's row of the user as a whole makes it
    smaller. Else the tenant's row says whose bucket it is.
    """
    first = binding(rows, key, user, client)
    own = binding(lower, key, user, client) if lower else None
    if first is None or own is None:
        return first or own
    if not first.whose[1]:
        # of all who have this client id: nobody makes that smaller for others
        return Binding(min(first.rate, own.rate), own.whose)
    rate = lower.get(((USER, user),), {}).get(key, first.rate)
    return Binding(min(first.rate, rate), first.whose)


def check_lower(rows: Mapping[Entity, Mapping[str, float]], entity: Entity, key: str, value: float) -> None:
    """Raises QuotaError for a value that a tenant's row cannot have beside these rows."""
    parts = dict(entity)
    first = binding(rows, key, parts[USER] or "", parts.get(CLIENT) or "")
    if first is None:
        return
    if value > first.rate:
        raise QuotaError(f"A super-user has set {key} to {first.rate:g}: it can be lowered, and not raised.")
    if first.whose[1] and CLIENT in parts:
        raise QuotaError(
            f"A super-user has set {key} for this user: it can be lowered for the user as a whole."
        )


def of_address(rows: Mapping[Entity, Mapping[str, float]], address: str) -> Binding | None:
    """How many connections may come from an address in a second; None: nothing is said of it."""
    for name in (address, None):
        rate = rows.get(((IP, name),), {}).get(CONNECTIONS)
        if rate is not None:
            return Binding(rate, (CONNECTIONS, "", address))
    return None


class Bucket:
    """Tokens of one quota. It is filled evenly, holds what `seconds` bring, and is full at first.

    What was done is taken out afterwards, also where that is more than there is: whoever did it waits until the debt is
    paid. Times in ms, of a clock that does not go back.
    """

    __slots__ = ("_at", "fresh", "level", "most", "rate")

    def __init__(self, rate: float, seconds: float, now: int) -> None:
        """`rate`: tokens of a second."""
        self.rate = rate
        self.most = rate * seconds
        self.level = self.most
        """what there was when it was last filled, and below nothing what is owed. Whoever has just filled it may look,
        and take out what there is, without a call: these are dear on the short ways"""
        self.fresh = 0.0
        """until when whoever looks need not fill it; of whoever fills it, by a clock of its own"""
        self._at = now

    def change(self, rate: float, seconds: float, now: int) -> None:
        """Another rate counts from now on. What is owed stays so, and is paid at the new one."""
        was_full = self.full(now)
        self.rate, self.most = rate, rate * seconds
        self.level = self.most if was_full else min(self.level, self.most)

    def fill(self, now: int) -> None:
        """What came in since then."""
        if now > self._at:
            self.level = min(self.level + (now - self._at) * self.rate / 1000, self.most)
            self._at = now

    def take(self, tokens: float, now: int) -> int:
        """Take out what was done; the answer is how many ms to wait, 0 for none."""
        if now > self._at:
            self.fill(now)
        self.level = level = self.level - tokens
        return 0 if level >= 0 else self._owed()

    def wait(self, now: int) -> int:
        """ms until nothing is owed."""
        if now > self._at:
            self.fill(now)
        return 0 if self.level >= 0 else self._owed()

    def _owed(self) -> int:
        # 0.1 more or less is an error of rounding, and no millisecond
        return int(-self.level * 1000 / self.rate + 0.999)

    def full(self, now: int) -> bool:
        """Whether it is as if nothing had ever been taken."""
        self.fill(now)
        return self.level >= self.most * _NEARLY
