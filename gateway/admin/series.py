"""The verbs of series: how messages came and went, what was open and how old, over the last hour or two days."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.admin.exchange import Call, RefusedError, Reply, iso, json
from gateway.admin.group_series import MOST as OF_GROUPS
from gateway.admin.places import named_subscription
from gateway.broker.sampling import MOST
from semantics.console.series import FIELDS, SPANS

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from semantics.console.series import Series

_NAMES = {"oldest": "oldestSeconds"}
"""What is called otherwise in an answer."""


async def of_subscription(context: Context, call: Call) -> Reply:
    """Of a subscription: `span` is 1h or 48h, `of` some of in, out, open, oldest. Of a consumer group only the last two
    are measured. (Magnetar's own.)
    """
    broker = context.broker
    at = await named_subscription(broker, call)
    row = broker.subscriptions.row(at.name, at.found.topic.name) if at.shared else None
    if row is None:
        followed = context.sums.series.of(at.found.topic.name, at.name)
        if followed is None:
            raise RefusedError(
                404,
                f"No series is kept of the consumer group {at.name} yet: it is kept of {OF_GROUPS} that are behind, "
                "from some seconds on.",
            )
        return _answer(context, call, followed)
    found = broker.sampling.of(row.id)
    if found is None:
        full = len(broker.sampling) >= MOST
        raise RefusedError(
            404,
            f"No series is kept of {at.name}: it is kept of {MOST} subscriptions, those that have consumers first."
            if full
            else f"Nothing of {at.name} was measured yet: what nobody uses is looked for every five minutes.",
        )
    return _answer(context, call, found)


async def of_gateway(context: Context, call: Call) -> Reply:
    """Of all: messages published, messages that subscriptions delivered, what these have open. (Magnetar's own.)"""
    return _answer(context, call, context.broker.sampling.of_all, subscriptions=len(context.broker.sampling))


def _answer(context: Context, call: Call, of: Series, **more: int) -> Reply:
    span = call.query.get("span", "1h")
    if span not in SPANS:
        raise RefusedError(400, f"The span is {' or '.join(SPANS)}, not {span[:40]!r}.")
    fields = call.query.get("of", "").split(",") if call.query.get("of") else list(FIELDS)
    for each in fields:
        if each not in FIELDS:
            raise RefusedError(400, f"There are series of {', '.join(FIELDS)}; not of {each[:40]!r}.")
    points, first_ms = context.broker.sampling.points(of, span, fields)
    answer: dict[str, Any] = {
        "span": span,
        "stepSeconds": points.step_ms // 1000,
        "first": iso(first_ms),
        **more,
    }
    answer.update({_NAMES.get(name, name): values for name, values in points.values.items()})
    return json(answer)
