"""Dead letters in Avro are read by the schema that is in reach, as messages are: in the list, in groups, one by one."""

from __future__ import annotations

from tests.gateway.admin.billing import EARLIEST, ack, take
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.test_replaying import buried, listed
from tests.gateway.admin.test_schemas import avro, put, register, written
from tests.gateway.console.browser import Browser, browse

HERE = "/ui/s/public/default/orders/billing"
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "country", "type": "string"}],
}


async def died(admin: Admin) -> None:
    """Three orders in Avro, of which one has a schema that nobody knows."""
    await admin.plain("orders")
    values = [avro(ORDER, {"id": number, "country": "de" if number else "at"}) for number in range(3)]
    await put(
        admin, "orders", [(b"k", written(3 if number < 2 else 4, each)) for number, each in enumerate(values)]
    )
    answer = await admin.ask("PUT", "P/orders/subscription/billing?type=shared", EARLIEST)
    assert answer.status == 204, answer
    for offset in await take(admin, "c1"):
        await ack(admin, "c1", offset, offset, kind=3)
    await buried(admin, 3)


def test_pages_of_dead_letters_show_what_their_values_say() -> None:
    async def test(browser: Browser) -> None:
        await died(browser.admin)
        assert ["decoded" in each for each in await listed(browser.admin)] == [False] * 3
        await register(browser.admin, 3, ORDER)
        first, second, third = await listed(browser.admin)
        assert (first["kind"], first["decoded"]) == ("avro", {"id": 0, "country": "at"})
        assert second["decoded"]["country"] == "de"
        assert "decoded" not in third
        page = await browser.get(HERE + "/dead")
        assert '{"id":0,"country":"at"}' in page.words
        groups = await browser.get(HERE + "/dead?by=json:$.country")
        for group in (" at ", " de ", " without "):
            assert group in groups.words, group
        letter = await browser.get(HERE + "/letter?id=0:1")
        assert 'aria-label="Value as Avro"' in letter.text
        assert '"de"' in letter.words
        assert "00000000 00 00 00 00 03" in letter.words, "the bytes stand beside it"
        # what would be sent again is what it was
        assert "in base64, since it is no plain text" in letter.words
        assert "Value as Avro" not in (await browser.get(HERE + "/letter?id=0:2")).text

    browse(test)


def test_a_value_that_its_schema_does_not_fit_says_so() -> None:
    async def test(browser: Browser) -> None:
        await died(browser.admin)
        await register(browser.admin, 3, {"type": "record", "name": "Order", "fields": []})
        await register(browser.admin, 4, {"type": "map", "values": "long"})
        third = (await listed(browser.admin))[2]
        assert "decoded" not in third
        assert third["notDecoded"].startswith("AVRO: ")
        groups = await browser.get(HERE + "/dead?by=json:$.country")
        assert "3 not decoded" in groups.words
        assert "Not decoded as Avro: " in (await browser.get(HERE + "/letter?id=0:2")).words

    browse(test)
