"""A placement of two nodes, as APIs see it."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.broker.catalog import Topic
from gateway.broker.placement import Advertised


class TwoNodes:
    """7 and 8 lead partitions by turns; 8 is the controller and coordinates keys that end in an even digit."""

    def __init__(self) -> None:
        self.version = 1
        self.controller = 8
        self.ids = (7, 8)
        self.gone: set[int] = set()

    def nodes(self, listener: str) -> Sequence[Advertised]:
        both = [
            Advertised(7, "seven.example", 9092, None),
            Advertised(8, f"eight.{listener}.example", 9093, "r"),
        ]
        return [each for each in both if each.id not in self.gone]

    def replicas(self, topic: Topic) -> Sequence[list[int]]:
        return [[7 + index % 2] for index in range(len(topic.partitions))]

    def coordinator(self, key: str) -> int:
        return 7 if int(key[-1]) % 2 else 8
