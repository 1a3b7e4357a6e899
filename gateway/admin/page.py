"""docs/ADMIN.md: what of pulsar-admin is served. `python -m gateway.admin.page` writes it anew."""

from __future__ import annotations

import argparse
import enum
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from gateway.admin import never_set, routes
from gateway.admin.exchange import LOOKUP, Call, RefusedError
from gateway.admin.pulsar_verbs import AdminVerb, Asked, Remark, table
from gateway.admin.unserved import reason
from gateway.config.page_table import row
from gateway.not_served import Reason

PAGE = Path(__file__).parents[2] / "docs" / "ADMIN.md"


class Status(enum.StrEnum):
    SERVED = "served"
    KEPT = "kept"
    NEVER = "never"
    PARTLY = "partly"
    REFUSED = "refused"


_HEAD = """\
# What of pulsar-admin is served

Made by `python -m gateway.admin.page`; do not edit. Pulsar's own `pulsar-admin` {version} talks to Magnetar unmodified:

    pulsar-admin --admin-url http://127.0.0.1:8080 topics stats persistent://public/default/orders

Where the gateway asks who calls, the tool says it with `--auth-plugin` and `--auth-params`:
[docs/SECURITY.md](SECURITY.md#http-logins-and-roles) has the flags, and which verb takes which role.

This page says one of five things of every verb of every noun:

- *served*: it does what it does with Pulsar;
- *kept*: what it sets is accepted and shown again, and has no effect;
- *never set*: it asks for, or takes away, what cannot be set here: the answer is Pulsar's where nothing was set;
- *in part*: it is served, but for what stands beside it;
- *refused*: the command ends with 1 and prints what it would do, why it does not, and what to use instead (HTTP 501).

`magnetar-admin` has the same verbs, and more ([Magnetar's own](#magnetars-own)).

`make compat-admin` runs every verb but `localrun` with the tool itself, and fails where this page is wrong. A verb in
*italics* is not shown by `--help`.
"""


_OWN = """\
## Magnetar's own

Calls that Pulsar does not have, below `/admin/v2/magnetar`, and the verbs of `magnetar-admin` that make them.

| verb | call | body |
|---|---|---|
| `users list` | `GET users` | |
| `users show ada` | `GET users/ada` | |
| `users create ada --home shop/eu` | `PUT users/ada` | `{"password": "…", "home": "shop/eu"}` |
| `users passwd ada` | `POST users/ada/password` | `{"password": "…"}` |
| `users set-home ada shop/eu` | `POST users/ada/home` | `{"home": "shop/eu"}`; `null` for none |
| `users delete ada` | `DELETE users/ada` | |

Beside a password may stand `iterations`. A user may be made without a password, and without a home.
[SECURITY.md](SECURITY.md#users) says what a user is. No answer tells a password, nor what is kept instead of it.

What holds messages of a subscription up, and what to do about it: [WHY.md](WHY.md) has `subscriptions why` and
`subscriptions act`, and their calls.
Dead letters that are listed, sent again and discarded, and the jobs that do it: [DEAD_LETTERS.md](DEAD_LETTERS.md).
What a reset of a subscription would do: `topics reset-cursor … --dry-run`, `POST …/resetcursor/{ms}?dryRun=true` (or
with a message id in the body). It says how many `messages` would be delivered from there on, how many of these were
settled already and come again (`settledAgain`), how many open ones before it would be settled (`openBefore`), and how
many are in hand (`inHand`), in all and `byPartition`, which has the `end` of each partition, too; of a share group
how many `members` are connected; `explanation` is a sentence. `{"ends": {"0": 120}}` as the body of a reset to a time
settles nothing that came behind these ends, whatever time its client says, and a dry run with it counts none of that.
What a clear of a backlog would settle: `topics clear-backlog … --dry-run`, `POST …/skip_all?dryRun=true`. It says how
many `messages`, in all and `byPartition`, and the `end` of each partition. `{"ends": {"0": 120}, "messages": 120}` as
the body of the call itself settles none from these ends on, and is refused with 409 where more than one in a hundred
more than `messages` would be. `dryRun=true` of `DELETE` of a subscription (`topics unsubscribe … --dry-run`) or a topic
says how many `messages` would go, or refuses what the deletion itself would. With `topicId=…` (`--topic-id` of these
verbs, of `topics delete` and `topics delete-partitioned-topic`), which stats and dry runs tell, each of these is
refused with 409 when the topic has been deleted and made anew by then; with `subscriptionId=…` (`--subscription-id`),
which the dry runs of subscriptions tell, when the subscription has been. That is 0 for a consumer group, whose
subscriptions have none. Empty each is refused with 400. `dryRun=true` of a `PUT` that makes a topic says how many
`partitions` it would have (0: a plain one) and which `policies` would be in force, as `topicPolicies list`.
Transactions that are open, and which readers wait for them: `transactions list`, `GET magnetar/transactions`. `q` is a
part of a transactional id, and `state=any` has all of these, with what became of the last transaction of each.

Which subscriptions are behind, of all topics that the caller may see: `subscriptions list`,
`GET magnetar/subscriptions`. `sort` is `oldest` (who waits longest comes first), `open`, `deadLetters` or `name`;
`namespace`, `topic` and `q` (a part of the topic's name or the subscription's) leave others out; `limit` and `after`,
the `next` of the page before, choose the page. `of` is how many there are that the caller may see, `looked` at how
many of these was looked for the page, `behind` about how many have changed since they were sorted (only for who may
see all), and `atLeast` says that not all were looked at yet, after a start. Each of `subscriptions` has

- `topic`, `subscription`, `namespace`, `type` (`Shared`, `Key_Shared`, `Failover`, `Exclusive`) and `partitions`
- `open`, messages to acknowledge, and in `states` how many of them are `unread`, `available`, `inHand`, `blocked`
  (there may be more where `blockedAtLeast` is), `backoff`, `delayed` and `dying`
- `oldest` and `oldestAgeSeconds`: since when the oldest open message could have been delivered, which is when it was
  published or due, whichever came later. Without one that is due there is no `oldest`, and -1
- `nextDue`, when the next delayed message is due
- `fullPartitions`, in which as many messages are in hand as are allowed
- `deadLetters` that nobody has seen to, and `consumers` that are connected. Where the letters of other subscriptions
  may go to the same topic, too, `deadLettersIn` names it, and `deadLetters` is how many of all are open there

What somebody should look at: `attention`, `GET magnetar/attention`, with the same `namespace`, `topic`, `q`, `limit`
and `after`. `findings` has the most urgent first. Each has the `rule` by which it was found (`nobody` is connected,
it is `full`, consumers are `idle`, messages are `blocked` or `dying`, there are new `deadLetters` or older
`letters`, a `job` over dead letters ended by itself before it had done all, a `transaction` that is open for long
holds readers up), a `sentence`, `where` (`topic`, `subscription`, and `partition` where it is of one; `job`;
`transactionalId`), `since`, a `number`, and how to look at it: `path` by the API, `cli` by `magnetar-admin`. `of` is
how many findings there are, `looked` at how many subscriptions was looked. `rule` leaves those of others out; with
`together=true` three and more of one rule about one topic are one, which has `findings`, how many, in place of a
subscription.

Backlogs by topic: `topics list NAMESPACE --lag`, `GET magnetar/lag?namespace=`, without one of all namespaces.
`limit` (1 to 10,000) and `after` choose the page, `includeSystemTopic=true` has the gateway's own topics, too. Each
of `topics` has `topic`, `partitions` (0: a plain topic), `messages`, `storageSize` and `subscriptions`, with `name`,
`type`, `msgBacklog`, `msgDelayed`, `consumersCount`, `earliestMsgPublishTimeInBacklog` (of the batch with the oldest
message, in ms since 1970; -1 without one), and `oldest` and `oldestAgeSeconds` as above. `next` is null at the end;
a page with fewer than `limit` may have one, behind which to go on: 20,000 topics that the caller may see are looked at
for a page.
`topics subscriptions TOPIC --lag` asks for one topic: `GET persistent/TENANT/NAMESPACE/TOPIC/lag`, of one
`subscription` if the query names it.

### Records, and what became of them

| verb | call |
|---|---|
| `topics records orders` | `GET persistent/public/default/orders/magnetar/records` |
| `topics trace orders 17:3:0:5` | `GET persistent/public/default/orders/magnetar/trace?id=17:3:0:5` |
| `series` | `GET magnetar/series` |
| `audit --since 24h --who ada` | `GET magnetar/audit?since=2026-01-31T12:00:00Z&who=ada` |
| `series orders -s billing` | `GET persistent/public/default/orders/subscription/billing/magnetar/series` |
| `topics watch orders -s billing --key ada` | `POST`, then `GET …/orders/subscription/billing/magnetar/watch?key=ada` |

`records` goes over all partitions by time, the newest first, with `dir=newer` the oldest. `from` is an offset, a time
as in ISO 8601, a message id, `earliest` or `latest`; `partition` takes one. `key` (exactly), `text` (a part of the
value, the key or the value of a header; upper and lower case differ, as in open messages and dead letters) and
`header` (`NAME` or `NAME=VALUE`) search. A page has `limit` records, 512 KB and some `work` ms (200) of
work at most, and says how many records were `looked` at `of` how many there are; while it has a `next`, that is
`after` of the page behind it. Each key, value and header has its bytes in `base64`, 64 KB of them at most (`cut`
where there are more), and `decoded`, which is by `kind` JSON, text or the first bytes in hexadecimal. Numbers beyond
64 bits are text. What Confluent's serializers wrote has a `schemaId`; what follows is decoded where it is JSON or
text. Avro and Protobuf take the schema. The gateway asks no registry, but where a registry keeps its schemas in the
topic `_schemas` of the record's namespace, and who asks may read that, `kind` is `avro` or `protobuf` and `decoded`
is JSON; `notDecoded` says why it is not. A process of its own decodes them: payloads of 64 KB, and a second of a
processor for a page, at most. Records of transactions that were aborted are shown like others.

`trace` follows a message, named by its id or by that of a letter it has become, through the RETRY and dead letter
topics of each share group that reads its topic, by what its letters say of where they come from. It looks for two
seconds at most (`atLeast` where that was not enough), and tells how the message stands with each subscription now.
Who acknowledged it, and when, is not kept.

`series` tells by `span` (`1h` in points of 10 s, `48h` in points of five minutes) messages published and delivered a
second, how many were open, and for how many seconds the oldest of them; `of` takes some of `in`, `out`, `open`,
`oldest`. A long point has the mean of rates and the most of the others, and `null` is what was not measured. It is kept
in memory, of 1,000 subscriptions of share groups at most, those that have consumers first, and of 300 consumer groups
that are behind (`open` and `oldest` only). An age counts from when a message could first be delivered: when it was
published, or was due, whichever came later, here and in all lists. What has a name of Pulsar's counts from when it
was published, as there: `earliestMsgPublishTimeInBacklog`, `oldestBacklogMessageAgeSeconds`, quotas by time. Of the
gateway what is open is the sum over those subscriptions.

`watch` (the POST has `{"key": "ada", "minutes": 10}`) tells what happens to the messages of one key, by its name or
its ordering key, in a share group's subscription and in that of its RETRY topic, from the first call on: delivered to
whom, acknowledged, nacked, rejected, a lock that ran out, when it comes again, a dead letter. It is kept in memory:
20 keys at once, for 60 minutes at most, the last 1,000 events of each, until another key needs the room: the tenant,
or the user of none, that watches most gives way to one that watches fewer. Which messages have the key is found out
afterwards, in a fifth of the time at most; `missed` is how often more happened than that. Members of share groups are
seen, and not what clients do that read a queue topic. A subscription of which no key is watched pays nothing.
"""
"""What pulsar-admin has no verb for. The other calls of Magnetar's own are told by `magnetar-admin --help`."""


def routed(asked: Asked) -> bool:
    """Whether the server has a function for a call."""
    return _function(asked) is not None


def call_of(asked: Asked) -> Call | None:
    """An example of it as the server takes it; None for what is nowhere."""
    path, example = "/" + "/".join(asked.example), asked.example
    if path.startswith(LOOKUP + "/"):
        return Call(asked.method, example[LOOKUP.count("/") :], root=LOOKUP)
    if routes.OLD.fullmatch(path):
        return Call(asked.method, example[1:])
    return Call(asked.method, example) if asked.below else None


def _function(asked: Asked) -> routes.Verb | None:
    call = call_of(asked)
    try:
        return routes.verb_of(call) if call is not None else None
    except RefusedError:
        return None


def status(verb: AdminVerb) -> tuple[Status, str]:
    """What of a verb is served, and the sentence that says why not all of it. Raises ValueError when there is none."""
    known = table()
    open_ways = [way for way in verb.ways if all(map(routed, way))]
    if not open_ways or known.within.of(verb):
        return Status.REFUSED, _refusal(verb, reason(verb))
    partly = _remark(known.partly, verb)
    if len(open_ways) < len(verb.ways) or partly is not None:
        return Status.PARTLY, _why(partly, verb)
    asks = [_function(way[-1]) for way in verb.ways if way]
    if asks and all(each in never_set.VERBS.values() for each in asks):
        return Status.NEVER, ""
    kept = _remark(known.kept, verb)
    return (Status.KEPT, kept.why) if kept is not None else (Status.SERVED, "")


def page() -> str:
    """The page in Markdown."""
    known = table()
    found = {verb: status(verb) for verb in known.verbs}
    lines = [
        _HEAD.format(version=known.version),
        "| noun | verbs | served | kept | never set | in part | refused |",
        "|---|---|---|---|---|---|---|",
    ]
    for noun in known.nouns:
        lines.append(row([f"[{noun}](#{noun.lower()})", *_figures(found, noun)]))
    lines += [row(["**all**", *_figures(found, "")]), ""]
    for noun in known.nouns:
        lines += _chapter(noun, {verb: said for verb, said in found.items() if verb.noun == noun})
    lines += [_OWN]
    return "\n".join(lines)


def _figures(found: dict[AdminVerb, tuple[Status, str]], noun: str) -> list[str]:
    counts = Counter(said for verb, (said, _) in found.items() if noun in ("", verb.noun))
    return [str(counts.total()), *(str(counts[each]) for each in Status)]


def _chapter(noun: str, found: dict[AdminVerb, tuple[Status, str]]) -> list[str]:
    lines = [f"## {noun}", ""]
    if noun in table().hidden:
        lines += ["Of old scripts: `--help` does not show it.", ""]
    for said, title in ((Status.SERVED, "Served"), (Status.NEVER, "Never set")):
        verbs = [verb for verb, (each, _) in found.items() if each is said]
        if verbs:
            lines += [f"{title}: {_names(verbs)}.", ""]
    for said, title in ((Status.KEPT, "kept"), (Status.PARTLY, "in part"), (Status.REFUSED, "refused")):
        reasons = dict.fromkeys(why for each, why in found.values() if each is said)
        if reasons:
            lines += [f"| {title} | why |", "|---|---|"]
            for why in reasons:
                verbs = [verb for verb, each in found.items() if each == (said, why)]
                lines.append(row((_names(verbs), why)))
            lines.append("")
    return lines


def _names(verbs: list[AdminVerb]) -> str:
    return ", ".join(f"*`{verb.name}`*" if verb.hidden else f"`{verb.name}`" for verb in verbs)


def _remark(remarks: tuple[Remark, ...], verb: AdminVerb) -> Remark | None:
    return next((remark for remark in remarks if remark.of(verb)), None)


def _why(remark: Remark | None, verb: AdminVerb) -> str:
    if remark is None:
        raise ValueError(
            f"pulsar_admin.toml does not say why `{verb}` is served in part: add it to a [[partly]]"
        )
    if remark.flag:
        return f"`{remark.flag}` is refused. {_refusal(verb, reason(replace(verb, name=f'{verb.name} {remark.flag}')))}"
    return remark.why


def _refusal(verb: AdminVerb, why: Reason | None) -> str:
    if why is None:
        raise ValueError(f"gateway/not_served.py does not say why `{verb}` is refused: give it a row")
    return f"It would {why.does}. {why.why} {why.instead}".rstrip()


def main() -> int:
    argparse.ArgumentParser(prog="python -m gateway.admin.page", description=__doc__).parse_args()
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
