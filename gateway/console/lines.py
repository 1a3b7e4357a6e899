"""What a topic is called in a line of `magnetar-admin`. Pure."""

from __future__ import annotations

from semantics.names import DEFAULT, Namespace


def topic_word(domain: str, tenant: str, namespace: str, local: str) -> str:
    """A topic as one would type it."""
    if domain == "persistent" and Namespace.of(tenant, namespace) == DEFAULT:
        return local
    return f"{domain}://{tenant}/{namespace}/{local}"
