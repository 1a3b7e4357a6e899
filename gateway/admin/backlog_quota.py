"""Verbs of backlog quotas: of a namespace or a topic, each of two types, which the query names.

A quota is a form like others (`policies.py`); Pulsar has one path for setting and removing either, and another one for
getting both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.admin.exchange import RefusedError
from semantics.policy_form import Form
from semantics.policy_forms import QUOTA_SIZE, QUOTAS

if TYPE_CHECKING:
    from gateway.admin.exchange import Call


def asked(call: Call) -> Form:
    """The quota that a call is about. Refuses with 412 a type that does not exist."""
    return _of_type(call.query.get("backlogQuotaType") or QUOTA_SIZE.type)


def all_of(said: object) -> list[tuple[Form, object]]:
    """The quotas that Policies of a namespace say, with their bodies. Refuses with 412 what says none."""
    if said is None:
        return []
    if not isinstance(said, dict):
        raise RefusedError(412, f"{QUOTA_SIZE.key} is an object of quotas by their types.")
    return [(_of_type(str(name)), body) for name, body in said.items() if body is not None]


def _of_type(named: str) -> Form:
    form = next((each for each in QUOTAS if each.type == named), None)
    if form is None:
        raise RefusedError(
            412, f"backlogQuotaType is {' or '.join(each.type for each in QUOTAS)}, not {named[:40]!r}."
        )
    return form


def body_of(form: Form, body: object) -> object:
    """What a client sends, without what says nothing of this quota; Pulsar's older clients call bytes `limit`."""
    if not isinstance(body, dict):
        return body
    values = {key: body[key] for key in (each.json for each in form.fields) if body.get(key) is not None}
    if form is QUOTA_SIZE and "limitSize" not in values and body.get("limit") is not None:
        values["limitSize"] = body["limit"]
    return values


def shown(form: Form, values: dict[str, Any]) -> dict[str, Any]:
    """A quota as Pulsar's clients read it."""
    size = values.get("limitSize", -1)
    return {
        "limit": size,
        "limitSize": size,
        "limitTime": values.get("limitTime", -1),
        "policy": values["policy"],
    }
