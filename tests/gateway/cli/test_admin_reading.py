"""How `topics consume` reads: where it begins, when it ends, and what it tells of a gateway that goes away."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from gateway.cli.admin_client import AdminError
from gateway.cli.admin_reading import AT_ONCE, Reader
from gateway.cli.admin_records import Record
from tests.gateway.cli.kafka import kafka_beside, topics


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Five records in "letters", in one partition."""
    with kafka_beside() as found:
        assert topics("produce", "letters", *"abcde", "-b", found, "-q").exit_code == 0
        yield found


def read(address: str, *flags: str) -> str:
    result = topics("consume", "letters", "-b", address, "--format", "raw", *flags)
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", "abcde"),
        ("latest", ""),
        ("0", "abcde"),
        ("3", "de"),
        ("5", ""),
        ("99", ""),
        ("-2", "de"),
        ("-5", "abcde"),
        ("-99", "abcde"),
        ("1h", "abcde"),
        ("2000-01-01T00:00:00Z", "abcde"),
        ("2100-01-01", ""),
    ],
)
def test_where_to_begin(address: str, start: str, expected: str) -> None:
    assert read(address, "--from", start) == expected


@pytest.mark.parametrize("start", ["yesterday", "--2", "5y", "1.5.2", "-"])
def test_what_is_no_place_to_begin(address: str, start: str) -> None:
    result = topics("consume", "letters", "-b", address, f"--from={start}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is no place to begin" in result.stderr


def test_a_topic_that_is_not_there_is_not_made_by_reading_it(address: str) -> None:
    for _ in range(2):
        result = topics("consume", "nothing", "-b", address)
        assert (result.exit_code, result.stdout) == (1, "")
        assert f"There is no topic nothing at {address}" in result.stderr


def test_a_group_goes_on_behind_what_was_shown_and_not_behind_what_was_fetched(address: str) -> None:
    """All five come to the client at once; two are shown."""
    assert read(address, "--group", "billing", "-n", "2") == "ab"
    assert read(address, "--group", "billing", "-n", "1") == "c"
    assert read(address, "--group", "billing") == "de"
    assert read(address, "--group", "billing") == ""


def test_where_a_group_begins_counts_until_it_has_shown_something(address: str) -> None:
    assert read(address, "--group", "late", "--from", "latest") == ""
    assert read(address, "--group", "late", "--from", "earliest", "-n", "4") == "abcd"
    assert read(address, "--group", "late", "--from", "latest") == "e"


def reader(*, count: int | None = None, follow: bool = False, timeout: float = 60.0) -> Reader:
    return Reader("a:1", (), "letters", count, follow, 5.0, timeout)


def test_no_more_is_taken_than_may_be_shown() -> None:
    shown: list[Record] = []
    some = reader(count=3)
    assert (some.left, some.done) == (3, False)
    for number in range(3):
        some.show(Record(b"%d" % number), shown.append)
    assert (some.left, some.done, len(shown)) == (0, True, 3)
    assert (reader().left, reader().done) == (AT_ONCE, False)


def test_a_record_that_could_not_be_written_counts_as_shown() -> None:
    """It may be out already when a Ctrl-C comes: what is said at the end may not be less than what was seen."""

    def interrupted(_: Record) -> None:
        raise KeyboardInterrupt

    some = reader()
    with pytest.raises(KeyboardInterrupt):
        some.show(Record(b"a"), interrupted)
    assert some.shown == 1


class TestOutage:
    """A gateway that was there and is not any more."""

    def away(self, some: Reader, seconds: float) -> None:
        some.watch.heard()
        some.watch.down_since = time.monotonic() - seconds

    def test_a_short_one_is_not_worth_a_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        some = reader()
        self.away(some, 0.1)
        some.polled(False)
        some.polled(True)
        assert capsys.readouterr().err == ""

    @pytest.mark.parametrize(("follow", "patience"), [(True, "until Ctrl-C"), (False, "for 60 s")])
    def test_it_is_told_once_and_so_is_its_end(
        self, follow: bool, patience: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        some = reader(follow=follow)
        self.away(some, 2)
        for _ in range(3):
            some.polled(False)
        assert capsys.readouterr().err == f"a:1 does not answer any more. Trying {patience}.\n"
        for _ in range(3):
            some.polled(True)
        assert capsys.readouterr().err == "a:1 answers again.\n"

    def test_a_reader_that_does_not_follow_gives_up_and_says_what_came(self) -> None:
        some = reader(timeout=30.0)
        some.show(Record(b"a"), lambda _: None)
        self.away(some, 31)
        with pytest.raises(AdminError, match="1 message of letters came, and there may be more"):
            some.polled(False)
        follows = reader(follow=True, timeout=30.0)
        self.away(follows, 1000)
        follows.polled(False)

    def test_an_end_is_no_end_when_the_gateway_is_away(self) -> None:
        some, enough = reader(), reader(count=1)
        self.away(some, 0.1)
        with pytest.raises(AdminError, match="0 messages of letters came"):
            some.check_complete()
        enough.show(Record(b"a"), lambda _: None)
        self.away(enough, 0.1)
        enough.check_complete()
