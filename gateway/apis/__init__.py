"""One module per family of Kafka APIs: decoded request to broker to response. No state."""

from __future__ import annotations

import importlib

MODULES = (
    "produce",
    "fetch",
    "share_fetch",
    "share_acknowledge",
    "versions",
    "metadata",
    "list_offsets",
    "topics",
    "records",
    "configs",
    "cluster",
    "replicas",
    "features",
    "quotas",
    "acls",
    "producer_ids",
    "transactions",
    "txn_offsets",
    "telemetry",
    "sasl",
    "scram_credentials",
    "groups",
    "consumer_groups",
    "group_admin",
    "offset_commit",
    "offset_fetch",
    "find_coordinator",
    "share_groups",
    "share_offsets",
)
"""The modules that register handlers; each file's docstring begins with the keys of its APIs."""


def load_all() -> None:
    """Import every module, and with it register every handler in `registry.APIS`."""
    for module in MODULES:
        importlib.import_module(f"gateway.apis.{module}")
