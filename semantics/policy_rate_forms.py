"""Forms of rates: how fast may be published, and how fast consumers are given what there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semantics.policies import DISPATCH_RATE, PUBLISH_RATE, SUBSCRIPTION_DISPATCH_RATE, OfRate
from semantics.policy_form import Field, Form, Reads

_NO_LIMIT = -1


def _how_fast(values: Mapping[str, Any]) -> str:
    limits = [
        f"{value} {'messages' if key.endswith('Msg') else 'bytes'}"
        for key, value in values.items()
        if key.endswith(("Msg", "Byte")) and value > 0
    ]
    if not limits:
        return "There is no limit."
    period = values.get("ratePeriodInSecond", 1)
    besides = ", besides what is published" if values.get("relativeToPublishRate") else ""
    return f"It is up to {' and '.join(limits)} in {period} s{besides}."


def _dispatch_form(verb: str, segment: str, key: str, rate: OfRate, whom: str, more: str) -> Form:
    assert rate.seconds is not None
    assert rate.relative is not None
    return Form(
        verb,
        segment,
        key,
        (
            Field(
                rate.messages, "dispatchThrottlingRateInMsg", ("-md", "--msg-dispatch-rate"),
                "Messages in that time; -1 is no limit, also where it is not said.",
                none="0 (no limit)", optional=True, unsaid=_NO_LIMIT,
            ),
            Field(
                rate.bytes, "dispatchThrottlingRateInByte", ("-bd", "--byte-dispatch-rate"),
                "Bytes in that time; -1 is no limit, also where it is not said.",
                none="0 (no limit)", optional=True, unsaid=_NO_LIMIT,
            ),
            Field(
                rate.seconds, "ratePeriodInSecond", ("-dt", "--dispatch-rate-period"),
                "The time, in seconds; 1 where it is not said.", optional=True, unsaid=1,
            ),
            Field(
                rate.relative, "relativeToPublishRate",
                ("-rp/-nrp", "--relative-to-publish-rate/--not-relative-to-publish-rate"),
                "As much as is published may go besides.", reads=Reads.FLAG, optional=True, unsaid=False,
            ),
        ),
        f"Limit how fast {whom} may get messages.",
        f"How fast {whom} may get messages",
        "--msg-dispatch-rate 1000 --dispatch-rate-period 1",
        f"It is counted for each partition. {more}",
        sentence=_how_fast,
        by_cluster=True,
    )  # fmt: skip


PUBLISH = Form(
    "publish-rate",
    "publishRate",
    "publishMaxMessageRate",
    (
        Field(
            PUBLISH_RATE.messages, "publishThrottlingRateInMsg", ("-m", "--msg-publish-rate"),
            "Messages in a second; -1 is no limit, also where it is not said.",
            none="0 (no limit)", optional=True, unsaid=_NO_LIMIT,
        ),
        Field(
            PUBLISH_RATE.bytes, "publishThrottlingRateInByte", ("-b", "--byte-publish-rate"),
            "Bytes in a second; -1 is no limit, also where it is not said.",
            none="0 (no limit)", optional=True, unsaid=_NO_LIMIT,
        ),
    ),
    "Limit how fast may be published to {each}.",
    "How fast may be published to {each}",
    "--msg-publish-rate 1000 --byte-publish-rate 1000000",
    "It is counted for each partition. Who publishes faster is told how long to wait, and is not read meanwhile.",
    sentence=_how_fast,
    by_cluster=True,
)  # fmt: skip

DISPATCH = _dispatch_form(
    "dispatch-rate", "dispatchRate", "topicDispatchRate", DISPATCH_RATE,
    "all consumers of {each} together", "Plain consumer groups count, too.",
)  # fmt: skip

SUBSCRIPTION_RATE = _dispatch_form(
    "subscription-dispatch-rate",
    "subscriptionDispatchRate",
    "subscriptionDispatchRate",
    SUBSCRIPTION_DISPATCH_RATE,
    "each Shared or Key_Shared subscription of {each}",
    "Lanes of queue topics count as their subscription.",
)
