"""50 DescribeUserScramCredentials (0) and 51 AlterUserScramCredentials (0): passwords of users (KIP-554).

As Kafka, but for this: a user that has a home stays when its last credential is deleted, and nobody can log in as it
until it has one again. Else it would come back without its home. Names that SCRAM, certificates or principals give
another meaning are refused (UNACCEPTABLE_CREDENTIAL).

Who may do this in one namespace only (the administrator of a tenant) has users of its own there: `ada` is the user
`shop.ada`, at home in that namespace. It sees no others. At home in public/default that takes the right on the whole
gateway, which the administrator of the tenant public does not have.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gateway.apis.checks import check_over_users
from gateway.apis.registry import Context, handles
from gateway.apis.slices import answered
from gateway.auth.credentials import (
    LEAST_ITERATIONS,
    LONGEST_SALT,
    MOST_ITERATIONS,
    SHA_256,
    SHA_512,
    UserError,
    UserRow,
    Verifier,
    check_name,
    from_salted,
    principal_of,
)
from gateway.broker.errors import KafkaError, from_store
from gateway.broker.namespaces import prefix_of
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from store.api import StoreError
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.users import Change, Users
    from gateway.peer import Peer

log = logging.getLogger("magnetar.apis")

MECHANISMS = {1: SHA_256, 2: SHA_512}
"""By their numbers on the wire."""
_NUMBERS = {name: number for number, name in MECHANISMS.items()}

Described = messages.DescribeUserScramCredentialsResponse
Altered = messages.AlterUserScramCredentialsResponse
Deletion = messages.AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = messages.AlterUserScramCredentialsRequest.ScramCredentialUpsertion

_SLICE = 200
"""Credentials that are made before the loop may do something else: a millisecond or two."""


class _View:
    """The users that a client can name: all, or those of its namespace."""

    def __init__(self, users: Users, peer: Peer, operation: Operation) -> None:
        self._users = users
        self.home = peer.namespace if peer.prefix and not peer.rights.node(operation) else None
        self._prefix = peer.namespace.partition("/")[0] + "." if self.home is not None else ""

    def full(self, name: str) -> str:
        """What a user is called that the client calls so."""
        return name if name.startswith(self._prefix) else self._prefix + name

    def has(self, row: UserRow) -> bool:
        return self.home is None or row.home == self.home

    def get(self, name: str) -> UserRow | None:
        """None as well for a user of others."""
        row = self._users.get(self.full(name))
        return row if row is not None and self.has(row) else None

    def beside(self, name: str) -> str | None:
        """What is told of a user at home here that is called so, and not as those are whom the tenant makes. None where
        there is none, or the name means another that is there."""
        full = self.full(name)
        if full == name or self._users.get(full) is not None:
            return None
        row = self._users.get(name)
        if row is None or not self.has(row):
            return None
        return (
            f"{name} is at home in {self.home}, and its name does not begin with {self._prefix} as those of users whom "
            f"its tenant manages: a super-user changes it (magnetar-admin users). Say {full} for another user."
        )

    def names(self) -> Iterable[str]:
        """Of those that have a credential."""
        for name in self._users.names():
            row = self.get(name) if name.startswith(self._prefix) else None
            if row is not None and row.verifiers:
                yield name


@handles(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0)
def describe_user_scram_credentials(
    broker: Broker, context: Context, request: messages.DescribeUserScramCredentialsRequest
) -> Pending[messages.DescribeUserScramCredentialsResponse]:
    try:
        check_over_users(context.peer, Operation.DESCRIBE)
    except KafkaError as error:
        return _not_described(error, len(request.users or ()))
    view = _View(broker.users, context.peer, Operation.DESCRIBE)
    # null and an empty list are all there are
    asked = Counter(each.name for each in request.users or []) or Counter(view.names())
    # as they are now, whatever becomes of them meanwhile
    found = [(name, times, view.get(name), view.beside(name)) for name, times in asked.items()]
    # as Kafka: no error has an empty text
    return answered(
        found, _described, lambda results: Described(error_code=0, error_message="", results=results)
    )


def _not_described(refused: KafkaError, count: int) -> messages.DescribeUserScramCredentialsResponse:
    """As Kafka: the refusal again for each user that was asked for, and none of them is named."""
    code, text = refused.code, refused.text
    result = Described.DescribeUserScramCredentialsResult(
        user="", error_code=code, error_message=text, credential_infos=[]
    )
    return Described(error_code=code, error_message=text, results=[result] * count)


def _described(
    asked: tuple[str, int, UserRow | None, str | None],
) -> messages.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult:
    name, times, row, beside = asked
    result = Described.DescribeUserScramCredentialsResult(
        user=name, error_code=0, error_message="", credential_infos=[]
    )
    if times > 1:
        result.error_code = Error.DUPLICATE_RESOURCE
        result.error_message = "This user is asked for more than once."
    elif row is None or not row.verifiers:
        result.error_code = Error.RESOURCE_NOT_FOUND
        result.error_message = beside or "This user has no SCRAM credentials."
    else:
        result.credential_infos = [
            Described.CredentialInfo(mechanism=_NUMBERS[each.mechanism], iterations=each.iterations)
            for each in sorted(row.verifiers.values())
        ]
    return result


@handles(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0)
async def alter_user_scram_credentials(
    broker: Broker, context: Context, request: messages.AlterUserScramCredentialsRequest
) -> messages.AlterUserScramCredentialsResponse:
    named = [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    told: dict[str, Wrong]
    try:
        check_over_users(context.peer, Operation.ALTER)
    except KafkaError as error:
        told = dict.fromkeys(named, (int(error.code), error.text))
    else:
        told = await _Altering(broker, context.peer, request).done()
    return Altered(
        results=[
            Altered.AlterUserScramCredentialsResult(user=name, error_code=code, error_message=text)
            for name, (code, text) in told.items()
        ]
    )


Wrong = tuple[int, str | None]
"""An error code and a sentence."""


class _Asked(NamedTuple):
    """Something of a request: a deletion, or a verifier to have, or what is wrong with it."""

    name: str
    mechanism: str
    verifier: Verifier | None = None
    wrong: Wrong | None = None


class _Altering:
    """One request: what can be done of it is one commit."""

    def __init__(
        self, broker: Broker, peer: Peer, request: messages.AlterUserScramCredentialsRequest
    ) -> None:
        self._users = broker.users
        self._view = _View(broker.users, peer, Operation.ALTER)
        self._broker = broker
        self._peer = peer
        self._above = _above(broker) - {peer.principal} if self._view.home is not None else frozenset()
        self._request = request
        self._asked: list[_Asked] = []
        self._wrong: dict[str, Wrong] = {}
        self._good: dict[str, Change] = {}

    async def done(self) -> dict[str, Wrong]:
        """By name as it was said, Kafka's order: what was done, and then what was not."""
        asked: list[Deletion | Upsertion] = [*self._request.deletions, *self._request.upsertions]
        for count, each in enumerate(asked):
            if count % _SLICE == _SLICE - 1:
                # there may be tens of thousands
                await asyncio.sleep(0)
            self._asked.append(self._checked(each))
        try:
            await self._users.change_by(self._changes)
        except UserError as error:
            self._fail(Error.UNACCEPTABLE_CREDENTIAL, str(error))
        except StoreError as error:
            failed = from_store(error)
            self._fail(failed.code, failed.text)
        self._tell_of_what_stays()
        return {**dict.fromkeys(self._good, (0, None)), **self._wrong}

    def _fail(self, code: int, text: str | None) -> None:
        """Nothing was done."""
        self._wrong = {**dict.fromkeys(self._good, (code, text)), **self._wrong}
        self._good = {}

    def _tell_of_what_stays(self) -> None:
        """As in Kafka each mechanism has a password of its own, and the old one may be good by the other: no tool says
        so, and who changes a password or deletes a user means all of it.
        """
        others = {
            self._view.full(each.name): sorted(row.verifiers.keys() - {each.mechanism})
            for each in self._asked
            if each.name in self._good and (row := self._view.get(each.name)) is not None
        }
        users = [f"{name} ({', '.join(left)})" for name, left in others.items() if left]
        if users:
            log.warning(
                "a password was changed or deleted for one mechanism, and that for another stays as it was and lets in "
                "whoever has it: change or delete both, as magnetar-admin users passwd and users delete do",
                extra={"principal": self._peer.principal, "users": ", ".join(islice(users, 10))},
            )

    def _checked(self, asked: Deletion | Upsertion) -> _Asked:
        """What can be said of it without a look at the users there are."""
        try:
            if not asked.name:
                raise KafkaError(Error.UNACCEPTABLE_CREDENTIAL, "A user has a name.")
            mechanism = MECHANISMS.get(asked.mechanism)
            if mechanism is None:
                raise KafkaError(Error.UNSUPPORTED_SASL_MECHANISM, "There is no such mechanism of SCRAM.")
            if isinstance(asked, Deletion):
                return _Asked(asked.name, mechanism)
            return _Asked(asked.name, mechanism, _verifier(self._view.full(asked.name), mechanism, asked))
        except KafkaError as error:
            return _Asked(asked.name, "", wrong=(error.code, error.text))

    def _changes(self) -> Mapping[str, Change]:
        """When it is this request's turn."""
        # user -> as the client said it: two names may be one user's
        users: dict[str, str] = {}
        for each in self._asked:
            name = each.name
            if name in self._wrong:
                continue
            full = self._view.full(name)
            if full in users:
                for same in (users[full], name):
                    self._good.pop(same, None)
                    self._wrong[same] = Error.DUPLICATE_RESOURCE, "A user is altered once in a request."
                continue
            beside = self._view.beside(name)
            if beside is not None:
                wrong: Wrong | None = (
                    Error.RESOURCE_NOT_FOUND if each.verifier is None else Error.UNACCEPTABLE_CREDENTIAL,
                    beside,
                )
            else:
                wrong = each.wrong or self._cannot(full, each)
            if wrong is not None:
                self._wrong[name] = wrong
                continue
            users[full] = name
            self._good[name] = (
                partial(_without, each.mechanism)
                if each.verifier is None
                else partial(_with, each.verifier, self._view.home)
            )
        return {self._view.full(name): change for name, change in self._good.items()}

    def _cannot(self, name: str, asked: _Asked) -> Wrong | None:
        """Why this cannot be done to the user as it is now."""
        row = self._users.get(name)
        own = row is not None and self._view.has(row)
        if asked.verifier is None and (row is None or not own or asked.mechanism not in row.verifiers):
            return Error.RESOURCE_NOT_FOUND, "This user has no such credential."
        # who administers one namespace becomes nobody that is others', or that may do more
        principal = principal_of(name)
        trusted = asked.verifier is not None and self._trusted_elsewhere(principal)
        if (row is not None and not own) or principal in self._above or trusted:
            return Error.UNACCEPTABLE_CREDENTIAL, "This name cannot be had."
        return None

    def _trusted_elsewhere(self, principal: str) -> bool:
        """Whether others have said what somebody of this name may do, and it is not for who asks to be that one."""
        if self._view.home is None or principal == self._peer.principal:
            return False
        return any(
            str(namespace) != self._view.home
            and not self._peer.rights.cluster_of(Operation.ALTER, f"{prefix_of(namespace)}a")
            for namespace in self._broker.access.table.namespaces_of(principal)
        )


def _above(broker: Broker) -> frozenset[str]:
    """Principals that may do more than administer a namespace, whether there are such users or not."""
    namespaces = broker.catalog.namespaces
    roles = [
        role
        for tenant in namespaces.tenants()
        if (row := namespaces.tenant(tenant)) is not None
        for role in row.admin_roles
    ]
    return broker.settings.super_users | {principal_of(role) for role in roles}


def _verifier(name: str, mechanism: str, asked: Upsertion) -> Verifier:
    """Raises KafkaError."""
    if not LEAST_ITERATIONS <= asked.iterations <= MOST_ITERATIONS:
        few = "few" if asked.iterations < LEAST_ITERATIONS else "many"
        raise KafkaError(
            Error.UNACCEPTABLE_CREDENTIAL, f"Too {few} iterations: {LEAST_ITERATIONS} to {MOST_ITERATIONS}."
        )
    if not asked.salted_password or not 0 < len(asked.salt) <= LONGEST_SALT:
        raise KafkaError(
            Error.UNACCEPTABLE_CREDENTIAL,
            f"A salt of 1 to {LONGEST_SALT} bytes and a salted password are needed.",
        )
    try:
        check_name(name)
    except UserError as error:
        raise KafkaError(Error.UNACCEPTABLE_CREDENTIAL, str(error)) from None
    return from_salted(mechanism, bytes(asked.salted_password), asked.iterations, bytes(asked.salt))


def _with(verifier: Verifier, home: str | None, old: UserRow | None) -> UserRow:
    """A user with this credential; a new one is at home there."""
    row = old or UserRow(home=home)
    return msgspec.structs.replace(row, verifiers={**row.verifiers, verifier.mechanism: verifier})


def _without(mechanism: str, row: UserRow | None) -> UserRow | None:
    """A user without one of its credentials; none if it had no other, and is at home nowhere."""
    assert row is not None
    left = {name: each for name, each in row.verifiers.items() if name != mechanism}
    return msgspec.structs.replace(row, verifiers=left) if left or row.home is not None else None
