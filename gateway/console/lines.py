"""What a page shows as a line of `magnetar-admin`. Pure."""

from __future__ import annotations

import shlex

from semantics.names import DEFAULT, Namespace


def line(*words: str) -> str:
    """A command line, each word as a shell takes it."""
    return shlex.join(["magnetar-admin", *words])


def topic_word(domain: str, tenant: str, namespace: str, local: str) -> str:
    """A topic as one would type it."""
    if domain == "persistent" and Namespace.of(tenant, namespace) == DEFAULT:
        return local
    return f"{domain}://{tenant}/{namespace}/{local}"
