"""What may become of each message under policies that change: delay, time to live, retention, quota, by subscription.

It hears what was published, fetched, acknowledged and nacked, which policies are in force, and when a job ran. What it
asks the broker it only compares: which messages each subscription has open, where the log begins, what was counted. Its
rules are those of docs/SEMANTICS.md, said once more in another way: by message, where the broker goes by segments,
chunks and rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.proofs.simulate.ledger import Broken


@dataclass(frozen=True)
class Rules:
    """Policies in force. ms and bytes; 0 of `ttl`, and -1 of the others, is no limit."""

    ttl: int = 0
    kept_ms: int = -1
    kept_bytes: int = -1
    quota_bytes: int = -1
    quota_ms: int = -1
    action: str = "producer_request_hold"
    from_publish: bool = False
    """age counts from when a message was sent, due or not"""

    @property
    def evicts(self) -> bool:
        return self.action == "consumer_backlog_eviction"

    @property
    def longest_wait(self) -> int:
        """After how long a message that waits is settled; 0: never."""
        ages = [self.ttl] if self.ttl else []
        if self.evicts and self.quota_ms >= 0:
            ages.append(self.quota_ms)
        return min(ages, default=0)

    def shortens(self, before: Rules) -> bool:
        """Whether messages wait less long than before: that counts at once."""
        limit, old = self.longest_wait, before.longest_wait
        return bool(limit) and (not old or limit < old)


@dataclass
class Message:
    """One of the log, by its place there."""

    sent: int
    """ms since 1970"""
    due: int
    size: int


@dataclass
class Subscription:
    """What it has not settled, and who has what of it."""

    open: set[int] = field(default_factory=set)
    hands: dict[int, str] = field(default_factory=dict)
    waits: dict[int, int] = field(default_factory=dict)
    """after a nack, until when; ms since 1970"""
    expired: int = 0
    """counted for ever: it is stored with what it counts"""


class Oracle:
    """See the module. Raises Broken."""

    def __init__(self, names: Iterable[str]) -> None:
        self.log: list[Message] = []
        self.begin = 0
        self.of = {name: Subscription() for name in names}
        self.rules = Rules()

    # -- what is so -------------------------------------------------------------------------------------------------

    def start(self, name: str) -> int:
        """The first message that a subscription has open, or the end of the log."""
        return min(self.of[name].open, default=len(self.log))

    def behind(self, offset: int) -> int:
        """Bytes of the log from there on."""
        return sum(each.size for each in self.log[max(offset, self.begin) :])

    @property
    def slowest(self) -> int:
        return min(map(self.start, self.of))

    # -- what happens -----------------------------------------------------------------------------------------------

    def published(self, now: int, due: int, size: int) -> None:
        rules = self.rules
        # one that evicts keeps nobody out
        if not rules.evicts and 0 <= rules.quota_bytes <= self.behind(self.slowest):
            raise Broken(f"{len(self.log)} was let in, though {self.behind(self.slowest)} bytes wait")
        for each in self.of.values():
            each.open.add(len(self.log))
        self.log.append(Message(now, due, size))

    def refused(self, now: int) -> None:
        rules, oldest = self.rules, self.slowest
        waits = self.behind(oldest)
        full = 0 <= rules.quota_bytes <= waits
        old = oldest < len(self.log) and 0 <= rules.quota_ms <= now - self.log[oldest].sent
        if rules.evicts or not (full or old):
            raise Broken(f"a message was kept out of {rules}, though {waits} bytes wait")

    def fetched(self, name: str, consumer: str, offsets: Iterable[int], now: int) -> None:
        its = self.of[name]
        for offset in offsets:
            if offset not in its.open:
                raise Broken(f"{name} was given {offset}, which is settled")
            if offset in its.hands:
                raise Broken(f"{name} was given {offset}, which {its.hands[offset]} has")
            if self.log[offset].due > now or its.waits.get(offset, 0) > now:
                raise Broken(f"{name} was given {offset} too early")
            its.hands[offset] = consumer
            its.waits.pop(offset, None)

    def acked(self, name: str, offsets: Iterable[int]) -> None:
        its = self.of[name]
        for offset in offsets:
            del its.hands[offset]
            its.open.discard(offset)

    def nacked(self, name: str, offsets: Iterable[int], until: int) -> None:
        its = self.of[name]
        for offset in offsets:
            del its.hands[offset]
            if offset in its.open:
                its.waits[offset] = until

    def restarted(self) -> None:
        """Consumers are gone."""
        for its in self.of.values():
            its.hands.clear()

    # -- what jobs do -----------------------------------------------------------------------------------------------

    def aged(self, now: int) -> None:
        """The job of time to live ran: what waits for too long is settled, and nothing else."""
        limit = self.rules.longest_wait
        if not limit:
            return
        for its in self.of.values():
            for offset in list(its.open):
                if self._old(its, offset, now, limit):
                    its.open.discard(offset)
                    its.waits.pop(offset, None)
                    its.expired += 1

    def evicted(self, name: str, offsets: Sequence[int], now: int) -> None:
        """These were settled, and nobody has acknowledged them: what a quota may do when something is published."""
        rules, its = self.rules, self.of[name]
        if not rules.evicts:
            raise Broken(f"{name} has lost {list(offsets)} under {rules}")
        for offset in offsets:
            # by age it takes what a time to live would
            if not self._old(its, offset, now, rules.quota_ms if rules.quota_ms >= 0 else 0):
                self._too_many(name, offset, offsets)
        for offset in offsets:
            its.open.discard(offset)
            its.hands.pop(offset, None)
            its.waits.pop(offset, None)
            its.expired += 1

    def _too_many(self, name: str, offset: int, gone: Sequence[int]) -> None:
        """By bytes the oldest go, whoever has them, while more than nine tenths of the quota wait."""
        rules, its = self.rules, self.of[name]
        if rules.quota_bytes < 0:
            raise Broken(f"{name} has lost {offset} under {rules}")
        if any(each < offset for each in its.open - set(gone)):
            raise Broken(f"{name} has lost {offset} before an older one")
        if self.behind(offset) <= int(0.9 * rules.quota_bytes):
            raise Broken(f"{name} has lost {offset}, though only {self.behind(offset)} bytes waited")

    def _old(self, its: Subscription, offset: int, now: int, limit: int) -> bool:
        message = self.log[offset]
        since = message.sent if self.rules.from_publish else max(message.sent, message.due)
        return bool(limit) and offset not in its.hands and since < now - limit

    def bounded(self, size: int) -> None:
        """A message of so many bytes was taken: a quota that evicts leaves no more than itself, and that one."""
        rules = self.rules
        waits = self.behind(self.slowest)
        if rules.evicts and 0 <= rules.quota_bytes <= waits - size:
            raise Broken(f"{waits} bytes wait under {rules}")

    def retained(self, segments: Iterable[tuple[int, int]], now: int) -> None:
        """Retention ran, and these closed segments [base, next) are there."""
        rules = self.rules
        for base, end in segments:
            settled = end <= self.slowest
            if (
                settled
                and rules.kept_ms >= 0
                and all(each.sent < now - rules.kept_ms for each in self.log[base:end])
            ):
                raise Broken(f"{base} to {end} were kept under {rules}")

    def cut(self, begin: int, now: int) -> None:
        """The log begins there now."""
        rules = self.rules
        if begin < self.begin:
            raise Broken(f"the log began at {self.begin} and begins at {begin}")
        if begin > self.slowest:
            raise Broken(f"the log begins at {begin}, and {self.slowest} is open")
        for offset in range(self.begin, begin):
            old = 0 <= rules.kept_ms <= now - self.log[offset].sent
            large = 0 <= rules.kept_bytes <= self.behind(offset)
            if not (old or large):
                raise Broken(f"{offset} was deleted under {rules}")
        self.begin = begin
