"""Jobs: many letters are sent again, or discarded, at a rate; how far that is, and stopping it.

That one begins, and how it ended, is told in the topic of the audit by the commit that stores it: there is no row
without its record, and no record without its row.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from gateway.audit import clean
from gateway.broker.audit_log import Act
from gateway.broker.errors import KafkaError
from gateway.broker.loading import until_loaded
from gateway.broker.redrive import job_rows, preview
from gateway.broker.redrive.cursor import LetterCursors
from gateway.broker.redrive.job_rows import DONE, FAILED, INTERRUPTED, RUNNING, STOPPED, JobRow
from gateway.broker.redrive.letter import job_of
from gateway.broker.redrive.reading import read
from gateway.broker.redrive.settling import settle, target_of
from gateway.broker.subscriptions.node import Delivering
from semantics.console.letter_states import OPEN
from semantics.console.replay import dies_again
from semantics.names import dotted, of_catalog
from semantics.shares import crowded
from store.api import Refused, StoreError, Unknown

if TYPE_CHECKING:
    from gateway.broker.audit_log import AuditLog
    from gateway.broker.catalog import Topic
    from gateway.broker.partition import Partition
    from gateway.broker.redrive.place import Graves
    from gateway.broker.subscriptions.registry import Subscriptions
    from semantics.console.letter_filter import DeadLetter
    from semantics.console.plans import Selection
    from semantics.console.replay import Tally, Wanted

log = logging.getLogger("magnetar.redrive")

AT_ONCE = 30
"""Letters of one commit: each is built anew, some 40 µs."""
BYTES_AT_ONCE = 512 * 1024
MOST_RUNNING = 20
MOST_OF_TENANT = 8
"""Of those that run: a tenant leaves room for others."""
LOOK_S = 1.0
"""How often a replay looks for what it sent among the dead letters, in seconds."""
AGAIN_S = 0.5
"""Until what could not be stored is tried again, in seconds."""
TRIES = 20
REOPEN_S = 5.0
"""How long one looks at a partition before it is looked up again, in seconds."""

PASSING = (Refused, Unknown)
"""Failures of the store that may pass."""


class Audited(Delivering, Protocol):
    """A node as jobs need it."""

    @property
    def audit_log(self) -> AuditLog: ...


class Full(Exception):
    """There are too many jobs. The text is for a person."""


class Job:
    """One that runs."""

    def __init__(
        self, row: JobRow, graves: Graves, wanted: Wanted, ends: dict[int, int], chosen: Selection | None
    ) -> None:
        self.row = row
        self.graves = graves
        self.wanted = wanted
        # of a plan: no letter that was not shown is touched
        self.chosen = chosen
        # by partition of the letters' topic, where it stops; and up to where it looked for what came back
        self.ends = ends
        self.seen = dict(ends)
        self.stopping = ""
        # what the audit is told of who stops it, with its end
        self.acts: list[Act] = []
        self.unstored: KafkaError | StoreError | None = None
        self.task: asyncio.Task[None] | None = None
        self.woken = asyncio.Event()
        # when it looked for what came back, by the loop's clock
        self.looked_at = 0.0

    def means(self, letter: DeadLetter) -> bool:
        """Whether a letter is one of those that it is about."""
        if self.chosen is not None and not self.chosen.has(letter.partition, letter.offset):
            return False
        return self.wanted.filter.matches(letter) and self.graves.holds(letter)

    def stop(self, why: str) -> None:
        """After what is under way."""
        self.stopping = self.stopping or why
        self.woken.set()


class Redrive:
    """Dead letters, and the jobs over them. What it asks of the node is known when somebody calls it first."""

    def __init__(self, node: Audited, subscriptions: Subscriptions) -> None:
        self.node = node
        self.subscriptions = subscriptions
        self.cursors = LetterCursors(node)
        self._jobs: dict[int, Job] = {}
        self._rows: dict[int, JobRow] | None = None
        # those that the last stop of the gateway has ended, while their rows say that they run
        self._interrupted: list[int] = []

    # -- jobs that there are ----------------------------------------------------------------------------------------

    def rows(self) -> list[JobRow]:
        """All jobs that are known, the newest first. Raises StoreError."""
        return [self._known()[number] for number in sorted(self._known(), reverse=True)]

    def row(self, number: int) -> JobRow | None:
        """One of them. Raises StoreError."""
        return self._known().get(number)

    def _known(self) -> dict[int, JobRow]:
        if self._rows is None:
            rows = job_rows.load(self.node.durable)
            self._interrupted = [row.id for row in rows if row.state == RUNNING]
            self._rows = {
                row.id: row
                if row.state != RUNNING
                else msgspec.structs.replace(
                    row,
                    state=INTERRUPTED,
                    ended=self.node.clock.wall_ms(),
                    why="the gateway was restarted; letters that were not taken are open still",
                )
                for row in rows
            }
        return self._rows

    async def store_interrupted(self) -> None:
        """Those that the last stop of the gateway has ended: store that, and tell it. Raises KafkaError, StoreError."""
        known = self._known()
        ended = [known[number] for number in self._interrupted if number in known]
        if ended:
            await self._store_ended(ended)
        self._interrupted = []

    def _check_room(self, letters: str) -> None:
        """Raises Full. Of the jobs of others it tells nothing."""
        tenant = _tenant_of(letters)
        its = sum(_tenant_of(each.graves.letters) == tenant for each in self._jobs.values())
        if its >= MOST_OF_TENANT:
            raise Full(f"{its} jobs of tenant {tenant} run, and more may not: wait for one, or stop it.")
        if len(self._jobs) >= MOST_RUNNING:
            raise Full("The gateway runs as many jobs as it may: wait for a while.")

    async def start(
        self,
        graves: Graves,
        wanted: Wanted,
        by: str,
        planned: int,
        tell: Callable[[JobRow], None],
        chosen: Selection | None = None,
    ) -> JobRow:
        """Begin one: its row is stored when this returns, and by the same commit what `tell` puts into the open turn.
        `chosen`: letters by partition and offset, beside which none is touched. Raises Full, KafkaError, StoreError.
        """
        await self.node.audit_log.ready()
        ends: dict[int, int] = {}
        topic = self.node.catalog.get(graves.letters)
        for index in range(len(topic.partitions)) if topic is not None else ():
            assert topic is not None
            ends[index] = (await self._partition(topic, index)).last_stable_offset
        await until_loaded(self.node.audit_log.check)
        # nothing may be awaited from there to the write: it is the same turn
        self._check_room(graves.letters)
        known = self._known()
        row = JobRow(
            max(known, default=0) + 1,
            wanted.what,
            graves.base.name,
            graves.group,
            graves.letters,
            target_of(graves, wanted) if wanted.what == "replay" else "",
            wanted.rate,
            by,
            self.node.clock.wall_ms(),
            planned,
        )
        known[row.id] = row
        job = self._jobs[row.id] = Job(row, graves, wanted, ends, chosen)
        kept = [(each, _tenant_of(known[each].letters), 1) for each in sorted(known)]
        old = crowded(kept, job_rows.MOST, job_rows.MOST_IN_ALL, self._jobs)
        try:
            tell(row)
            await self.node.write([job_rows.write(row), *map(job_rows.forget, old)])
        except BaseException:
            del self._jobs[row.id], known[row.id]
            raise
        for each in old:
            # another that began meanwhile may have forgotten it, too
            known.pop(each, None)
        job.task = self.node.loop.create_task(self._run(job))
        return row

    def stop(self, number: int, why: str, act: Act | None = None) -> Job | None:
        """One that runs is to end after what is under way. `act` is what the audit is told of that, by the commit that
        stores its end.
        """
        job = self._jobs.get(number)
        if job is not None:
            if act is not None:
                job.acts.append(act)
            job.stop(why)
        return job

    async def stopped(self, job: Job, seconds: float) -> None:
        """Until it is over, so long at most. Raises KafkaError, StoreError where its end is not stored."""
        if job.task is not None:
            await asyncio.wait([job.task], timeout=seconds)
        if job.unstored is not None:
            raise job.unstored

    async def wait(self, number: int, seconds: float) -> None:
        """Until it is over, so long at most."""
        job = self._jobs.get(number)
        if job is not None and job.task is not None:
            await asyncio.wait([job.task], timeout=seconds)

    def close(self) -> None:
        """The gateway stops: what their rows say is told after the next start."""
        for job in self._jobs.values():
            if job.task is not None:
                job.task.cancel()

    # -- at work ----------------------------------------------------------------------------------------------------

    async def _run(self, job: Job) -> None:
        state, why = DONE, ""
        try:
            await self._work(job)
            await self._tried(job, partial(self._look_for_returned, job))
            if job.stopping:
                state, why = STOPPED, job.stopping
        except (KafkaError, StoreError) as error:
            state, why = FAILED, self._why(job, error)
            log.warning("a job over dead letters failed", extra={"job": job.row.id, "reason": why})
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # its text may have anything in it
            state, why = FAILED, type(error).__name__
            log.exception("a job over dead letters failed", extra={"job": job.row.id})
        row = msgspec.structs.replace(job.row, state=state, why=why, ended=self.node.clock.wall_ms())
        self._say(job, row)
        del self._jobs[row.id]
        try:
            await self._store_ended([row], job.acts)
        except (KafkaError, StoreError) as error:
            job.unstored = error
            log.warning("the end of a job is not stored", extra={"job": row.id, "reason": str(error)})

    def _why(self, job: Job, error: Exception) -> str:
        """In words, where the error has none of its own."""
        letters = job.graves.letters
        if isinstance(error, KafkaError) and error.text is None and self.node.catalog.get(letters) is None:
            return f"{dotted(letters)}, where the letters were, was deleted"
        return str(error) or type(error).__name__

    async def _store_ended(self, rows: Sequence[JobRow], acts: Sequence[Act] = ()) -> None:
        """How these ended, and what the audit tells of it and of who stopped them, in one commit. Raises KafkaError,
        StoreError.
        """
        await self.node.audit_log.ready()
        await until_loaded(self.node.audit_log.check)
        # nothing is awaited from there to the write
        now = self.node.clock.wall_ms()
        for act in (*acts, *[_ending(row, now) for row in rows]):
            self.node.audit_log.append(act)
        await self.node.write([job_rows.write(row) for row in rows])

    def _say(self, job: Job, row: JobRow) -> None:
        job.row = row
        self._known()[row.id] = row

    async def _work(self, job: Job) -> None:
        topic = self.node.catalog.get(job.graves.letters)
        pace = Pace(self.node.loop.time(), job.wanted.rate)
        job.looked_at = self.node.loop.time()
        for index, end in job.ends.items():
            if topic is None:
                return
            at = await self._partition(topic, index)
            start, end = job.wanted.filter.within(index, at.log_start, end)
            cursor = await until_loaded(partial(self.cursors.of, at))
            start = cursor.states.next_open(start, end)
            waiting: list[DeadLetter] = []
            size, offset = 0, start
            while offset < end:
                # one that nobody uses is let go, and a job may take hours
                at, opened = await self._partition(topic, index), self.node.loop.time()
                async for letters, behind, _ in read(self.node, at, offset, end):
                    for letter in letters:
                        if not job.means(letter):
                            continue
                        if cursor.states.of(letter.offset) != OPEN:
                            continue
                        waiting.append(letter)
                        size += len(letter.value or b"") + len(letter.key or b"")
                        if len(waiting) >= pace.at_once or size >= BYTES_AT_ONCE:
                            await self._send(job, topic, index, waiting, pace)
                            waiting, size = [], 0
                            if job.stopping:
                                return
                    offset = behind
                    if self.node.loop.time() - opened > REOPEN_S:
                        break
                else:
                    break
            if waiting:
                await self._send(job, topic, index, waiting, pace)
            if job.stopping:
                return

    async def _send(
        self, job: Job, topic: Topic, index: int, letters: Sequence[DeadLetter], pace: Pace
    ) -> None:
        """These letters, in one commit. What a store refuses for now is tried again. Raises KafkaError, StoreError."""
        await self._sleep(job, pace.wait(self.node.loop.time(), len(letters)))
        if job.stopping:
            return
        await self._tried(job, partial(self._commit, job, topic, index, letters))
        now = self.node.loop.time()
        if now - job.looked_at >= LOOK_S and not job.stopping:
            job.looked_at = now
            await self._tried(job, partial(self._look_for_returned, job))

    async def _tried(self, job: Job, what: Callable[[], Awaitable[None]]) -> None:
        """Do it, again for some time where the store refuses for now, and until the job is to stop. Raises KafkaError,
        StoreError.
        """
        for left in range(TRIES, -1, -1):
            try:
                await what()
                return
            except (KafkaError, StoreError) as error:
                passing = (
                    error.code.retriable if isinstance(error, KafkaError) else isinstance(error, PASSING)
                )
                if not passing or not left:
                    raise
                await self._sleep(job, AGAIN_S)
                if job.stopping:
                    return

    async def _commit(self, job: Job, topic: Topic, index: int, letters: Sequence[DeadLetter]) -> None:
        at = await self._partition(topic, index)
        did = await until_loaded(
            partial(settle, self.node, self.cursors, job.graves, job.wanted, job.row.id, at, letters)
        )
        # nothing may be awaited from there to here: it is the same turn
        row = msgspec.structs.replace(
            job.row,
            done=job.row.done + did.sent,
            edited=job.row.edited + did.edited,
            left_out=job.row.left_out + did.left_out,
        )
        await self.node.write([job_rows.write(row)])
        self._say(job, row)

    async def _look_for_returned(self, job: Job) -> None:
        """Whether what it sent dies again. Raises KafkaError, StoreError."""
        topic = self.node.catalog.get(job.graves.letters)
        if topic is None or job.wanted.what != "replay":
            return
        for index, seen in list(job.seen.items()):
            at = await self._partition(topic, index)
            async for letters, behind, _ in read(self.node, at, seen, at.last_stable_offset):
                died = sum(job_of(each) == job.row.id for each in letters)
                # both at once: what fails behind this is looked for again from here
                job.seen[index] = behind
                if died:
                    self._say(job, msgspec.structs.replace(job.row, died_again=job.row.died_again + died))
        if dies_again(job.row.done, job.row.died_again):
            job.stop(f"{job.row.died_again:,} of {job.row.done:,} that were sent died again, more than 10 %")

    async def _partition(self, topic: Topic, index: int) -> Partition:
        return await until_loaded(partial(self.node.in_use.partition, topic, index))

    async def _sleep(self, job: Job, seconds: float) -> None:
        if seconds > 0 and not job.stopping:
            try:
                await asyncio.wait_for(job.woken.wait(), seconds)
            except TimeoutError:
                pass

    # -- looked at --------------------------------------------------------------------------------------------------

    async def tally(self, graves: Graves, wanted: Wanted) -> Tally:
        """What of the open letters is meant. Raises KafkaError, StoreError."""
        return await preview.tally(self.node, self.cursors, graves, wanted)


@lru_cache(maxsize=1024)
def _tenant_of(letters: str) -> str:
    return of_catalog(letters).namespace.tenant


def _ending(row: JobRow, now: int) -> Act:
    """What the audit tells of a job that is over."""
    counts: dict[str, int | str] = {"job": row.id, "letters": row.done, "edited": row.edited}
    counts |= {"leftOut": row.left_out, "diedAgain": row.died_again}
    return Act(
        now,
        clean(row.by),
        "",
        f"{row.what} ended",
        f"jobs/{row.id}",
        row.state,
        counts=counts,
        why=clean(row.why),
    )


class Pace:
    """So many letters a second, in steps of a tenth of one."""

    def __init__(self, now: float, rate: int) -> None:
        """`now` in seconds."""
        self._rate = rate
        self._next = now
        self.at_once = max(1, min(AT_ONCE, rate // 10))

    def wait(self, now: float, count: int) -> float:
        """Seconds until so many may go. They are counted as gone."""
        begin = max(self._next, now)
        self._next = begin + count / self._rate
        return begin - now
