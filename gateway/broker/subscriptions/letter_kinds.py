"""What is the same or other about dead letters and about retry letters that the server writes.

| | dead letter | retry letter |
|---|---|---|
| the record is | DYING | in BACKOFF until it is to come again, counting nothing |
| goes to | the dead letter topic | the retry letter topic, which the same subscription reads |
| cannot be stored now | tried again after a while that doubles | comes again when its time is over, as after a nack |

Source: semantics.md, "reconsume later"; Pulsar's ConsumerImpl.reconsumeLater.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from gateway.broker.subscriptions import letter_names
from gateway.broker.subscriptions.collecting import Impossible
from gateway.broker.subscriptions.ports import Named, Place
from gateway.wire import letters
from semantics.names import is_canonical

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog
    from gateway.broker.subscriptions.node import Delivering
    from gateway.metrics_catalog import GatewayMetrics
    from gateway.wire.batch import Buffer
    from gateway.wire.delivery import Found
    from semantics.subscriptions.cursor import Cursor
    from semantics.subscriptions.states import Dying

log = logging.getLogger("magnetar.subscriptions")

FIRST_RETRY_MS = 1000
LAST_RETRY_MS = 60_000


class Losing(Place, Protocol):
    """The cursor whose records die."""

    @property
    def gone(self) -> bool:
        """Whether the subscription was deleted."""
        ...

    def discard(self) -> None:
        """The cursor says what is not stored: throw it away."""
        ...

    def burial_over(self) -> None:
        """All that one turn found dying is seen to."""
        ...

    def letters_stored(self) -> None:
        """Dead letters are on their way into their topic again."""
        ...

    def letters_put_off(self) -> int:
        """Some could not be stored: how often in a row that had happened before."""
        ...


class LetterKind(Protocol):
    """See the module."""

    @property
    def called(self) -> str:
        """For people."""
        ...

    def topic(self, catalog: Catalog, subscription: Named, base: str) -> str:
        """Where letters of records of the topic `base` go. Raises Impossible."""
        ...

    def reader(self, subscription: Named) -> str | None:
        """Whose subscription is made with the topic, so that nothing in it is missed."""
        ...

    def letter(
        self, source: letters.Source, found: Found, part: Dying, message_id: str | None
    ) -> letters.Letter:
        """The letter of a record."""
        ...

    def whole(
        self, source: letters.Source, batch: Buffer, part: Dying, message_id: str | None
    ) -> letters.Letter:
        """The letter of a batch that cannot be opened. Raises Impossible, BatchError."""
        ...

    def settle(self, cursor: Cursor, ranges: Sequence[tuple[int, int]]) -> None:
        """The letters are in the open turn: the records are done."""
        ...

    def sent(self, at: Losing) -> None:
        """Some are on their way."""
        ...

    def put_off(
        self,
        node: Delivering,
        at: Losing,
        cursor: Cursor,
        ranges: Sequence[tuple[int, int]],
        reason: str,
    ) -> None:
        """These could not be made."""
        ...

    def over(self, at: Losing) -> None:
        """All that was to be done in one go is done, or put off."""
        ...

    def stored(self, metrics: GatewayMetrics, counts: Mapping[str, int]) -> None:
        """So many letters are stored, by their reason."""
        ...


class Dead:
    """Dead letters."""

    called = "dead letter"

    def topic(self, catalog: Catalog, subscription: Named, base: str) -> str:
        config = subscription.config
        name = config.dead_letters_of(subscription.group, base)
        if config.dead_letter_topic is None and letter_names.is_dead_letters(catalog, subscription.topic):
            raise Impossible(
                f"'{subscription.topic}' holds dead letters itself, and they have none unless "
                "pulsar.dead.letter.topic says where"
            )
        if name in (base, subscription.topic, config.retries_of(subscription.group, base)):
            raise Impossible(f"'{name}' cannot hold dead letters: the group would be given them again")
        if config.dead_letter_topic is None and (why := letter_names.strays(catalog, base, name)) is not None:
            raise Impossible(f"{why}: say with pulsar.dead.letter.topic where they go")
        return name

    def reader(self, subscription: Named) -> str | None:
        return subscription.config.dead_letter_subscription

    def letter(
        self, source: letters.Source, found: Found, part: Dying, message_id: str | None
    ) -> letters.Letter:
        return letters.letter(source, found, part.count, part.reason, message_id)

    def whole(
        self, source: letters.Source, batch: Buffer, part: Dying, message_id: str | None
    ) -> letters.Letter:
        return letters.unreadable_letter(source, batch, part.count, part.reason, message_id)

    def settle(self, cursor: Cursor, ranges: Sequence[tuple[int, int]]) -> None:
        cursor.buried(ranges)

    def sent(self, at: Losing) -> None:
        at.letters_stored()

    def put_off(
        self,
        node: Delivering,
        at: Losing,
        cursor: Cursor,
        ranges: Sequence[tuple[int, int]],
        reason: str,
    ) -> None:
        node.metrics.dead_letters_refused.value += 1
        failed = at.letters_put_off()
        wait = min(FIRST_RETRY_MS << min(failed, 16), LAST_RETRY_MS)
        if not failed:
            log.error(
                "dead letters of group %s on topic %s, partition %d are put off: %s; they stay open and are tried "
                "again.",
                at.subscription.group,
                at.subscription.topic,
                at.index,
                reason,
            )
        cursor.not_buried(ranges, reason, node.clock.wall_ms() + wait)

    def over(self, at: Losing) -> None:
        at.burial_over()

    def stored(self, metrics: GatewayMetrics, counts: Mapping[str, int]) -> None:
        for reason, count in counts.items():
            metrics.dead_letters.labels(reason).value += count


DEAD = Dead()


class Retry:
    """Retry letters that are to be delivered after one delay."""

    called = "retry letter"

    def __init__(self, catalog: Catalog, subscription: Named, delay_ms: int) -> None:
        self._catalog = catalog
        self._subscription = subscription
        self._delay_ms = delay_ms

    def topic(self, catalog: Catalog, subscription: Named, base: str) -> str:
        config = subscription.config
        name = config.retries_of(subscription.group, base)
        if (
            config.retry_letter_topic is None
            and (why := letter_names.strays(catalog, base, name)) is not None
        ):
            raise Impossible(f"{why}: say with pulsar.retry.letter.topic where they go")
        if is_canonical(name) and not catalog.namespaces.may_subscribe(subscription.group, name):
            raise Impossible(f"'{name}' is of another home than the group, which would never be given them")
        return name

    def reader(self, subscription: Named) -> str | None:
        return subscription.group

    def letter(
        self, source: letters.Source, found: Found, part: Dying, message_id: str | None
    ) -> letters.Letter:
        base = letter_names.name_of(source.real_topic) or self._subscription.topic
        retries = self._subscription.config.retries_of(source.group, base)
        return letters.retry_letter(
            source, letter_names.full_name(self._catalog, retries), found, self._delay_ms, message_id
        )

    def whole(
        self, source: letters.Source, batch: Buffer, part: Dying, message_id: str | None
    ) -> letters.Letter:
        raise Impossible("its batch cannot be opened")

    def settle(self, cursor: Cursor, ranges: Sequence[tuple[int, int]]) -> None:
        cursor.resent(ranges)

    def sent(self, at: Losing) -> None:
        """Nobody counts."""

    def put_off(
        self,
        node: Delivering,
        at: Losing,
        cursor: Cursor,
        ranges: Sequence[tuple[int, int]],
        reason: str,
    ) -> None:
        log.warning(
            "records of group %s on topic %s, partition %d do not go to the retry letter topic: %s; they come again "
            "when their time is over.",
            at.subscription.group,
            at.subscription.topic,
            at.index,
            reason,
        )

    def over(self, at: Losing) -> None:
        """There may be others beside it."""

    def stored(self, metrics: GatewayMetrics, counts: Mapping[str, int]) -> None:
        metrics.retry_letters.value += sum(counts.values())
