"""Brokers that break one rule each: the oracle must see every one of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

from gateway.broker.subscriptions import policed
from gateway.config import topic_configs
from semantics import backlog_quota, policies
from semantics.subscriptions.administration import Administration
from semantics.subscriptions.states import ACQUIRED


def _takes_what_is_in_hand() -> Any:
    honest = Administration.expire_open

    def expire_open(self: Administration, first: int, end: int, keep: Any = (), **how: Any) -> int:
        held = self._records.window.n[ACQUIRED]
        return self.expire(end) if held else honest(self, first, end, keep, **how)

    return patch.object(Administration, "expire_open", expire_open)


def _forgets_delays() -> Any:
    honest = Administration.expire_open

    def expire_open(self: Administration, first: int, end: int, keep: Any = (), **how: Any) -> int:
        return honest(self, first, end, **how)

    return patch.object(Administration, "expire_open", expire_open)


def _counts_twice() -> Any:
    honest = Administration.expire_open

    def expire_open(self: Administration, first: int, end: int, keep: Any = (), **how: Any) -> int:
        taken = honest(self, first, end, keep, **how)
        self._records.totals["expired"] += taken
        return taken

    return patch.object(Administration, "expire_open", expire_open)


def _evicts_too_much() -> Any:
    return patch.object(backlog_quota, "EVICTED_TO", 0.3)


def _lets_all_in() -> Any:
    honest = backlog_quota.judge
    from gateway.broker import backlog_quota as at_work

    def judge(quota: Any, usage: Any, now: int) -> Any:
        return honest(quota, usage, now)._replace(action=None, room=-1, until=-1)

    return patch.object(at_work, "judge", judge)


def _namespaces_first() -> Any:
    honest = policies.resolve

    def resolve(policy: Any, topic: Any, namespace: Any, broker: Any) -> Any:
        return honest(policy, namespace, topic, broker)

    return patch.object(topic_configs, "resolve", resolve)


def _keeps_for_ever() -> Any:
    honest = topic_configs.effective
    from gateway.broker import broker

    def effective(*given: Any) -> Any:
        return honest(*given)._replace(retention_ms=-1, retention_bytes=-1)

    return patch.object(broker, "effective", effective)


def _delivers_at_once() -> Any:
    honest = policed.within_policies

    def within(*given: Any, **options: Any) -> Any:
        config = honest(*given, **options)
        from dataclasses import replace

        return config._replace(subscription=replace(config.subscription, max_sent_delay_ms=0))

    from gateway.broker.subscriptions import configs

    return patch.object(configs, "within_policies", within)


SABOTAGES: dict[str, Callable[[], Any]] = {
    "takes-what-is-in-hand": _takes_what_is_in_hand,
    "forgets-delays": _forgets_delays,
    "counts-twice": _counts_twice,
    "evicts-too-much": _evicts_too_much,
    "lets-all-in": _lets_all_in,
    "namespaces-first": _namespaces_first,
    "keeps-for-ever": _keeps_for_ever,
    "delivers-at-once": _delivers_at_once,
}


@contextlib.contextmanager
def sabotaged(name: str | None) -> Iterator[None]:
    """Break this rule; None: none."""
    with SABOTAGES[name]() if name else contextlib.nullcontext():
        yield
