"""The users there are: rows of the store, all in memory, changed by one commit each.

A change raises the epoch of its user above all that any user has had, so who has logged in before can be told. Whoever
has to know of a change is among the watchers: they are called when it is durable, before anything else happens.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from gateway.auth.credentials import (
    HASHES,
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    SALT,
    UserError,
    UserRow,
    Verifier,
    check,
    check_home,
    check_name,
    check_password,
    decode,
    encode,
    make,
    preferred,
    principal_of,
)
from gateway.auth.decoys import Decoys
from gateway.auth.errors import RefusedError
from gateway.auth.pool import Pool
from gateway.peer import Identity
from semantics.names import DEFAULT
from store.api import Delete, Family, Put, Store, StoreError, Write

log = logging.getLogger("magnetar.users")

_USER = b"user/"
_STATE = b"users"
"""Key of META: the highest epoch so far, and the secret of decoys."""
MOST_USERS = 100_000
"""All are in memory, some 700 bytes each."""
MOST_OF_TENANT = MOST_USERS // 4
"""Of those, the most that are at home in one tenant, which may be made by its administrators; not of public."""

Change = Callable[[UserRow | None], UserRow | None]
"""From what a user is to what it shall be; None is no user. Its epoch is not for the function to set."""
Commit = Callable[[Sequence[Write], Callable[[], None], Callable[[], None]], Awaitable[None]]
"""Writes that are one fact; what is called as soon as it is durable; and what is called where nobody knows whether it
is. It is over when one of these was called, or nothing is stored: not before, whoever is cancelled. Raises StoreError.
"""


class NoUserError(Exception):
    """There is no such user. The text is a sentence for a person."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no user {name[:80]!r}.")


class UserThereError(Exception):
    """There is such a user already. The text is a sentence for a person."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is a user {name[:80]!r} already.")


class _State(msgspec.Struct):
    epoch: int
    secret: bytes


class Users:
    """Reads and changes them, and checks passwords."""

    def __init__(self, store: Store, commit: Commit) -> None:
        """Raises StoreError, for rows that cannot be read as well."""
        self._store = store
        self._commit = commit
        try:
            raw = store.get(Family.META, _STATE)
            # a secret that was not stored is as good: with the first user it is
            state = msgspec.msgpack.decode(raw, type=_State) if raw is not None else _State(0, os.urandom(32))
            rows = [
                (key[len(_USER) :].decode(), decode(value)) for key, value in store.scan(Family.USER, _USER)
            ]
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StoreError(f"The rows of users cannot be read: {error}") from None
        self._epoch = state.epoch
        self.secret = state.secret
        """from which salts are made for users that there are not"""
        self.watchers: list[Callable[[str], None]] = []
        """called with the name of each user that is another now, or gone"""
        self._decoys = Decoys(self.secret)
        self._rows: dict[str, UserRow] = {}
        # how many are at home in each tenant
        self._of_tenant: Counter[str] = Counter()
        for name, row in rows:
            self._set(name, row)
        # one change at a time: each begins with what the one before it left
        self._lock = asyncio.Lock()
        self._pool = Pool()

    # -- what there is ----------------------------------------------------------------------------------------------

    def get(self, name: str) -> UserRow | None:
        return self._rows.get(name)

    def names(self) -> list[str]:
        """In order."""
        return sorted(self._rows)

    def decoy(self, name: str, mechanism: str) -> Verifier:
        """What an exchange of SCRAM goes on with where there is no such user, or it has no such verifier. It fails at
        its end, whatever the client says.
        """
        return self._decoys.of(name, mechanism)

    # -- changes ----------------------------------------------------------------------------------------------------

    async def create(self, name: str, row: UserRow) -> None:
        """Raises UserThereError, UserError, StoreError."""

        def made(old: UserRow | None) -> UserRow:
            if old is not None:
                raise UserThereError(name)
            return row

        await self.change({name: made})

    async def alter(self, name: str, change: Callable[[UserRow], UserRow]) -> None:
        """Raises NoUserError, UserError, StoreError."""

        def altered(old: UserRow | None) -> UserRow:
            if old is None:
                raise NoUserError(name)
            return change(old)

        await self.change({name: altered})

    async def delete(self, name: str) -> None:
        """Raises NoUserError, StoreError."""

        def gone(old: UserRow | None) -> None:
            if old is None:
                raise NoUserError(name)

        await self.change({name: gone})

    async def drop(self, home: str, staying: Collection[str] = ()) -> None:
        """Delete those that are at home in a namespace, but for these. Raises StoreError."""
        gone: dict[str, Change] = {}

        def theirs() -> Mapping[str, Change]:
            for name, row in self._rows.items():
                if row.home == home and name not in staying:
                    gone[name] = lambda old: None
            return gone

        await self.change_by(theirs)
        if gone:
            log.info("users deleted with their home", extra={"namespace": home, "users": len(gone)})

    async def change(self, changes: Mapping[str, Change]) -> None:
        """Change users, all or none: what a function raises ends it. Raises UserError, StoreError."""
        await self.change_by(lambda: changes)

    async def change_by(self, changes_of: Callable[[], Mapping[str, Change]]) -> None:
        """The same with changes that are made when it is their turn, and nothing can come between."""
        async with self._lock:
            new: dict[str, UserRow | None] = {}
            epoch = self._epoch
            for name, change in changes_of().items():
                old = self._rows.get(name)
                row = change(old)
                if row == old:
                    continue
                if row is not None:
                    check_name(name)
                    epoch += 1
                    row = msgspec.structs.replace(row, epoch=epoch)
                new[name] = row
            if not new:
                return
            more = sum((row is not None) - (name in self._rows) for name, row in new.items())
            if more > 0 and len(self._rows) + more > MOST_USERS:
                raise UserError(f"There are {MOST_USERS:,} users at most.")
            self._check_tenants(new)
            writes: list[Write] = [
                Put(Family.USER, _key(name), encode(row))
                if row is not None
                else Delete(Family.USER, _key(name))
                for name, row in new.items()
            ]
            writes.append(Put(Family.META, _STATE, msgspec.msgpack.encode(_State(epoch, self.secret))))
            # numbers of a commit that failed are not given again: it may have happened
            self._epoch = epoch
            await self._commit(writes, partial(self._changed, new), partial(self._read_again, new))

    def _check_tenants(self, new: Mapping[str, UserRow | None]) -> None:
        """Raises UserError."""
        more: Counter[str] = Counter()
        for name, row in new.items():
            old = self._rows.get(name)
            before, after = _tenant_of(old), _tenant_of(row)
            if before != after:
                more[before] -= 1
                more[after] += 1
        for tenant, count in more.items():
            if count > 0 and tenant and self._of_tenant[tenant] + count > MOST_OF_TENANT:
                raise UserError(f"There are {MOST_OF_TENANT:,} users of one tenant at most.")

    def _changed(self, rows: Mapping[str, UserRow | None]) -> None:
        for name, row in rows.items():
            old = self._rows.get(name)
            self._set(name, row)
            what = "made" if old is None else "deleted" if row is None else "changed"
            # who did it stands in the audit, or in one line of who does it to many
            log.debug("user %s", what, extra={"user": name})
        for name in rows:
            for watcher in self.watchers:
                try:
                    watcher(name)
                except Exception:
                    # it is stored whatever one of them makes of it, and the others have to know
                    log.exception("a change of a user was not followed", extra={"user": name})

    def _read_again(self, names: Iterable[str]) -> None:
        """Nobody knows whether a commit has happened."""
        found = {}
        for name in names:
            raw = self._store.get(Family.USER, _key(name))
            row = decode(raw) if raw is not None else None
            if row != self._rows.get(name):
                found[name] = row
        self._changed(found)

    def _set(self, name: str, row: UserRow | None) -> None:
        old = self._rows.pop(name, None)
        if old is not None:
            self._of_tenant[_tenant_of(old)] -= 1
        if row is not None:
            self._of_tenant[_tenant_of(row)] += 1
            self._rows[name] = row

    # -- passwords --------------------------------------------------------------------------------------------------

    async def hashed(self, password: str, iterations: int = LEAST_ITERATIONS) -> dict[str, Verifier]:
        """Verifiers of a password, for all mechanisms. Raises UserError; BusyError when too much is in hand."""
        check_password(password)
        return await self._pool.run(partial(verifiers_of, password, iterations))

    async def identify_password(self, name: str, password: str, mechanism_hint: str) -> Identity:
        """Who says this name and this password in clear: PLAIN, or HTTP Basic, as the hint says. Raises RefusedError;
        BusyError when too much is in hand.

        Of a user with two verifiers the one with SHA-256 counts. What it takes does not tell whether there is such a
        user.
        """
        row = self._rows.get(name)
        # made for a user as well, since it takes its time
        decoy = self._decoys.of(name)
        verifier = preferred(row) if row is not None else None
        right = await self._pool.run(partial(check, verifier or decoy, password))
        if row is None:
            raise RefusedError("there is no such user")
        if verifier is None:
            raise RefusedError("this user has no password")
        if not right:
            raise RefusedError("wrong password")
        # another's password may be in force since
        if self._rows.get(name) != row:
            raise RefusedError("this user was changed meanwhile")
        return Identity(principal_of(name), mechanism_hint, row.home, None, name)

    def close(self) -> None:
        """Nobody logs in any more."""
        self._pool.close()


def verifiers_of(password: str, iterations: int = LEAST_ITERATIONS) -> dict[str, Verifier]:
    """Of a password, for all mechanisms, each with a salt of its own. It takes some 3 ms. Raises UserError."""
    if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise UserError(f"There are {LEAST_ITERATIONS} to {MOST_ITERATIONS} iterations, not {iterations}.")
    check_password(password)
    return {each: make(each, password, iterations, os.urandom(SALT)) for each in HASHES}


def row_of(verifiers: dict[str, Verifier], home: str | None) -> UserRow:
    """A user's row. Raises UserError for a home that is none."""
    return UserRow(verifiers, check_home(home) if home is not None else None)


def _tenant_of(row: UserRow | None) -> str:
    """Which a user is at home in; "" for none, and for public, which is nobody's."""
    tenant = (row.home or "").partition("/")[0] if row is not None else ""
    return tenant if tenant != DEFAULT.tenant else ""


def _key(name: str) -> bytes:
    return _USER + name.encode()
