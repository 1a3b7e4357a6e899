"""Dead letters are sent again, or discarded: previews, the jobs that do it, and stopping them."""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gateway.admin import audit
from gateway.admin.dead_letters import At, filter_of, graves_at
from gateway.admin.exchange import RefusedError, iso, json, previewed
from gateway.admin.places import number_of
from gateway.admin.planned import planned
from gateway.admin.slices import Pace
from gateway.admin.subscribing import names_of
from gateway.admin.topics import Found
from gateway.broker.loading import until_loaded
from gateway.broker.redrive import preview
from gateway.broker.redrive.job_rows import RUNNING
from gateway.broker.redrive.jobs import Full
from gateway.broker.redrive.letter import TAKEN_AWAY
from gateway.broker.redrive.settling import target_of
from semantics.access.acl import Operation
from semantics.console.letter_filter import FilterError, read_id
from semantics.console.plans import HOLDS_MS
from semantics.console.replay import MOST_REPLAYS, Edit, Wanted
from semantics.names import NamingError, canonical, dotted, parse

if TYPE_CHECKING:
    from gateway.admin.asker import Asker
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call, Reply
    from gateway.admin.planned import Planned
    from gateway.broker.broker import Broker
    from gateway.broker.redrive.job_rows import JobRow
    from semantics.console.replay import Tally

RATE = 100
MOST_RATE = 100_000
MOST_EDITS = 1000
MOST_WAIT_S = 30

_FIELDS = frozenset(("filter", "to", "rate", "edits", "dryRun", "plan", "maxReplays", "wait"))


async def replay(context: Context, call: Call) -> Reply:
    """Send dead letters again: those that are open and that the `filter` means (reason, key, text, header, since,
    until, ids). `to` is subscription (the RETRY topic of the subscription that failed, RECONSUMETIMES begun anew),
    topic (all its subscriptions get them) or the name of another topic; `rate` how many a second; `edits` other values
    (base64) and headers, by the id of a letter. Letters that were replayed `maxReplays` times are left out. With
    `dryRun` it says what would happen, and a `plan` that holds for five minutes: with it those are sent that were
    shown, and 409 is the answer where more than 1 % of them have changed. The answer is the job; `wait`: for how many
    seconds it may be waited for. (Magnetar's own.)
    """
    return await _do(context, call, "replay")


async def discard(context: Context, call: Call) -> Reply:
    """Settle dead letters that nobody wants, by the same filter, dry run and plan as a replay. They stay in their topic
    until retention takes them. (Magnetar's own.)
    """
    return await _do(context, call, "discard")


async def _do(context: Context, call: Call, what: str) -> Reply:
    broker = context.broker
    at = await graves_at(broker, call)
    body = call.json()
    said: dict[str, Any] = body if isinstance(body, dict) else {}
    unknown = sorted(each for each in said if each not in _FIELDS)
    if unknown or not isinstance(body, dict | None):
        raise RefusedError(400, f"The body is an object with {', '.join(sorted(_FIELDS))}.")
    # all that makes no sense is refused before a plan is used up, or a job begun
    rate = _number(said, "rate", 1, MOST_RATE, RATE)
    wait = _number(said, "wait", 0, MOST_WAIT_S, 0)
    now = broker.clock.wall_ms()
    dry, plan_id = said.get("dryRun", False), said.get("plan", "")
    if not isinstance(dry, bool) or not isinstance(plan_id, str) or ("plan" in said and not plan_id):
        raise RefusedError(400, "dryRun is true or false, and plan is the id that a dry run has given.")
    if plan_id:
        _check_beside_plan(said)
    with planned(context.looks, broker, call, plan_id, (call.path, at.ids)) as its:
        if its.plan is not None:
            wanted: Wanted = its.plan.request
            if "rate" in said:
                wanted = replace(wanted, rate=rate)
        elif "filter" in said or dry:
            wanted = _wanted(said, what, rate)
        else:
            raise RefusedError(
                400,
                "Say which letters: by the plan of a dry run, or by a filter. {} as the filter is all of them.",
            )
        if what == "replay":
            _check_target(broker, call, at, wanted)
        found = await broker.redrive.tally(at.graves, wanted)
        if dry:
            answer = await _previewed(broker, call, at, wanted, found)
            plan_id = context.looks.keep(broker, call, (call.path, at.ids), found.chosen, wanted)
            return previewed({**answer, "plan": plan_id, "until": iso(now + HOLDS_MS)})
        row = await _begin(broker, call, at, wanted, found, its)
    await broker.redrive.wait(row.id, wait)
    return json(_job(broker.redrive.row(row.id) or row))


async def _begin(broker: Broker, call: Call, at: At, wanted: Wanted, found: Tally, its: Planned) -> JobRow:
    """The job that does it. Refuses with 409 where it is not what was shown, with 503 while too many run."""
    chosen = await its.follow(Pace(), found.chosen) if its.plan is not None else None
    if wanted.what == "replay" and wanted.to == "subscription" and found.letters:
        await _make_retries(broker, at)
    act = "edit" if found.edited else wanted.what

    def tell(row: JobRow) -> None:
        facts: dict[str, int | str] = {"job": row.id, "letters": row.planned}
        if row.to:
            facts["to"] = dotted(row.to)
        its.begins()
        audit.tell(broker, call, act, facts, its.plan_id)

    try:
        return await broker.redrive.start(
            at.graves, wanted, call.asker.principal, found.letters, tell, chosen
        )
    except Full as error:
        raise RefusedError(503, str(error)) from None


async def _previewed(broker: Broker, call: Call, at: At, wanted: Wanted, found: Tally) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "letters": found.letters,
        "leftOut": found.left_out,
        "keys": len(found.keys),
        "withoutKey": found.unkeyed,
        "looked": found.looked,
        "from": dotted(at.graves.letters),
    }
    if found.at_least:
        answer["atLeast"] = True
    if wanted.what == "discard":
        return answer
    name = target_of(at.graves, wanted)
    newer = await preview.newer(broker, at.graves, found)
    answer |= {
        "edited": found.edited,
        "to": dotted(name),
        "maxReplays": wanted.max_replays,
        "otherSubscriptions": await _others(broker, call, at, wanted, name),
        "keysWithNewer": newer.keys,
        "keysBehindBlocked": await preview.behind_blocked(
            broker, broker.subscriptions, at.graves, name, found
        ),
    }
    if newer.at_least:
        answer["keysWithNewerAtLeast"] = True
    if found.broken:
        answer["brokenJson"] = {f"{index}:{offset}": where for (index, offset), where in found.broken.items()}
    if wanted.to == "subscription":
        answer["members"] = await _members(broker, at, name)
    return answer


async def _others(broker: Broker, call: Call, at: At, wanted: Wanted, name: str) -> list[str] | None:
    """Who else would get them, consumer groups among them; None where the subscriptions there are not for the asker to
    see, who may only produce.
    """
    if call.asker.checked and not call.asker.topic(
        Operation.READ, name, broker.catalog.namespaces.full(name).namespace
    ):
        return None
    topic = broker.catalog.get(name)
    if topic is None:
        return []
    found = Found(broker.catalog.full_of(topic), topic, -1 if topic.partitioned else 0)
    own = at.name if wanted.to in ("subscription", "topic") else None
    return sorted(each for each in await names_of(broker, found) if each != own)


async def _members(broker: Broker, at: At, name: str) -> int:
    """How many members read the RETRY topic now: of the share group, or of the lanes that serve it."""
    group = at.graves.group
    members = await until_loaded(lambda: broker.share_groups.members_on(group, name))
    row = broker.subscriptions.row(group, at.graves.base.name)
    if not members and row is not None and row.queue:
        # lanes serve the retries, too
        members = broker.lane_members.members(group)
    return members


async def _make_retries(broker: Broker, at: At) -> None:
    """The RETRY topic and the subscription on it, as a member's first heartbeat makes them."""
    graves = at.graves
    await broker.subscriptions.make_retries(graves.group, graves.base.name, graves.retries)
    topic = broker.topics.get(graves.retries)
    await broker.subscriptions.ensure(graves.group, graves.retries, [0] * len(topic.partitions))


def _check_target(broker: Broker, call: Call, at: At, wanted: Wanted) -> None:
    """Who may write there, what can be written to, and whether that was shown. Refuses with 403, 404, 409, 412."""
    graves = at.graves
    if wanted.to not in ("subscription", "topic"):
        wanted.to = _called(broker, wanted.to)
        # before anybody is told whether it is there
        _check_write(broker, call, wanted.to)
        if not preview.is_name(broker, wanted.to):
            raise RefusedError(404, f"There is no topic {wanted.to[:200]!r} that letters could be sent to.")
        if wanted.to == graves.letters:
            raise RefusedError(
                412, f"{dotted(wanted.to)} is where the dead letters are: they would only be copied."
            )
    if wanted.to == "subscription":
        if graves.no_retries is not None:
            # of a group with slashes in its id
            raise RefusedError(412, f"{graves.no_retries}: say with pulsar.retry.letter.topic where they go.")
    else:
        _check_write(broker, call, target_of(graves, wanted))
    _check_same(broker, wanted, target_of(graves, wanted))


def _check_same(broker: Broker, wanted: Wanted, name: str) -> None:
    """Whether they would go where a plan has shown, which is kept with what was wanted. Refuses with 409."""
    topic = broker.catalog.get(name) if wanted.to != "subscription" else None
    target_id = topic.topic_id if topic is not None else None
    if not wanted.target:
        wanted.target, wanted.target_id = name, target_id
    elif wanted.target != name:
        raise RefusedError(
            409,
            f"They would go to {dotted(name)} now, and {dotted(wanted.target)} was shown. Look again (dryRun).",
        )
    elif wanted.target_id != target_id:
        raise RefusedError(
            409,
            f"{dotted(name)} is another topic than the one that was shown: it was made anew since."
            " Look again (dryRun).",
        )


def _called(broker: Broker, said: str) -> str:
    """What the catalog calls a topic that a person names, in full or as Kafka's clients do."""
    if "/" not in said:
        return broker.catalog.said(said)
    try:
        name = canonical(parse(said))
    except NamingError as error:
        raise RefusedError(
            404, f"There is no topic {said[:200]!r} that letters could be sent to: {error}"
        ) from None
    if name in ("subscription", "topic"):
        raise RefusedError(
            412, f"Letters cannot be sent to a topic called {name!r}: the word says something else here."
        )
    return name


def _check_write(broker: Broker, call: Call, name: str) -> None:
    """Whether one may produce to a topic, be it there or not. Refuses with 403."""
    if not call.asker.checked:
        return
    if not call.asker.topic(Operation.WRITE, name, broker.catalog.namespaces.full(name).namespace):
        raise RefusedError(
            403,
            f"{call.asker.principal[:200]} may not do this: it takes the right to produce to {dotted(name)}.",
        )


def _check_beside_plan(said: dict[str, Any]) -> None:
    """Refuse with 400 what a plan says already."""
    others = sorted(each for each in said if each in ("filter", "to", "edits", "maxReplays"))
    if others:
        raise RefusedError(
            400, f"The plan says already what {others[0]} is: leave it out, or make another plan."
        )


def _wanted(said: dict[str, Any], what: str, rate: int) -> Wanted:
    """What the body asks for. Refuses what makes no sense with 400."""
    to = said.get("to", "subscription")
    if not isinstance(to, str) or not to:
        raise RefusedError(400, "to is subscription, topic or the name of a topic.")
    return Wanted(
        what,
        filter_of(said.get("filter", {})),
        to,
        rate,
        _number(said, "maxReplays", 1, 1_000_000, MOST_REPLAYS),
        _edits(said.get("edits")),
        TAKEN_AWAY,
    )


def _number(said: dict[str, Any], name: str, least: int, most: int, default: int) -> int:
    found = said.get(name, default)
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
        raise RefusedError(400, f"{name} is a number from {least} to {most:,}.")
    return found


def _edits(value: object) -> dict[tuple[int, int], Edit]:
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > MOST_EDITS:
        raise RefusedError(400, f"edits is an object by the id of a letter, {MOST_EDITS:,} at most.")
    found = {}
    for each, edit in value.items():
        try:
            number = read_id(each)
        except FilterError as error:
            raise RefusedError(400, str(error)) from None
        headers = edit.get("headers", {}) if isinstance(edit, dict) else None
        if not isinstance(headers, dict) or not all(isinstance(one, str | None) for one in headers.values()):
            raise RefusedError(
                400, 'An edit is {"value": BASE64, "headers": {NAME: TEXT}}; null takes a header away.'
            )
        if not edit.keys() <= {"value", "headers"} or not edit:
            raise RefusedError(400, "An edit has a value, headers, or both.")
        data = edit.get("value")
        try:
            decoded = base64.b64decode(data, validate=True) if data is not None else None
        except (TypeError, ValueError, binascii.Error):
            raise RefusedError(400, f"The value of the edit of {each[:40]} is not base64.") from None
        found[number] = Edit(
            "value" in edit,
            decoded,
            tuple((name, one.encode() if one is not None else None) for name, one in headers.items()),
        )
    return found


# -- jobs


async def jobs(context: Context, call: Call) -> Reply:
    """Jobs over dead letters, the newest first: what they do, how far they are, how they ended. (Magnetar's own.)"""
    limit = call.whole_number("limit", 1, 1000, 50)
    after = call.whole_number("after", 1, 2**63 - 1, 2**63 - 1)
    pace = Pace()
    rows: list[JobRow] = []
    for row in context.broker.redrive.rows():
        if row.id < after and _sees(call, row):
            rows.append(row)
            if len(rows) > limit:
                # there is a next page
                break
        await pace.rest()
    answer: dict[str, Any] = {"jobs": [_job(row) for row in rows[:limit]]}
    if len(rows) > limit:
        answer["next"] = str(rows[limit - 1].id)
    return json(answer)


async def job(context: Context, call: Call) -> Reply:
    """One job. (Magnetar's own.)"""
    return json(_job(_row(context, call)))


async def stop(context: Context, call: Call) -> Reply:
    """Stop a job that runs. What it has sent stays sent, the other letters stay open. (Magnetar's own.)"""
    broker, row = context.broker, _row(context, call)
    if not may_stop(call.asker, row.by, broker.catalog.namespaces.full(row.topic).namespace.tenant):
        raise RefusedError(
            403,
            f"{call.asker.principal[:200]} may not do this: it takes who has begun the job, or an admin of the tenant.",
        )
    if row.state != RUNNING:
        raise RefusedError(409, f"Job {row.id} does not run: it is {row.state}.")
    act = audit.record(broker, call, call.method, {"job": row.id})
    job = broker.redrive.stop(row.id, f"stopped by {call.asker.principal}", act)
    if job is None:
        raise RefusedError(409, f"Job {row.id} does not run any more.")
    # its end is stored with that record, or neither is
    await broker.redrive.stopped(job, 5)
    return json(_job(broker.redrive.row(row.id) or row))


def may_stop(asker: Asker, by: str, tenant: str) -> bool:
    """Whether somebody may stop a job that `by` has begun."""
    return not asker.checked or asker.principal == by or asker.administers(tenant)


def _row(context: Context, call: Call) -> JobRow:
    number = number_of(call.path[2], "which job")
    row = context.broker.redrive.row(number)
    if row is None or not _sees(call, row):
        raise RefusedError(404, f"There is no job {number} (any more).")
    return row


def _sees(call: Call, row: JobRow) -> bool:
    return call.asker.sees(row.topic)


def _job(row: JobRow) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": row.id,
        "what": row.what,
        "state": row.state,
        "topic": dotted(row.topic),
        "subscription": row.subscription,
        "from": dotted(row.letters),
        "rate": row.rate,
        "by": row.by,
        "began": iso(row.began),
        "planned": row.planned,
        "done": row.done,
        "edited": row.edited,
        "leftOut": row.left_out,
        "diedAgain": row.died_again,
    }
    if row.to:
        found["to"] = dotted(row.to)
    if row.ended:
        found["ended"] = iso(row.ended)
    if row.why:
        found["why"] = row.why
    return found
