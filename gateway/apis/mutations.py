"""What a request that makes or deletes partitions may do of that: controller_mutation_rate (KIP-599)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error

if TYPE_CHECKING:
    from gateway.apis.registry import Context

NEVER = 1 << 15
"""No version: of an API that makes topics beside what it answers."""


def mutate(context: Context, strict_from: int, partitions: int) -> None:
    """So many partitions are about to be made or deleted. Clients that speak version `strict_from` or later understand
    to be refused. The requests of others are taken as a whole, and they are told to wait; who comes while it owes
    something, by another connection, is refused as well. Raises KafkaError THROTTLING_QUOTA_EXCEEDED, or
    REQUEST_TIMED_OUT for those who do not know that.
    """
    quotas = context.peer.quotas
    if quotas is None or quotas.mutations is None or partitions <= 0:
        return
    strict = context.api_version >= strict_from
    if (strict or not context.mutated) and not quotas.may_mutate():
        context.mutated = True
        raise KafkaError(
            Error.THROTTLING_QUOTA_EXCEEDED if strict else Error.REQUEST_TIMED_OUT,
            "controller_mutation_rate is used up: try again after throttle_time_ms.",
        )
    quotas.mutate(partitions)
    # as in Kafka: who understands a refusal is told to wait with it, and not before
    context.mutated = context.mutated or not strict
