"""The producer of a consumer that acknowledges inside of transactions (KIP-890): says, commits, aborts, forgets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from gateway.apis.producer_ids import init_producer_id
from gateway.apis.transactions import end_txn
from gateway.apis.txn_offsets import txn_offset_commit
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.proofs.simulate.lanes.member import TOPIC, context
from tests.proofs.simulate.ledger import Broken

if TYPE_CHECKING:
    from tests.proofs.simulate.lanes.member import Member
    from tests.proofs.simulate.lanes.oracle import Said

TIMEOUT_MS = 10_000
LONGEST_MS = 1_500
"""of a transaction that is ended"""
_MAY_BE_DONE = frozenset({Error.COORDINATOR_NOT_AVAILABLE, Error.UNKNOWN_SERVER_ERROR})
"""errors of a TxnOffsetCommit whose turn was not stored, as far as anybody knows"""


class Producer:
    """See the module. It does one thing at a time."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.name = f"tx-{member.name}"
        self.who = -1, -1
        self._busy = 0
        # what its open transaction has said, and of which lane
        self._said: list[tuple[int, Said]] = []
        # of these: what was answered
        self._taken: list[Said] = []
        self._ends_at = 0
        # how it is ended, once that is decided
        self._commits: bool | None = None
        # True when a commit was asked for: how it ends is not known before that is answered
        self._unsure = False
        # what was asked in an earlier life is nothing to it
        self._life = 0

    @property
    def ready(self) -> bool:
        """Whether it can say something."""
        return self.who[0] >= 0 and not self._busy and self._commits is None

    def die(self) -> None:
        """Its process is gone; the next one begins with the same transactional id."""
        self._life += 1
        self._busy, self.who, self._commits = 0, (-1, -1), None

    def step(self) -> None:
        """Whatever comes next for it."""
        if self._busy:
            return
        world = self.member.world
        if self.who[0] < 0:
            self._init()
        elif self._commits is not None:
            self._end(self._commits)
        elif self._said and world.now >= self._ends_at:
            luck, scenario = world.random.random(), world.scenario
            if world.ending or luck >= scenario.aborts + scenario.forgets:
                self._end(True)
            elif luck < scenario.aborts:
                # by its end, or because it begins anew
                self._end(False) if world.random.random() < 0.7 else self.die()
            else:
                world.oracle.counts["forgotten"] += 1
                self._ends_at = world.now + 2 * TIMEOUT_MS
                world.later(self.die, world.random.randint(TIMEOUT_MS // 2, 2 * TIMEOUT_MS))

    def _ask(self, pending: Any, then: Callable[[Any], None], never: Callable[[], None]) -> None:
        life, self._busy = self._life, self._busy + 1

        def told(answer: Any) -> None:
            if self._life == life:
                self._busy -= 1
                then(answer)

        def lost() -> None:
            if self._life == life:
                self._busy -= 1
                never()

        self.member.world.when(_no_fault(pending) if isinstance(pending, Awaitable) else pending, told, lost)

    def _init(self) -> None:
        world = self.member.world
        asked = messages.InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS, producer_id=-1, producer_epoch=-1
        )

        def told(answer: Any) -> None:
            if not answer.error_code:
                self.who = answer.producer_id, answer.producer_epoch
                self._over(None if self._unsure else False)

        self._ask(
            init_producer_id(world.broker, context(ApiKey.INIT_PRODUCER_ID, 5), asked),
            told,
            lambda: None,
        )

    def say(self, lane: int, offset: int, names: dict[int, str], *, stranger: bool) -> None:
        """One TxnOffsetCommit. `stranger`: as no member of the group."""
        member, request = self.member, messages.TxnOffsetCommitRequest
        world = member.world
        by: dict[str, list[int]] = {}
        for at in sorted(names):
            by.setdefault(names[at], []).append(at)
        metadata = "".join(f";{verb}={','.join(map(str, ats))}" for verb, ats in by.items())
        who = ("", -1) if stranger else (member.id, member.generation)
        said = world.says(lane, offset, names, *who, stranger=stranger)
        world.oracle.entrusted(said)
        partition = request.TxnOffsetCommitRequestPartition(
            partition_index=lane,
            committed_offset=offset,
            committed_leader_epoch=-1,
            committed_metadata=f"ack1{metadata}" if metadata else None,
        )
        body = request(
            transactional_id=self.name,
            group_id="g",
            producer_id=self.who[0],
            producer_epoch=self.who[1],
            member_id=who[0],
            generation_id=who[1],
            group_instance_id=None if stranger else member.instance,
            topics=[request.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )
        if not self._said:
            self._ends_at = world.now + world.random.choice([0, 50, LONGEST_MS])
        self._said.append((lane, said))

        def told(answer: Any) -> None:
            error = answer.topics[0].partitions[0].error_code
            if error == Error.NONE:
                self._taken.append(said)
                world.oracle.closed(lane, said)
                member.said(lane, names)
            elif error in _MAY_BE_DONE:
                never()
            else:
                if error == Error.INVALID_REQUEST and not stranger:
                    raise Broken(f"a commit of lane {lane} in a transaction was refused as wrong")
                self._said.remove((lane, said))
                world.oracle.answered(lane, said, taken=False, nothing=True)
                self._commits = False

        def never() -> None:
            # it is said again, or given up; what it nacks may be where it was
            world.oracle.closed(lane, said)
            world.oracle.unanswered(said)
            if world.random.random() < 0.5 and not world.ending:
                self._commits = False

        pending = txn_offset_commit(world.broker, context(ApiKey.TXN_OFFSET_COMMIT, 5), body)
        self._ask(pending, told, never)

    def _end(self, commits: bool) -> None:
        world = self.member.world
        self._commits = commits
        self._unsure = commits
        asked = messages.EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.who[0],
            producer_epoch=self.who[1],
            committed=commits,
        )

        def told(answer: Any) -> None:
            if answer.error_code in (
                Error.COORDINATOR_NOT_AVAILABLE,
                Error.COORDINATOR_LOAD_IN_PROGRESS,
                Error.CONCURRENT_TRANSACTIONS,
            ):
                return
            if answer.error_code:
                # its time was over, or nothing of it was stored
                self.die()
                return
            self.who = answer.producer_id, answer.producer_epoch
            self._over(commits)

        # what is not answered is asked again
        self._ask(end_txn(world.broker, context(ApiKey.END_TXN, 5), asked), told, lambda: None)

    def _over(self, committed: bool | None) -> None:
        """The transaction is over; None: nobody knows how."""
        oracle = self.member.world.oracle
        for lane, said in self._said:
            oracle.closed(lane, said)
            if committed is None or (committed and not any(said is each for each in self._taken)):
                oracle.unanswered(said)
            else:
                oracle.answered(lane, said, taken=committed, nothing=not committed)
        if self._said:
            oracle.counts["committed" if committed else "aborted"] += 1
        self._said, self._taken, self._commits, self._unsure = [], [], None, False


async def _no_fault(pending: Awaitable[Any]) -> Any:
    """A lane that is read again is nothing to a transaction."""
    try:
        return await pending
    except (IndexError, KeyError, AssertionError) as error:
        raise Broken(f"a request of a transaction fell over: {error!r}") from error
