"""What happens to a transactional id (events), and what comes of it.

`token` is whatever the caller wants back when the request is answered; the machine only stores it. Every event that
is a request knows how it is refused. `new_id` is a producer id that nobody has had, or None; a step that needs one
and has none changes nothing and says `NeedId`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from semantics.transactions.codes import Code
from semantics.transactions.rows import Row
from semantics.transactions.states import Partition, Producer

Token = Any

NOBODY = Producer(-1, -1)
"""What an answer names if there is no producer to name."""


class ProducerAnswer(NamedTuple):
    """To InitProducerId and EndTxn: an error code, and the producer to be from now on (EndTxn: on the wire from v5)."""

    error: int
    producer: Producer = NOBODY


class Plain(NamedTuple):
    """To all others: an error code."""

    error: int


class Init(NamedTuple):
    """InitProducerId. `producer`: who the client says that it is (v3 on), or None."""

    token: Token
    timeout_ms: int
    producer: Producer | None = None
    new_id: int | None = None

    def refused(self, error: int) -> ProducerAnswer:
        return ProducerAnswer(error)


class AddPartitions(NamedTuple):
    """AddPartitionsToTxn."""

    token: Token
    producer: Producer
    partitions: Sequence[Partition]

    def refused(self, error: int) -> Plain:
        return Plain(error)


class AddOffsets(NamedTuple):
    """AddOffsetsToTxn."""

    token: Token
    producer: Producer
    group_id: str

    def refused(self, error: int) -> Plain:
        return Plain(error)


class EndTxn(NamedTuple):
    """EndTxn. `bumps`: version 5 on, whose ends give the producer another epoch (KIP-890)."""

    token: Token
    producer: Producer
    committed: bool
    bumps: bool
    new_id: int | None = None

    def refused(self, error: int) -> ProducerAnswer:
        return ProducerAnswer(error)


class Abort(NamedTuple):
    """Somebody else wants the transaction gone (WriteTxnMarkers of a tool). Its producer may go on in another epoch.

    A marker on one partition alone would tear the transaction, so all of it is aborted.
    """

    token: Token
    producer: Producer
    new_id: int | None = None

    def refused(self, error: int) -> Plain:
        return Plain(error)


class Fence(NamedTuple):
    """A power cut took what was acknowledged: what its producer was told may not be so. Nobody goes on as it."""

    token: Token
    new_id: int | None = None

    def refused(self, error: int) -> Plain:
        return Plain(error)


class Tick(NamedTuple):
    """Time has passed."""

    new_id: int | None = None


Event = Init | AddPartitions | AddOffsets | EndTxn | Abort | Fence | Tick


class Answer(NamedTuple):
    token: Token
    value: ProducerAnswer | Plain


class NeedId(NamedTuple):
    """Nothing was done: the event is to come again with `new_id`. `token` is None for a Tick."""

    token: Token


class Note(NamedTuple):
    """Something for the log."""

    text: str


Effect = Answer | NeedId | Note


class End(NamedTuple):
    """The end of a transaction: markers on its partitions, and its groups' staged offsets taken or dropped.

    `epoch` is that of the markers. It lies above the producer's if that is fenced or gets another.
    A partition or group that is gone is to be passed over.
    """

    producer_id: int
    epoch: int
    committed: bool
    partitions: tuple[Partition, ...]
    groups: tuple[str, ...]


class Step(NamedTuple):
    """What one event leads to: `rows` and `end` make one commit, `effects` happen once it is durable."""

    rows: Sequence[Row]
    end: End | None
    effects: Sequence[Effect]


class Admitted(NamedTuple):
    """Whether a batch or a commit of offsets may be written in the transaction, and the rows to write with it."""

    error: Code
    rows: Sequence[Row] = ()
