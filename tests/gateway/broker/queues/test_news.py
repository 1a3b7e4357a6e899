"""When it is told again that there are more lanes, and to whom."""

from __future__ import annotations

from gateway.broker.queues.news import AGAIN_MS, News


def test_it_is_told_again_at_ever_longer_intervals_until_its_time_is_over() -> None:
    news = News(now=1_000, until=1_000 + 20 * AGAIN_MS, newest=5)
    times = [now for now in range(1_000, 1_000 + 40 * AGAIN_MS, AGAIN_MS // 4) if news.again(now, 5)]
    assert [time - 1_000 for time in times] == [AGAIN_MS, 3 * AGAIN_MS, 7 * AGAIN_MS, 15 * AGAIN_MS]


def test_then_those_hear_it_who_have_come_since() -> None:
    news = News(now=0, until=10 * AGAIN_MS, newest=5)
    assert [news.tell(each, 0, 1) for each in (5, 5, 6)] == [True, False, False]
    assert news.again(AGAIN_MS, 6)
    assert [news.tell(each, 0, AGAIN_MS) for each in (5, 5, 6, 7)] == [True, False, True, False]


def test_nobody_hears_it_when_its_time_is_over() -> None:
    news = News(now=0, until=AGAIN_MS, newest=5)
    assert not news.tell(5, 0, AGAIN_MS)
    assert not news.again(AGAIN_MS, 5)
