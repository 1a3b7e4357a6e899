"""Stored users: what is kept instead of a password (RFC 5802), and what is kept with it. Pure.

One kind of verifier serves all: SCRAM by the exchange, PLAIN and HTTP Basic by making the same keys from the password.
A password is its UTF-8, as Kafka's clients and librdkafka have it: SASLprep is done by none of them.
"""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from typing import NamedTuple

import msgspec

from semantics.names import Namespace, NamingError

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
HASHES = {SHA_256: "sha256", SHA_512: "sha512"}
"""The hash of each mechanism, in hashlib's words."""

LEAST_ITERATIONS, MOST_ITERATIONS = 4096, 16_384
"""Kafka's bounds: with more, each login would be work that a stranger can ask for."""
LONGEST_NAME = 128
"""Characters of a user's name."""
LONGEST_PASSWORD = 1024
"""Bytes of a password, in UTF-8."""
LONGEST_SALT = 256
"""Bytes. Kafka's tools send 26."""
SALT = 20
"""Bytes of a salt that is made here."""
RESERVED = frozenset(("ANONYMOUS", "*"))
"""Names that mean somebody else in a principal: nobody in particular, and everybody."""


class UserError(ValueError):
    """What cannot be a user, a password or a home. The text is a sentence for a person, without any secret."""


class Verifier(NamedTuple):
    """What tells whether somebody knows a password, without being it."""

    mechanism: str
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"<Verifier {self.mechanism} {self.iterations}>"


class UserRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of a user."""

    # by mechanism; without any nobody can log in as this user
    verifiers: dict[str, Verifier] = {}
    # tenant/namespace; None: tenancy.unbound says
    home: str | None = None
    # ascends with every change of any user, and no number comes again
    epoch: int = 0

    def __repr__(self) -> str:
        return f"<UserRow {sorted(self.verifiers)} {self.home} {self.epoch}>"


_decoder = msgspec.msgpack.Decoder(UserRow)


def encode(row: UserRow) -> bytes:
    """As it is stored."""
    return msgspec.msgpack.encode(row)


def decode(raw: bytes) -> UserRow:
    """Raises msgspec.MsgspecError."""
    return _decoder.decode(raw)


def principal_of(name: str) -> str:
    """What ACLs and super.users call a user."""
    return f"User:{name}"


# -- what is taken ----------------------------------------------------------------------------------------------------


def check_name(name: str) -> str:
    """A name that a user can have. Raises UserError.

    `,` and `=` are SCRAM's own, and some clients do not escape them. An `=` also keeps users apart from the subjects of
    certificates.
    """
    if not name:
        raise UserError("A user has a name.")
    if len(name) > LONGEST_NAME:
        raise UserError(
            f"The name of a user has at most {LONGEST_NAME} characters; this one has {len(name)}."
        )
    if "," in name or "=" in name or has_control(name):
        raise UserError("The name of a user holds no comma, no equals sign and no control character.")
    if name != name.strip():
        raise UserError("The name of a user does not begin or end with a space.")
    if name.startswith("User:"):
        raise UserError(f"{name} is a principal: its user is called {name.removeprefix('User:')}.")
    if name in RESERVED:
        raise UserError(f"No user can be called {name}: as a principal it means others.")
    return name


_FORBIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Unicode's control and format characters, surrogates, and separators of lines."""


def has_control(name: str) -> bool:
    """Whether there is a character in it that does not show, or that ends a line."""
    return any(unicodedata.category(each) in _FORBIDDEN for each in name)


def check_password(password: str) -> str:
    """A password that a user can have. Raises UserError."""
    try:
        size = len(password.encode())
    except UnicodeEncodeError:
        raise UserError("The password is no valid text.") from None
    if not size:
        raise UserError("A password cannot be empty.")
    if size > LONGEST_PASSWORD:
        raise UserError(f"A password has at most {LONGEST_PASSWORD} bytes; this one has {size}.")
    return password


def check_home(home: str) -> str:
    """A home in full. Raises UserError."""
    try:
        return str(Namespace.parse(home))
    except NamingError as error:
        raise UserError(f"A home is a tenant/namespace: {error}") from None


# -- keys -------------------------------------------------------------------------------------------------------------


def make(mechanism: str, password: str, iterations: int, salt: bytes) -> Verifier:
    """The verifier of a password. It takes 0.9 ms with SHA-256 and 4096 iterations. KeyError: no such mechanism."""
    return from_salted(mechanism, _salted(mechanism, password, iterations, salt), iterations, salt)


def from_salted(mechanism: str, salted: bytes, iterations: int, salt: bytes) -> Verifier:
    """The verifier of a password that was salted already, as AlterUserScramCredentials brings it."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    stored = hashlib.new(name, client_key).digest()
    return Verifier(mechanism, salt, iterations, stored, hmac.digest(salted, b"Server Key", name))


def check(verifier: Verifier, password: str) -> bool:
    """Whether this is the password. How long it takes says nothing of how much of it was right."""
    try:
        made = make(verifier.mechanism, password, verifier.iterations, verifier.salt)
    except UnicodeEncodeError:
        return False
    return hmac.compare_digest(made.stored_key, verifier.stored_key)


def preferred(row: UserRow) -> Verifier | None:
    """Which verifier PLAIN and HTTP Basic are checked against: the cheaper one."""
    return row.verifiers.get(SHA_256) or row.verifiers.get(SHA_512)


def _salted(mechanism: str, password: str, iterations: int, salt: bytes) -> bytes:
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
