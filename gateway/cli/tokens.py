"""`magnetar tokens`: Pulsar's tokens and their keys, as `pulsar tokens` makes them. No gateway is needed."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import STARTED_BADLY, load, say

if TYPE_CHECKING:
    from gateway.peer import Identity

_HMAC = ("HS256", "HS384", "HS512")
_PAIRS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512")


@click.group()
def tokens() -> None:
    """Tokens (JWT) that say who their bearer is, and the keys that they are signed with.

    A gateway takes them by token.secret.key or token.public.key. Pulsar's own tokens and keys are the same.
    """


@tokens.command(
    epilog="""\b
    Examples:
      magnetar tokens create-secret-key --output secret.key
      magnetar tokens create --subject ada --secret-key file:///etc/magnetar/secret.key
      magnetar tokens create --subject ada --expiry 30d --home shop/eu --secret-key file:///etc/magnetar/secret.key
      magnetar tokens create --subject ada --private-key private.pem --algorithm ES256
    """
)
@click.option(
    "-s", "--subject", required=True, metavar="NAME", help="Who the bearer is: the principal is User:NAME."
)
@click.option(
    "-e",
    "--expiry",
    "--expiry-time",
    metavar="TIME",
    help="How long it holds, such as 10m, 12h, 30d or 1y. [default: for ever]",
)
@click.option(
    "--home", metavar="TENANT/NAMESPACE", help="The namespace whose topics have bare names for the bearer."
)
@click.option(
    "-sk",
    "--secret-key",
    metavar="KEY",
    help="The key that verifies it, too: file:///path, or base64. [default: the setting token.secret.key]",
)
@click.option("-pk", "--private-key", metavar="FILE", help="The private key, in PEM or DER.")
@click.option(
    "-a",
    "--algorithm",
    "--signature-algorithm",
    type=click.Choice([*_HMAC, *_PAIRS]),
    help="How it is signed. [default: HS256 by a secret key, RS256 by a private one]",
)
@click.option("--config", "file", metavar="FILE", help="TOML file with settings. [env: MAGNETAR_CONFIG]")
def create(
    subject: str,
    expiry: str | None,
    home: str | None,
    secret_key: str | None,
    private_key: str | None,
    algorithm: str | None,
    file: str | None,
) -> None:
    """Print a token for SUBJECT. Whoever has it is taken for that user, so keep it as you would a password."""
    from gateway.auth import signing, token_keys
    from gateway.auth.errors import RefusedError

    if secret_key is not None and private_key is not None:
        raise click.UsageError("Say either --secret-key or --private-key.")
    if secret_key is None and private_key is None:
        secret_key = load(file=file).optional_text("token.secret.key")
        if secret_key is None:
            raise click.UsageError("Say --secret-key or --private-key: there is no token.secret.key.")
    if algorithm in _PAIRS and private_key is None:
        raise click.UsageError(
            f"{algorithm} signs with a private key: say --private-key FILE, and no --secret-key."
        )
    if algorithm in _HMAC and private_key is not None:
        raise click.UsageError(
            f"{algorithm} signs with a secret key: say --secret-key, and no --private-key."
        )
    now = int(time.time())
    ends = None if expiry is None else now + seconds(expiry)
    claims = signing.claims_for(subject, issued=now, expires=ends, home=home)
    try:
        # no gateway would take it else
        _bearer(claims)
    except RefusedError as error:
        raise click.UsageError(f"{error.reason}.") from None
    try:
        if private_key is not None:
            text = signing.by_private(claims, _read(private_key), algorithm or "RS256")
        else:
            assert secret_key is not None
            text = signing.by_secret(claims, token_keys.read(secret_key), algorithm or "HS256")
    except token_keys.KeyProblem as error:
        say(str(error))
        sys.exit(STARTED_BADLY)
    click.echo(text)


@tokens.command(
    "create-secret-key",
    epilog="""\b
    Examples:
      magnetar tokens create-secret-key --output secret.key
      magnetar tokens create-secret-key --base64
    """,
)
@click.option("-o", "--output", metavar="FILE", help="Write it there, for token.secret.key=file:///path.")
@click.option("-b", "--base64", "in_base64", is_flag=True, help="In base64, for token.secret.key itself.")
@click.option(
    "-a", "--algorithm", "--signature-algorithm", type=click.Choice(_HMAC), default="HS256", show_default=True,
    help="What tokens will be signed with.",
)  # fmt: skip
def create_secret_key(output: str | None, in_base64: bool, algorithm: str) -> None:
    """Make a key that signs and verifies tokens. Without --output it is printed in base64."""
    from gateway.auth import signing

    key = signing.new_secret(algorithm)
    if in_base64 or output is None:
        key = base64.b64encode(key)
    if output is None:
        click.echo(key.decode())
    else:
        _write(output, key, private=True)


@tokens.command(
    "create-key-pair",
    epilog="""\b
    Example:
      magnetar tokens create-key-pair --output-private-key private.pem --output-public-key public.pem
    """,
)
@click.option("--output-private-key", "private", required=True, metavar="FILE", help="Where what signs goes.")
@click.option(
    "--output-public-key", "public", required=True, metavar="FILE",
    help="Where what verifies goes, for token.public.key=file:///path.",
)  # fmt: skip
@click.option(
    "-a", "--algorithm", "--signature-algorithm", type=click.Choice(_PAIRS), default="RS256", show_default=True,
    help="What tokens will be signed with.",
)  # fmt: skip
def create_key_pair(private: str, public: str, algorithm: str) -> None:
    """Make a pair of keys, in PEM. A gateway that has the public one can verify tokens, and make none."""
    from gateway.auth import signing

    signs, verifies = signing.new_pair(algorithm)
    _write(private, signs, private=True)
    _write(public, verifies, private=False)


@tokens.command(epilog="\b\nExamples:\n  magnetar tokens show TOKEN\n  magnetar tokens show - < token")
@click.argument("token")
def show(token: str) -> None:
    """Print what TOKEN says; - reads it from standard input. Its signature is not looked at: see validate."""
    from gateway.auth import signing, token_keys

    try:
        header, claims = signing.shown(_token(token))
    except token_keys.KeyProblem as error:
        say(str(error))
        sys.exit(STARTED_BADLY)
    click.echo(json.dumps(header))
    click.echo(json.dumps(claims, ensure_ascii=False))


@tokens.command(
    epilog="""\b
    Examples:
      magnetar tokens validate TOKEN --secret-key file:///etc/magnetar/secret.key
      magnetar tokens validate TOKEN --public-key public.pem
    """
)
@click.argument("token")
@click.option(
    "-sk", "--secret-key", metavar="KEY", help="The key that it was signed with: file:///path, or base64."
)
@click.option("-pk", "--public-key", metavar="FILE", help="The public key, in PEM or DER.")
def validate(token: str, secret_key: str | None, public_key: str | None) -> None:
    """Print who the bearer of TOKEN is by this key, as a gateway with it would say. The exit code is 1 for nobody."""
    from gateway.auth import token_keys
    from gateway.auth.errors import RefusedError

    if (secret_key is None) == (public_key is None):
        raise click.UsageError("Say either --secret-key or --public-key.")
    try:
        if secret_key is not None:
            key = token_keys.of_secret(token_keys.read(secret_key))
        else:
            assert public_key is not None
            key = token_keys.of_public(_read(public_key))
        text = _token(token)
        head = token_keys.head_of(text)
        claims = token_keys.claims_of(text, key) if head.algorithm in key.algorithms else None
        if claims is None:
            raise RefusedError("the token was not signed with this key")
        found, late = _borne(claims)
    except token_keys.KeyProblem as error:
        say(str(error))
        sys.exit(STARTED_BADLY)
    except RefusedError as error:
        say(f"{error.reason}.")
        sys.exit(STARTED_BADLY)
    click.echo(found.principal + (f", at home in {found.home}" if found.home else ""))
    if late is not None:
        say(late)


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}


def seconds(text: str) -> int:
    """A time as Pulsar's tool takes it: a number and s, m, h, d, w or y. Raises UsageError."""
    number, unit = text[:-1], text[-1:].lower()
    if unit not in _UNITS or not (number.isascii() and number.isdigit()) or not 0 < int(number[:12]) < 10**9:
        raise click.UsageError(f"{text!r} is no time: write it like 10m, 12h, 30d or 1y.")
    return int(number) * _UNITS[unit]


def _bearer(claims: Mapping[str, object], skew: int = 0) -> Identity:
    """Who a gateway takes the bearer for, whose clock may differ by so many seconds. Raises RefusedError."""
    from gateway.auth.claims import Rules, decide

    return decide(
        claims, Rules("token", "sub", "home", first_of_list=True, skew=skew), time.time_ns() // 1_000_000
    )


def _borne(claims: Mapping[str, object]) -> tuple[Identity, str | None]:
    """The same, and a sentence where that is so only since clocks may differ. Raises RefusedError."""
    from gateway.auth.errors import RefusedError

    try:
        return _bearer(claims), None
    except RefusedError as error:
        skew = load().integer("sasl.oauthbearer.clock.skew.seconds")
        found = _bearer(claims, skew)
        return found, (
            f"{error.reason}; a gateway takes it all the same, by {skew} s before and after, since clocks may differ "
            "(sasl.oauthbearer.clock.skew.seconds)."
        )


def _read(name: str) -> bytes:
    """A key in a file, by its name or as Pulsar has it. Raises KeyProblem."""
    from gateway.auth import token_keys

    return token_keys.read(name if ":" in name else Path(name).absolute().as_uri())


def _token(said: str) -> str:
    return sys.stdin.read().strip() if said == "-" else said.strip()


def _write(name: str, key: bytes, *, private: bool) -> None:
    """A new file; one that is there is somebody's key. Says what is wrong and exits with 1."""
    try:
        number = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644)
        with open(number, "wb") as file:
            file.write(key)
    except FileExistsError:
        say(f"{name} is there already: a key that is replaced makes its tokens worthless.")
        sys.exit(STARTED_BADLY)
    except OSError as error:
        say(f"{name} cannot be written: {error.strerror}.")
        sys.exit(STARTED_BADLY)
