"""Pulsar's roles: who may do everything, and who looks after a tenant.

A super-user is one by the gateway's settings. A tenant's admins are named by the tenant: a role there is the name of a
principal, without what kind of principal it is.
"""

from __future__ import annotations

from collections.abc import Collection

KIND = "User:"
"""With which every principal begins."""


def principal_of(role: str) -> str:
    """Who a role is."""
    return KIND + role


def role_of(principal: str) -> str | None:
    """What Pulsar calls a principal: `ada` for `User:ada`; None for one of another kind."""
    return principal[len(KIND) :] if principal.startswith(KIND) and len(principal) > len(KIND) else None


def is_super_user(principal: str, super_users: Collection[str]) -> bool:
    """Whether a principal may do everything."""
    return principal in super_users


def administers(principal: str, super_users: Collection[str], admin_roles: Collection[str]) -> bool:
    """Whether a principal may do everything in a tenant that names these roles."""
    return is_super_user(principal, super_users) or role_of(principal) in admin_roles
