"""The scripts: each asks one server the same things in the same order. `SCRIPTS` has them by name."""

from __future__ import annotations

from collections.abc import Callable

from compat.compare.scripts import (
    acls,
    cluster,
    committed,
    configs,
    consumer_groups,
    deleting_records,
    fetching,
    group_admin,
    groups,
    idempotence,
    internal_topics,
    metadata,
    odd,
    of_one,
    offsets,
    producing,
    quotas,
    rebalancing,
    sessions,
    share_groups,
    topics,
    transactions,
    users,
)
from compat.compare.server import Server

SCRIPTS: dict[str, Callable[[Server], None]] = {
    module.__name__.rpartition(".")[2]: module.script
    for module in (
        cluster,
        of_one,
        acls,
        quotas,
        internal_topics,
        producing,
        idempotence,
        fetching,
        sessions,
        offsets,
        metadata,
        topics,
        deleting_records,
        configs,
        users,
        consumer_groups,
        share_groups,
        group_admin,
        groups,
        rebalancing,
        committed,
        transactions,
        odd,
    )
}
