"""Properties that somebody keeps with a topic or a namespace: texts by name, as they come in a body."""

from __future__ import annotations

from gateway.admin.exchange import RefusedError


def read(value: object) -> dict[str, str]:
    """Those of a body; None is none. Refuses with 400 what is no object of texts, with 412 one without a name."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise RefusedError(400, 'Properties are an object with texts, such as {"team": "billing"}.')
    if "" in value:
        raise RefusedError(412, "A property has a name: write it as KEY=VALUE.")
    return value
