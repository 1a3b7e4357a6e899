"""A row of ACLs is its key."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from gateway.broker import acl_rows
from semantics.access.acl import Acl, Operation, PatternType, Permission, ResourceType
from semantics.names import Namespace
from store import memory
from store.api import Durability, Store
from tests.gateway.broker.rights import EU, row

texts = st.text(st.characters(codec="utf-8"), max_size=20)
rows = st.builds(
    Acl,
    resource=st.sampled_from(ResourceType),
    pattern=st.sampled_from(PatternType),
    name=texts,
    principal=texts,
    host=texts,
    operation=st.sampled_from(Operation),
    permission=st.sampled_from(Permission),
    namespace=st.builds(Namespace, st.sampled_from(["public", "a-b"]), st.sampled_from(["default", "x"])),
)


@given(one=rows, other=rows)
def test_keys_are_read_back_and_no_two_rows_have_one(one: Acl, other: Acl) -> None:
    assert acl_rows.row_of(acl_rows.key(one)) == one
    assert (acl_rows.key(one) == acl_rows.key(other)) is (one == other)


def test_the_rows_of_one_namespace_go() -> None:
    asyncio.run(namespace_goes(memory.open()))


async def namespace_goes(store: Store) -> None:
    near = [Namespace("shop", name) for name in ("e", "eu2", "eu-", "ev")]
    rows = [row(namespace=each) for each in (EU, *near)]
    await store.write([acl_rows.write(each, pulsars=each is rows[0]) for each in rows], Durability.OS)
    assert dict(acl_rows.read(store)) == {each: each is rows[0] for each in rows}
    await store.write([acl_rows.write_all_gone(EU)], Durability.OS)
    assert {each for each, _ in acl_rows.read(store)} == set(rows[1:])
