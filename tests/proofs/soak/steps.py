"""The numbered steps between the first byte and the answer, and those of a start, a checkpoint and a stop.

`STEPS` is what is promised; `victim.py` puts each where it belongs and refuses to start when the two lists differ.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class When(StrEnum):
    SERVING = "serving"
    STARTING = "starting"
    STOPPING = "stopping"


class Step(NamedTuple):
    name: str
    text: str
    when: When = When.SERVING
    # kills at these passes: (from, to) of a random choice
    passes: tuple[tuple[int, int], ...] = ((1, 1), (2, 30), (31, 200))
    # of a start: a step at which the start before it must have died, so that there is something to do
    after: str = ""


RARE = ((1, 1), (2, 3))
ONCE = ((1, 1),)
S, E = When.STARTING, When.STOPPING

STEPS: tuple[Step, ...] = (
    # the way of one produce
    Step("bytes.received", "bytes have come from a socket"),
    Step("frame.found", "a whole Produce frame is there"),
    Step("batch.admitted", "its batch passed header and CRC, and is about to be appended"),
    Step("batch.taken", "it has its offset and is in the open turn"),
    Step("turn.ends", "the turn of the loop is over"),
    Step("group.handed", "the turn's writes go to the store"),
    Step("group.begun", "the executor begins with the group"),
    Step("group.planned", "all rows and places are known"),
    Step("segment.created", "a new segment file is there, empty", passes=((1, 1), (2, 6))),
    Step("segment.before", "a segment is about to be written"),
    Step("segment.half", "half of the bytes are written"),
    Step("segment.written", "all of the bytes are written"),
    Step("secure.before", "what must survive the machine is about to be secured"),
    Step("journal.before", "journal rows are about to be made"),
    Step("journal.after", "journal rows are in the WriteBatch"),
    Step("direct.before", "a large payload's segment is about to be synced", passes=RARE),
    Step("direct.after", "it is synced", passes=RARE),
    Step("batch.closed", "the WriteBatch is complete"),
    Step("writebatch.before", "the WriteBatch is about to be written"),
    Step("writebatch.after", "it is written: the commit point"),
    Step("wal.before", "the WAL is about to be synced"),
    Step("wal.after", "the WAL is synced"),
    Step("mark.before", "the mark is about to be set"),
    Step("mark.after", "the mark is set"),
    Step("group.done", "the executor is done with the group"),
    Step("publish.before", "the logs are about to take over what the group did"),
    Step("publish.after", "they did"),
    Step("slot.before", "a Produce is about to learn the outcome"),
    Step("slot.after", "its answer may leave"),
    Step("answers.before", "the answers of a connection are about to be collected"),
    Step("socket.before", "an answer is about to be written to a socket"),
    Step("socket.after", "it is written"),
    # groups
    Step("group.step", "a request of a member is about to change its group", passes=RARE),
    Step("offsets.before", "an OffsetCommit is about to be taken"),
    Step("offsets.taken", "its rows are in the open turn"),
    Step("group.landed", "what a group wrote is stored, nobody is told yet"),
    # share groups
    Step("member.step", "a heartbeat is about to change its share group", passes=RARE),
    Step("member.landed", "what the share group wrote is stored, nobody is told yet", passes=RARE),
    Step("subscription.before", "the rows of a new subscription are about to be made", passes=RARE),
    Step("subscription.after", "they are about to be committed", passes=RARE),
    Step("unsubscribe.before", "subscriptions are about to be deleted", passes=RARE),
    Step("unsubscribe.after", "they are, the client is not told", passes=RARE),
    Step("selector.before", "who has which keys is about to be written", passes=RARE),
    Step("share.acquired", "records are acquired, their consumer is not told yet"),
    Step("ack.before", "acknowledgements are about to be taken"),
    Step("ack.taken", "they are taken, and in the open turn"),
    Step("ack.stored", "they are stored, their consumer is not told yet"),
    Step("cursor.before", "the rows of a cursor are about to be made"),
    Step("cursor.after", "they are in the turn's writes"),
    Step(
        "cursor.tick", "locks that ran out and due times are about to take effect", passes=((1, 1), (2, 10))
    ),
    Step("cursor.ticked", "they did, who waits is woken", passes=((1, 1), (2, 10))),
    Step("letter.before", "dead letters are about to be appended", passes=((1, 1), (2, 6))),
    Step("letter.after", "they are in the open turn, with the end of their records", passes=((1, 1), (2, 6))),
    Step("letter.topic", "a dead letter topic is about to be made", passes=RARE),
    Step("letter.made", "it is in the open turn with its first letters", passes=RARE),
    Step("retry.completed", "retry letters are completed, about to be appended", passes=RARE),
    # topics
    Step("create.before", "a topic is about to be made", passes=RARE),
    Step("delete.before", "a topic is about to be deleted", passes=RARE),
    Step("catalog.before", "a change of the catalog is about to be committed", passes=RARE),
    Step("catalog.after", "it is committed, the client is not told", passes=RARE),
    Step("namespace.before", "a change of a namespace is about to be committed", passes=RARE),
    Step("namespace.after", "it is committed, the client is not told", passes=RARE),
    Step("expire.before", "what is old of a subscription is about to be settled", passes=RARE),
    Step("expire.after", "it is, and stored", passes=RARE),
    Step("evict.before", "messages are about to be evicted for their size", passes=RARE),
    Step("evict.after", "they are, and it is stored", passes=RARE),
    Step("drop.before", "a log is about to be dropped in a group", passes=RARE),
    Step("drop.after", "its rows are in the WriteBatch", passes=RARE),
    Step("trim.asked", "DeleteRecords is about to be taken", passes=RARE),
    Step("trim.before", "a log is about to be trimmed in a group", passes=RARE),
    Step("trim.after", "its rows are in the WriteBatch", passes=RARE),
    Step("trim.done", "the trim is stored, the client is not told", passes=RARE),
    # checkpoints
    Step("checkpoint.begins", "a checkpoint begins", passes=RARE),
    Step("checkpoint.taken", "what is to be synced is known, a new generation has begun", passes=RARE),
    Step("checkpoint.sync", "a segment is about to be synced", passes=((1, 1), (2, 5), (6, 20))),
    Step("checkpoint.names", "the names of new segments are about to be synced", passes=RARE),
    Step("checkpoint.synced", "everything is synced", passes=RARE),
    Step("checkpoint.forget", "rows that recovery needs no more are about to go", passes=RARE),
    Step("checkpoint.forgotten", "they are gone", passes=RARE),
    Step("unlink.before", "files are about to be removed", passes=RARE),
    Step("unlink.one", "one file is removed", passes=((1, 1), (2, 4))),
    Step("unlink.after", "all are removed, and their names synced", passes=RARE),
    # a start
    Step("start.database", "RocksDB is open", S, ONCE),
    Step("start.recovery", "recovery begins", S, ONCE),
    Step("start.doomed.one", "one file that was doomed is removed", S, ONCE, after="trim.done"),
    Step("start.doomed", "files that were doomed are removed", S, ONCE),
    Step("start.redo", "the journal is about to be written to the segments", S, ONCE),
    Step("start.redo.half", "half of a journal row's payload is written", S, ((1, 1), (2, 3)), "group.done"),
    Step("start.redone", "the journal is in the segments", S, ONCE),
    Step("start.check", "a log is about to be checked", S, ((1, 1), (2, 4)), "group.done"),
    Step("start.sync", "the segments are about to be synced", S, ONCE),
    Step("start.synced", "they are synced", S, ONCE),
    Step("start.rows.before", "what recovery found is about to be written", S, ONCE),
    Step("start.rows.after", "it is written", S, ONCE),
    Step("start.rows.synced", "it is synced", S, ONCE),
    Step("start.strangers", "bytes that no commit speaks of are about to be moved", S, ONCE),
    Step("start.tail.before", "a tail is about to be copied aside", S, ONCE, "segment.half"),
    Step("start.tail.cut", "it is copied, and about to be cut off", S, ONCE, "segment.half"),
    Step("start.tail.after", "it is cut off", S, ONCE, "segment.half"),
    Step("start.epoch", "recovery is over, the new epoch is not written", S, ONCE),
    Step("start.mark.before", "the epoch is written, the new mark is not there", S, ONCE),
    Step("start.mark.after", "the new mark is in the old one's place", S, ONCE),
    Step("start.opened", "the store is open", S, ONCE),
    Step("start.listening", "the listener is about to serve", S, ONCE),
    # a stop
    Step("stop.listener", "SIGTERM: the listener is about to stop", E, ONCE),
    Step("stop.close", "the store is about to be closed", E, ONCE),
    Step("stop.checkpoint", "the last checkpoint is about to be made", E, ONCE),
    Step("stop.clean", "the mark of a clean end is about to be written", E, ONCE),
    Step("stop.database", "it is written, RocksDB is about to be closed", E, ONCE),
    Step("stop.closed", "the store is closed", E, ONCE),
)

NUMBERS = {step.name: number for number, step in enumerate(STEPS, 1)}
