"""Verbs of users, Magnetar's own: listed, made, changed, deleted. Named in `routes.py`.

| call below magnetar/ | body |
|---|---|
| GET users, GET users/{name} | |
| PUT users/{name} | `{"password": …, "home": "tenant/namespace", "iterations": 4096}`, each may be left out |
| POST users/{name}/password | `{"password": …, "iterations": 4096}` |
| POST users/{name}/home | `{"home": "tenant/namespace"}`, or null for none |
| DELETE users/{name} | |

No answer tells a password, nor anything that is made of one.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.admin.exchange import DONE, RefusedError, Reply, json
from gateway.admin.slices import turn
from gateway.admin.tenancy import PAGE
from gateway.auth.credentials import LEAST_ITERATIONS, UserError, UserRow, check_name, principal_of
from gateway.auth.errors import BusyError
from gateway.broker.users import NoUserError, UserThereError, row_of
from semantics.names import Namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.admin.context import Context
    from gateway.admin.exchange import Call
    from gateway.auth.credentials import Verifier
    from gateway.broker.broker import Broker


async def users(context: Context, call: Call) -> Reply:
    """All users, by name."""
    kept, found = context.broker.users, []
    for count, name in enumerate(kept.names()):
        if count % PAGE == PAGE - 1:
            await turn()
        row = kept.get(name)
        if row is not None:
            found.append(_shown(name, row))
    return json(found)


async def user(context: Context, call: Call) -> Reply:
    """One user."""
    name = call.path[2]
    row = context.broker.users.get(name)
    if row is None:
        raise RefusedError(404, str(NoUserError(name)))
    return json(_shown(name, row))


async def create(context: Context, call: Call) -> Reply:
    """Without a password nobody can log in as this user yet. Refuses one that is there with 409."""
    said, users = _said(call, "password", "home", "iterations"), context.broker.users
    with _refusing():
        name = check_name(call.path[2])
        row = row_of({}, _home(context.broker, said))
        if "password" in said:
            row = msgspec.structs.replace(row, verifiers=await _verifiers(context.broker, said))
        await users.create(name, row)
    return DONE


async def set_password(context: Context, call: Call) -> Reply:
    """Another password, for all mechanisms. Who is logged in as this user is cut off."""
    said = _said(call, "password", "iterations")
    with _refusing():
        found = await _verifiers(context.broker, said)
        await context.broker.users.alter(
            call.path[2], lambda row: msgspec.structs.replace(row, verifiers=found)
        )
    return DONE


async def set_home(context: Context, call: Call) -> Reply:
    """Another home, or none. Who is logged in as this user is cut off."""
    said = _said(call, "home")
    if "home" not in said:
        raise RefusedError(400, 'The body says {"home": "tenant/namespace"}, or null for none.')
    with _refusing():
        home = _home(context.broker, said)
        await context.broker.users.alter(call.path[2], lambda row: msgspec.structs.replace(row, home=home))
    return DONE


async def delete(context: Context, call: Call) -> Reply:
    """Who is logged in as this user is cut off."""
    with _refusing():
        await context.broker.users.delete(call.path[2])
    return DONE


def _shown(name: str, row: UserRow) -> dict[str, Any]:
    return {
        "name": name,
        "principal": principal_of(name),
        "home": row.home,
        # how many iterations by mechanism
        "credentials": {each.mechanism: each.iterations for each in sorted(row.verifiers.values())},
    }


def _said(call: Call, *known: str) -> dict[str, Any]:
    """The body, an object with nothing but these. Refuses other with 400."""
    body = call.json()
    if body is None:
        return {}
    if not isinstance(body, dict) or not body.keys() <= set(known):
        raise RefusedError(400, f"The body is an object with nothing but {', '.join(known)}.")
    return body


async def _verifiers(broker: Broker, said: dict[str, Any]) -> dict[str, Verifier]:
    password, iterations = said.get("password"), said.get("iterations", LEAST_ITERATIONS)
    if not isinstance(password, str):
        raise RefusedError(400, "The body says a password, in quotes.")
    if not isinstance(iterations, int) or isinstance(iterations, bool):
        raise RefusedError(400, "iterations is a number.")
    return await broker.users.hashed(password, iterations)


def _home(broker: Broker, said: dict[str, Any]) -> str | None:
    home = said.get("home")
    if home is None:
        return None
    if not isinstance(home, str):
        raise RefusedError(400, "home is tenant/namespace, in quotes, or null.")
    found = row_of({}, home).home
    if not broker.catalog.namespaces.exists(Namespace.parse(home)):
        raise RefusedError(412, f"There is no namespace {home}: `namespaces create {home}` makes one.")
    return found


@contextmanager
def _refusing() -> Iterator[None]:
    """What users refuse, as HTTP does."""
    try:
        yield
    except NoUserError as error:
        raise RefusedError(404, str(error)) from None
    except UserThereError as error:
        raise RefusedError(409, str(error)) from None
    except UserError as error:
        raise RefusedError(412, str(error)) from None
    except BusyError as error:
        raise RefusedError(503, f"Not now: {error}.") from None
