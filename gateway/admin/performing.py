"""Doing a call: what is asked of its caller, what is told of it, and errors as answers.

Over HTTP the server does the same in steps, since a body is not read of who may not call. Pages call verbs by `perform`
and so may nothing that their user may not.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gateway.admin import audit, exchange, group_ids, previews, roles
from gateway.admin.exchange import RefusedError, Reply
from gateway.admin.login import CHALLENGE, NEEDED
from gateway.admin.refusals import from_kafka_error
from gateway.admin.routes import VERBS, key_of
from gateway.broker.errors import KafkaError
from gateway.broker.tenancy import TenancyError
from gateway.peer import NOBODY
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call
    from gateway.admin.routes import Key
    from gateway.broker.broker import Broker

_log = logging.getLogger(__name__)


async def perform(context: Context, call: Call) -> Reply:
    """Do a call whose body is there, and answer as over HTTP: refusals are answers, too."""
    broker = context.broker
    key: Key | None = None
    may = True
    if call.told is None and call.method != "GET":
        call = call._replace(told=exchange.Told())
    try:
        key = key_of(call)
        await roles.check(broker, key, call)
        call = group_ids.inward(broker, call)
        reply = await VERBS[key](context, call)
    except (RefusedError, TenancyError, KafkaError, StoreError) as error:
        reply = refused(broker, error)
        if isinstance(error, RefusedError) and error.status == 403 and call.asker.checked:
            may, reply = False, not_allowed(broker, call, key, error)
    except Exception:
        _log.exception("The admin API failed at %s %s", call.method, "/".join(call.path))
        reply = exchange.refusal(500, "The gateway failed at this request; its log says how.")
    if may and key is not None and not previews.only(call, key, reply):
        changed(broker, call, key, reply)
    return group_ids.outward(broker, reply)


def refused(broker: Broker, error: RefusedError | TenancyError | KafkaError | StoreError) -> Reply:
    """An error as an answer."""
    if isinstance(error, RefusedError | TenancyError):
        return exchange.refusal(error.status, error.reason)
    if isinstance(error, KafkaError):
        status, reason = from_kafka_error(error)
        return exchange.refusal(status, broker.catalog.namespaces.for_people(reason))
    return exchange.refusal(503, f"The store could not be read: {error}")


def not_allowed(broker: Broker, call: Call, key: Key | None, error: RefusedError) -> Reply:
    """Who may not: nobody may say who it is."""
    asker = call.asker
    place = audit.place_of(call, key) if key is not None else ""
    broker.audit.refused(call.method, asker.principal, asker.host, "http", place)
    if asker.identity is NOBODY:
        return exchange.refusal(401, NEEDED)._replace(headers=CHALLENGE)
    return exchange.refusal(403, error.reason)


def changed(broker: Broker, call: Call, key: Key, reply: Reply) -> None:
    """Tell what was changed, or was refused; where the gateway failed nobody knows, and it may be a change. What was
    told in commits of its own is told in memory, and in the log, with the time of the first of these; one that failed
    has a record of that besides.
    """
    asker = call.asker
    done = reply.status < 300
    outcome = "done" if done else f"HTTP {reply.status}"
    place = audit.place_of(call, key)
    at = call.told.at if call.told is not None and done else 0
    about = call.method, asker.principal, asker.host, "http"
    if audit.is_refusal(outcome):
        entry = broker.audit.refused(*about, place, outcome)
    else:
        entry = broker.audit.change(*about, outcome, place, at, audit.did(call, reply))
    if entry is not None and not at:
        broker.audit_log.append(audit.act_of(call, entry, audit.counts_of(reply)))
