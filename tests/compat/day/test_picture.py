"""The picture: well-formed, in both modes, and each mark where and when it happened."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from compat.day.members import Part
from compat.day.picture import LANE, LEFT, RIGHT, WIDTH, Story, draw
from tests.compat.day.scenes import held, killed, took

STORY = Story(
    cast=[Part(1, "Python"), Part(2, "Java", ms=50)],
    lanes=4,
    events=[
        *(held(0.5, 1, 0, 1), held(0.5, 2, 2, 3)),
        *(took(1.5, 0, lane=0), took(2, 0, key="eve<&>", member=2, lane=2)),
        *(took(3, 1, lane=0, nacked=True), took(5, 1, lane=0, failed=1, nacked=True), took(5.5, 2, lane=0)),
        *(killed(4, 2), held(6, 1, 0, 1, 2, 3), took(6.5, 0, key="eve<&>", lane=2, failed=1)),
        *(held(8, 1, 0, 1), held(8, 2, 2, 3)),
    ],
    began=1.0,
    closed=9.0,
    end=10.5,
    outages=[(7.0, 7.5)],
    letters=[("ada", 1)],
)
SCALE = (WIDTH - LEFT - RIGHT) / 10.0


def at(seconds: float) -> float:
    """Where a time lies: the picture begins half a second before the first order."""
    return LEFT + (seconds - 0.5) * SCALE


def elements(story: Story, tag: str, kind: str) -> list[ElementTree.Element]:
    """Those with this word among their classes."""
    root = ElementTree.fromstring(draw(story))
    return [
        one for one in root.iter("{http://www.w3.org/2000/svg}" + tag) if kind in one.get("class", "").split()
    ]


def texts(story: Story) -> list[str]:
    return [text for one in ElementTree.fromstring(draw(story)).iter() if (text := (one.text or "").strip())]


def start(path: ElementTree.Element) -> tuple[float, float]:
    """Where a path begins."""
    found = re.match(r"M([\d.-]+) ([\d.-]+)", path.get("d", ""))
    assert found
    return float(found[1]), float(found[2])


def test_each_member_has_a_band_on_its_lanes_for_as_long_as_it_had_them() -> None:
    bands = elements(STORY, "rect", "band")

    def spans(member: int) -> list[tuple[float, float, float]]:
        return sorted(
            (float(band.get("y", "")), float(band.get("x", "")), float(band.get("width", "")))
            for band in bands
            if f"f{member}" in band.get("class", "")
        )

    top = spans(1)[0][0]
    assert [(round((y - top) / LANE), x, width) for y, x, width in spans(2)] == [
        (lane, round(at(begin), 1), round((end - begin) * SCALE, 1))
        for lane in (2, 3)
        for begin, end in ((0.5, 4), (8, 10.5))
    ]
    assert [(round((y - top) / LANE), x) for y, x, _ in spans(1)] == [
        (lane, round(at(begin), 1)) for lane, begin in ((0, 0.5), (1, 0.5), (2, 6), (3, 6))
    ]


def test_the_time_without_a_gateway_is_marked() -> None:
    away = elements(STORY, "rect", "away")[0]

    assert float(away.get("x", "")) == pytest.approx(at(7), abs=0.1)
    assert float(away.get("width", "")) == pytest.approx(0.5 * SCALE, abs=0.1)


@pytest.mark.parametrize(
    ("words", "when"),
    [
        ("2 is killed", 4),
        ("2 is back", 8),
        ("the gateway is killed", 7),
        ("poison", 3),
        ("dead letter", 5.1),
        ("last order", 9),
    ],
)
def test_what_happened_is_written_where_it_happened(words: str, when: float) -> None:
    root = ElementTree.fromstring(draw(STORY))
    places = [
        float(one.get("x", ""))
        for one in root.iter("{http://www.w3.org/2000/svg}text")
        if one.text == words and "name" in one.get("class", "")
    ]

    assert places == [pytest.approx(at(when) + 3, abs=0.1)]
    assert any(start(mark)[0] == pytest.approx(at(when), abs=0.1) for mark in elements(STORY, "path", "mark"))


def test_words_that_would_overlap_stand_in_rows() -> None:
    root = ElementTree.fromstring(draw(replace(STORY, outages=[(4.0, 4.5)])))
    rows = {
        one.text: float(one.get("y", ""))
        for one in root.iter("{http://www.w3.org/2000/svg}text")
        if one.text in ("2 is killed", "the gateway is killed")
    }

    assert len(set(rows.values())) == 2


def test_nacks_and_the_dead_letter_are_in_the_row_of_their_key() -> None:
    rows = {one.text: float(one.get("y", "")) for one in elements(STORY, "text", "end")}
    crosses = [start(one) for one in elements(STORY, "path", "cross")]
    diamonds = [start(one) for one in elements(STORY, "path", "bad")]

    # the middle of a cross is 4 right of its beginning and 4 below it
    assert [x for x, y in crosses if abs(y + 4 - (rows["ada"] - 4)) < 2] == [
        pytest.approx(at(3) - 4, abs=0.1)
    ]
    assert [x for x, y in diamonds if abs(y - rows["ada"]) < 15] == [pytest.approx(at(5), abs=0.1)]


def test_a_killed_member_is_crossed_out_on_its_lanes() -> None:
    crosses = [start(one)[0] for one in elements(STORY, "path", "cross")]

    assert crosses.count(round(at(4) - 4, 1)) == 2


def test_deliveries_are_ticks_in_the_colour_of_their_member_and_others_below() -> None:
    (of_two,) = [one for one in elements(STORY, "path", "tick") if "s2" in one.get("class", "")]
    (again,) = elements(STORY, "path", "again")

    assert start(of_two)[0] == pytest.approx(at(2), abs=0.1)
    assert start(again)[0] == pytest.approx(at(6.5), abs=0.1)


def test_names_of_members_and_keys_are_text() -> None:
    said = texts(STORY)

    assert {"1 Python", "2 Java (slow)", "eve<&>", "4 lanes, 2 members: 1 Python, 1 Java"} <= set(said)


def test_it_has_colours_for_light_and_dark() -> None:
    light, dark = draw(STORY).split("@media (prefers-color-scheme: dark)")
    assert _colours(light)
    assert _colours(dark)
    assert not _colours(light) & _colours(dark)
    # who knows no dark mode sees all of it: nothing is coloured there alone
    assert set(re.findall(r"\.(\w+) \{", dark)) <= set(re.findall(r"\.(\w+) \{", light))


def _colours(text: str) -> set[str]:
    return set(re.findall(r"#[0-9a-f]{6}", text))


def test_nothing_lies_outside() -> None:
    root = ElementTree.fromstring(draw(STORY))
    _, _, width, height = map(float, root.get("viewBox", "").split())
    for one in root.iter():
        x, y, wide = (float(one.get(name, "0")) for name in ("x", "y", "width"))
        if one is not root:
            assert 0 <= x <= x + wide <= width + 0.1
            assert 0 <= y <= height


def test_a_day_on_which_nothing_happened_can_be_drawn() -> None:
    assert "4 lanes" in draw(replace(STORY, events=[], letters=[], outages=[]))


def test_the_same_story_is_the_same_picture() -> None:
    assert draw(STORY) == draw(replace(STORY, events=list(reversed(STORY.events))))
