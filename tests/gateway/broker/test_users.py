"""Users on a store: what is kept, who is told, who gets in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec
import pytest

from gateway.auth.credentials import SHA_256, SHA_512, UserError, UserRow, Verifier
from gateway.auth.decoys import Decoys
from gateway.auth.errors import RefusedError
from gateway.broker import users as module
from gateway.broker.users import NoUserError, Users, UserThereError, row_of, verifiers_of
from gateway.peer import Identity
from gateway.server import Gateway
from store import memory
from store.api import Durability, Family, Put, Refused, StoreError, Unknown, Write
from tests.gateway.broker.held import HeldStore, run_held
from tests.gateway.serving import Client

ADA = verifiers_of("sesame")


class World:
    """Users on a memory store, whose next commit may fail."""

    def __init__(self, store: Any = None) -> None:
        self.store = store or memory.open()
        self.commits: list[Sequence[Write]] = []
        self.fails: StoreError | None = None
        self.users = Users(self.store, self._commit)
        self.told: list[str] = []
        self.users.watchers.append(self.told.append)

    async def _commit(
        self, writes: Sequence[Write], done: Callable[[], None], again: Callable[[], None]
    ) -> None:
        self.commits.append(writes)
        # others may come between
        await asyncio.sleep(0)
        if self.fails is not None:
            if isinstance(self.fails, Unknown):
                await self.store.write(writes, Durability.OS)
                again()
            raise self.fails
        await self.store.write(writes, Durability.OS)
        done()

    def again(self) -> Users:
        return World(self.store).users


def run(test: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        world = World()
        try:
            await test(world)
        finally:
            world.users.close()

    asyncio.run(main())


def test_users_are_there_after_a_restart() -> None:
    async def test(world: World) -> None:
        users = world.users
        await users.create("ada", row_of(ADA, "shop/eu"))
        await users.create("bob", row_of({}, None))
        await users.delete("bob")
        again = world.again()
        assert again.names() == users.names() == ["ada"]
        row = again.get("ada")
        assert row is not None
        assert (row, row.verifiers, row.home) == (users.get("ada"), ADA, "shop/eu")
        assert again.secret == users.secret
        assert again.get("bob") is users.get("bob") is None
        assert world.told == ["ada", "bob", "bob"]

    run(test)


def test_no_epoch_comes_again() -> None:
    async def test(world: World) -> None:
        users, seen = world.users, []
        for _ in range(2):
            await users.create("ada", row_of(ADA, None))
            seen.append(users.get("ada"))
            await users.alter("ada", lambda row: msgspec.structs.replace(row, home="shop/eu"))
            seen.append(users.get("ada"))
            await users.delete("ada")
            users = world.again()
        epochs = [row.epoch for row in seen if row is not None]
        assert epochs == sorted(set(epochs))
        assert len(epochs) == 4

    run(test)


def test_what_changes_nothing_is_no_change() -> None:
    async def test(world: World) -> None:
        await world.users.create("ada", row_of(ADA, None))
        await world.users.alter("ada", lambda row: row)
        assert (len(world.commits), world.told) == (1, ["ada"])

    run(test)


def test_several_are_changed_together_or_not_at_all() -> None:
    async def test(world: World) -> None:
        await world.users.change({name: lambda old: row_of(ADA, None) for name in ("ada", "bob")})
        assert len(world.commits) == 1

        def no(old: UserRow | None) -> UserRow:
            raise UserError("no")

        with pytest.raises(UserError):
            await world.users.change({"ada": lambda old: None, "bob": no})
        assert world.users.names() == ["ada", "bob"]
        assert len(world.commits) == 1

    run(test)


def test_two_who_make_the_same_user() -> None:
    async def test(world: World) -> None:
        outcomes = await asyncio.gather(
            *(world.users.create("ada", row_of(ADA, None)) for _ in range(2)), return_exceptions=True
        )
        assert [type(each) for each in outcomes] == [type(None), UserThereError]
        for verb in (world.users.delete("bob"), world.users.alter("bob", lambda row: row)):
            with pytest.raises(NoUserError, match="bob"):
                await verb

    run(test)


def test_a_commit_that_is_refused_changes_nothing() -> None:
    async def test(world: World) -> None:
        await world.users.create("ada", row_of(ADA, None))
        before, world.fails = world.users.get("ada"), Refused("no")
        with pytest.raises(Refused):
            await world.users.delete("ada")
        assert (world.users.get("ada"), world.told) == (before, ["ada"])

    run(test)


def test_a_commit_that_may_have_happened_is_looked_at() -> None:
    async def test(world: World) -> None:
        world.fails = Unknown("who knows")
        with pytest.raises(Unknown):
            await world.users.create("ada", row_of(ADA, None))
        row = world.users.get("ada")
        assert row is not None
        assert world.told == ["ada"]
        world.fails = None
        await world.users.alter("ada", lambda row: msgspec.structs.replace(row, home="shop/eu"))
        assert world.users.get("ada").epoch > row.epoch  # type: ignore[union-attr]

    run(test)


def test_users_that_are_made_change_nothing_for_names_that_nobody_has() -> None:
    async def test(world: World) -> None:
        before = [world.users.decoy(f"u{each}", SHA_256) for each in range(20)]
        for each in range(20):
            made = Verifier(SHA_256, b"salt", 5003, b"k", b"k")
            await world.users.create(f"shop.u{each}", row_of({SHA_256: made}, "shop/eu"))
        assert [world.users.decoy(f"u{each}", SHA_256) for each in range(20)] == before

    run(test)


def test_a_tenant_has_its_share_of_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OF_TENANT", 2)

    async def test(world: World) -> None:
        for name, home in (("a", "shop/eu"), ("b", "shop/us"), ("c", None)):
            await world.users.create(name, row_of({}, home))
        with pytest.raises(UserError, match="users of one tenant"):
            await world.users.create("d", row_of({}, "shop/it"))
        with pytest.raises(UserError, match="users of one tenant"):
            await world.users.alter("c", lambda row: msgspec.structs.replace(row, home="shop/eu"))
        for at in range(3):
            await world.users.create(f"p{at}", row_of({}, "public/shared"))
        await world.users.delete("a")
        await world.users.create("d", row_of({}, "shop/it"))
        await world.users.create("e", row_of({}, "other/eu"))

    run(test)


def test_there_are_so_many_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_USERS", 2)

    async def test(world: World) -> None:
        for name in ("a", "b"):
            await world.users.create(name, row_of({}, None))
        with pytest.raises(UserError, match="at most"):
            await world.users.create("c", row_of({}, None))
        await world.users.change({"a": lambda old: None, "c": lambda old: row_of({}, None)})
        assert world.users.names() == ["b", "c"]

    run(test)


def test_names_are_checked() -> None:
    async def test(world: World) -> None:
        for name in ("a,b", "", "CN=ops"):
            with pytest.raises(UserError):
                await world.users.create(name, row_of(ADA, None))
        assert world.commits == []

    run(test)


# -- passwords


@pytest.mark.parametrize("mechanisms", [(SHA_256, SHA_512), (SHA_256,), (SHA_512,)])
def test_who_knows_the_password_gets_in(mechanisms: tuple[str, ...]) -> None:
    async def test(world: World) -> None:
        found = await world.users.hashed("sesame")
        await world.users.create("ada", row_of({each: found[each] for each in mechanisms}, "shop/eu"))
        identity = await world.users.identify_password("ada", "sesame", "PLAIN")
        assert identity == Identity("User:ada", "PLAIN", "shop/eu", None, "ada")
        for name, password, why in (
            ("ada", "Sesame", "wrong"),
            ("ada", "", "wrong"),
            ("Ada", "sesame", "no such user"),
            ("\ud800", "sesame", "no such user"),
        ):
            with pytest.raises(RefusedError, match=why) as refused:
                await world.users.identify_password(name, password, "PLAIN")
            assert "sesame" not in repr(refused.value).lower()

    run(test)


def test_a_user_without_a_password_does_not_get_in() -> None:
    async def test(world: World) -> None:
        await world.users.create("ada", row_of({}, "shop/eu"))
        with pytest.raises(RefusedError, match="no password"):
            await world.users.identify_password("ada", "", "PLAIN")

    run(test)


@pytest.mark.parametrize("name", ["ada", "nobody"])
def test_for_nobody_as_much_is_done_as_for_somebody(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = []

    def check(verifier: Any, password: str) -> bool:
        done.append((verifier.mechanism, verifier.iterations))
        return False

    monkeypatch.setattr(module, "check", check)
    decoys = []
    right = Decoys.of

    def of(self: Decoys, name: str, mechanism: str | None = None) -> Any:
        decoys.append(name)
        return right(self, name, mechanism)

    monkeypatch.setattr(Decoys, "of", of)

    async def test(world: World) -> None:
        await world.users.create("ada", row_of(verifiers_of("sesame"), None))
        with pytest.raises(RefusedError):
            await world.users.identify_password(name, "x", "PLAIN")
        assert done == [(SHA_256, 4096)]
        # which takes some time to make
        assert decoys == [name]

    run(test)


def test_a_password_that_is_another_when_it_was_checked_is_worth_nothing() -> None:
    async def test(world: World) -> None:
        await world.users.create("ada", row_of(ADA, None))
        login = asyncio.ensure_future(world.users.identify_password("ada", "sesame", "PLAIN"))
        # it has begun
        await asyncio.sleep(0)
        row = world.users.get("ada")
        assert row is not None
        world.users._changed({"ada": msgspec.structs.replace(row, epoch=row.epoch + 1)})
        with pytest.raises(RefusedError, match="changed"):
            await login

    run(test)


def test_nobody_s_exchange_goes_on_with_the_same_salt_after_a_restart() -> None:
    async def test(world: World) -> None:
        await world.users.create("ada", row_of(ADA, None))
        assert world.users.decoy("bob", SHA_512) == world.again().decoy("bob", SHA_512)

    run(test)


@pytest.mark.parametrize(
    ("password", "iterations"), [("", 4096), ("x", 4095), ("x", 16_385), ("x" * 2000, 4096)]
)
def test_what_is_no_password_is_not_taken(password: str, iterations: int) -> None:
    with pytest.raises(UserError):
        verifiers_of(password, iterations)


def test_verifiers_have_salts_of_their_own() -> None:
    salts = [each.salt for _ in range(2) for each in verifiers_of("sesame").values()]
    assert len(set(salts)) == 4


def test_a_watcher_that_fails_keeps_nobody_from_knowing(caplog: pytest.LogCaptureFixture) -> None:
    async def test(world: World) -> None:
        def fails(name: str) -> None:
            raise ZeroDivisionError

        world.users.watchers.insert(0, fails)
        await world.users.create("ada", row_of(ADA, None))
        assert world.told == ["ada"]
        assert world.users.names() == ["ada"]

    run(test)
    assert "not followed" in caplog.text


@pytest.mark.parametrize("write", [Put(Family.USER, b"user/ada", b"?"), Put(Family.META, b"users", b"?")])
def test_rows_that_cannot_be_read_are_told(write: Put) -> None:
    async def main() -> None:
        store = memory.open()
        await store.write([write], Durability.OS)
        with pytest.raises(StoreError, match="rows of users cannot be read"):
            World(store)

    asyncio.run(main())


def test_what_was_told_of_a_user_survives_a_power_cut() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        store.holding = True
        made = asyncio.ensure_future(gateway.broker.users.create("ada", row_of(ADA, None)))
        await store.has(1)
        assert [durability for _, durability, _ in store.queued] == [Durability.FSYNC]
        assert gateway.broker.users.names() == []
        store.release()
        await made
        assert gateway.broker.users.names() == ["ada"]

    run_held(test, "durability=os")


def test_rows_are_where_they_are_looked_for() -> None:
    async def test(world: World) -> None:
        await world.users.create("ada", row_of(ADA, None))
        assert [key for key, _ in world.store.scan(Family.USER, b"")] == [b"user/ada"]

    run(test)


def test_of_users_that_go_with_their_home_one_line_is_written(caplog: pytest.LogCaptureFixture) -> None:
    async def test(world: World) -> None:
        for name, home in (("ada", "shop/eu"), ("eve", "shop/eu"), ("root", "shop/eu"), ("bob", None)):
            await world.users.create(name, row_of(ADA, home))
        await world.users.drop("shop/eu", ["root"])
        assert world.users.names() == ["bob", "root"]
        await world.users.drop("shop/us")

    with caplog.at_level("INFO", "magnetar"):
        run(test)
    (line,) = caplog.records
    assert (line.__dict__["namespace"], line.__dict__["users"]) == ("shop/eu", 2)
