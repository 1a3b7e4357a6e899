"""Rows of ACLs as tests write them, and a broker that asks for rights."""

from __future__ import annotations

from gateway.broker.checked_rights import CheckedRights
from gateway.broker.namespaces import NamespaceRow, TenantRow
from semantics.access.acl import Acl, Operation, PatternType, Permission, ResourceType
from semantics.names import DEFAULT, Namespace
from tests.gateway.broker.subscriptions.world import World

EU = Namespace("shop", "eu")
HOST = "10.0.0.1"
ASKING = "authorization=true"
SUPER = "super.users=User:root"


def row(
    name: str = "orders",
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
    *,
    resource: ResourceType = ResourceType.TOPIC,
    pattern: PatternType = PatternType.LITERAL,
    principal: str = "User:ada",
    host: str = "*",
    namespace: Namespace = DEFAULT,
) -> Acl:
    return Acl(resource, pattern, name, principal, host, operation, permission, namespace)


def rights(world: World, principal: str = "User:ada", namespace: Namespace = DEFAULT) -> CheckedRights:
    """Those of a client that comes from HOST."""
    found = world.broker.access.rights_of(principal, "/" + HOST, namespace)
    assert isinstance(found, CheckedRights)
    return found


async def shop(world: World, *roles: str, **fields: object) -> None:
    """Tenant shop, which these roles administrate, with the namespace shop/eu."""
    await world.broker.tenancy.create_tenant("shop", TenantRow(list(roles)))
    await world.broker.tenancy.create(EU, NamespaceRow(**fields))  # type: ignore[arg-type]
