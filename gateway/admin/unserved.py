"""Why a call is refused that pulsar-admin makes and nobody serves: its verb by the table, and what is said of that."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from gateway.admin.pulsar_verbs import AdminVerb, Asked, table
from gateway.not_served import FIRST_API, NOUNS, OWN_NOUNS, Reason, find, said, sentence


def reason(verb: AdminVerb) -> Reason | None:
    """Why a verb is not served; None where nothing particular is known. Old nouns have the verbs of new ones."""
    return find(table().old.get(verb.noun, verb.noun), verb.name)


def verb_of_call(method: str, path: Sequence[str]) -> AdminVerb | None:
    """The verb that makes a call, None for what pulsar-admin has no verb for.

    `path` is below /admin/v2, or whole, with an empty part first. Of several verbs with the same call it is the first
    of the first noun that is not hidden.
    """
    if not path:
        return None
    for segments, verb in _by_beginning().get((method, path[0]), ()):
        if len(segments) == len(path) and all(
            each in ("*", "{bundle}", own) for each, own in zip(segments, path, strict=True)
        ):
            return verb
    return None


def refused(method: str, path: Sequence[str], noun: str) -> str:
    """Why a call below /admin/v2 is refused that names something of Pulsar's."""
    verb = verb_of_call(method, path)
    why = reason(verb) if verb is not None else None
    if verb is not None and why is not None:
        return said(str(verb), why)
    what = f"`{verb}`" if verb is not None else f"this call of {noun}"
    return sentence(noun) or f"Magnetar does not serve {what} yet."


def refused_elsewhere(method: str, path: str) -> str | None:
    """The same of a path that is not below /admin/v2; None for what Pulsar does not have there."""
    parts = ("", *path.strip("/").split("/"))
    verb = verb_of_call(method, parts)
    why = reason(verb) if verb is not None else None
    if verb is not None and why is not None:
        return said(str(verb), why)
    if parts[1] == "proxy-stats":
        return sentence("proxy-stats")
    if parts[1] == "lookup":
        return "Magnetar looks topics up at /lookup/v2/topic only."
    if parts[1] != "admin":
        return None
    if parts[2:3] == ("v3",):
        # functions, packages, sink, source, transactions
        noun = next(
            (each for each in (*NOUNS, *OWN_NOUNS) if parts[3:4] and each in (parts[3], f"{parts[3]}s")), ""
        )
        return sentence(noun) or "Magnetar serves nothing of /admin/v3."
    return said("/".join(parts[:3])[:80], FIRST_API)


@cache
def _by_beginning() -> dict[tuple[str, str], list[tuple[list[str], AdminVerb]]]:
    """By method and first segment: the segments of calls, those that say more first, and the verbs."""
    found: dict[tuple[str, str], list[tuple[list[str], AdminVerb]]] = {}
    # `topics` has the same calls as `topicPolicies` and `persistent`, and is what people type
    verbs = sorted(
        table().verbs, key=lambda verb: (verb.noun in table().hidden, verb.noun == "topicPolicies")
    )
    for verb in verbs:
        for way in verb.ways:
            # what a command asks first, others ask as well
            for asked in way[-1:]:
                for path in _both_domains(asked):
                    segments = path.split("/")
                    found.setdefault((asked.method, segments[0]), []).append((segments, verb))
    for calls in found.values():
        calls.sort(key=lambda call: call[0].count("*"))
    return found


def _both_domains(asked: Asked) -> list[str]:
    first, _, rest = asked.path.partition("/")
    return [asked.path, f"non-persistent/{rest}"] if first == "persistent" else [asked.path]
