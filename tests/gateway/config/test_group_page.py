"""The table of group configs in docs/SEMANTICS.md."""

from __future__ import annotations

import pytest

from gateway.config.group_page import PAGE, table, with_table
from gateway.config.group_table import GROUP_CONFIGS


def test_the_page_is_current() -> None:
    page = PAGE.read_text()
    assert page == with_table(page), "python -m gateway.config.group_page writes it anew"


def test_every_config_has_a_line_with_its_default_and_its_values() -> None:
    rows = [line.strip("| ").split(" | ") for line in table().splitlines()[2:]]
    assert [row[0] for row in rows] == [f"`{name}`" for name in GROUP_CONFIGS]
    assert all(len(row) == 5 and all(row) for row in rows)
    found = {row[0].strip("`"): row for row in rows}
    assert found["pulsar.subscription.type"][2:4] == ["shared", "shared, key_shared, exclusive or failover"]
    assert found["share.session.timeout.ms"][2:4] == [
        "45000 (`group.share.session.timeout.ms`)",
        "45000 (`group.share.min.session.timeout.ms`) to 60000 (`group.share.max.session.timeout.ms`)",
    ]
    assert found["pulsar.nack.delay.ms"][3] == "from 0 to 2147483647"


def test_a_page_without_a_place_for_it() -> None:
    with pytest.raises(ValueError, match="lacks the lines"):
        with_table("# nothing")
