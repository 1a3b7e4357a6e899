"""Whose dead letters are meant: a subscription on a topic, the topic that they are in, and where they go again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.redrive.letter import origin
from gateway.broker.subscriptions import letter_names
from semantics.group_names import bare

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.subscriptions.subscription import Subscription
    from semantics.console.letter_filter import DeadLetter


class Graves(NamedTuple):
    """The dead letters of one subscription on the topic `base`, which may lie among those of others."""

    group: str
    base: Topic
    # Pulsar's full name of it
    full: str
    # names in the catalog
    letters: str
    retries: str
    key_shared: bool
    # whether nobody chose another topic for the letters, and it is of the namespace of the base
    own_letters: bool
    # why nothing can be sent to a RETRY topic of that name
    no_retries: str | None

    def holds(self, letter: DeadLetter) -> bool:
        """Whether a letter is one of them. One that does not say whose it is, is: a client has put it there."""
        where = origin(letter)
        if where.real_topic and where.real_topic != self.full:
            return False
        whose = where.group or where.real_subscription
        return not whose or whose == bare(self.group)


def graves_of(catalog: Catalog, subscription: Subscription) -> Graves | None:
    """Those of a subscription; of one on a RETRY topic, those of the topic whose retries these are. None where that
    topic is gone.
    """
    base = catalog.get(subscription.base or subscription.topic)
    if base is None:
        return None
    config, group = subscription.config, subscription.group
    letters, retries = config.dead_letters_of(group, base.name), config.retries_of(group, base.name)

    def strays(name: str, said: str | None) -> str | None:
        return letter_names.strays(catalog, base.name, name) if said is None else None

    return Graves(
        group,
        base,
        letter_names.full_name(catalog, base.name),
        letters,
        retries,
        config.subscription.type == "key_shared",
        config.dead_letter_topic is None and strays(letters, None) is None,
        strays(retries, config.retry_letter_topic),
    )
