"""The same consumer with group.protocol=consumer: it gives up what it is told to, and keeps the rest."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from gateway.apis.offset_fetch import offset_fetch
from gateway.broker.consumer_groups import Beating
from gateway.broker.machines import Caller
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.proofs.simulate.lanes.member import REBALANCE_MS, TOPIC, Member, context
from tests.proofs.simulate.ledger import Broken

_BEGINS_ANEW = (Error.UNKNOWN_MEMBER_ID, Error.FENCED_MEMBER_EPOCH, Error.FENCED_INSTANCE_ID)


class NewMember(Member):
    """See the module. Its generation is its member epoch."""

    def begin(self) -> None:
        super().begin()
        self.life = getattr(self, "life", 0) + 1
        """answers to what it asked in an earlier one are nothing to it"""
        self.mine: dict[int, int] = {}
        """its lanes, each with a number that says which time it has it"""
        self.taken = 0
        self.beating = False
        self.unsure = False
        """whether an answer was lost: then it says all that it knows"""

    # -- the group ---------------------------------------------------------------------------------------------------

    def join(self) -> None:
        self.state = "joining"
        if not self.id:
            self.id = self.world.new_id(self)
        self.generation = 0
        self.heartbeat()

    def _beating(self, epoch: int, *, whole: bool, owned: Collection[int] = ()) -> Beating:
        topic_id = self.world.broker.catalog.get(TOPIC).topic_id
        return Beating(
            "g",
            self.id,
            epoch,
            self.instance,
            None,
            REBALANCE_MS if whole else -1,
            (TOPIC,) if whole else None,
            None,
            None,
            frozenset((topic_id, lane) for lane in owned),
            ("h", self.name),
            Caller(lambda answer: answer),
        )

    def heartbeat(self) -> None:
        if self.beating:
            return
        world, life = self.world, self.life
        self.beating, self.beat = True, world.now
        said = self._beating(
            self.generation, whole=self.unsure or self.state == "joining", owned=tuple(self.mine)
        )
        self.unsure = False

        def told(answer: Any) -> None:
            if self.life == life and not self.gone:
                self.beating = False
                self._told(answer)

        def never() -> None:
            if self.life == life:
                self.beating, self.unsure = False, True

        world.when(world.broker.consumer_groups.heartbeat(said), told, never)

    def _told(self, answer: Any) -> None:
        if answer.error in _BEGINS_ANEW:
            kept = self.id if self.world.random.random() < 0.5 else ""
            self.lost()
            self.id = kept
        elif answer.error:
            # its instance has a member yet, or the group is being read
            self.unsure = True
            if self.state == "joining":
                self.state, self.since = "out", self.world.now + 200
        else:
            if self.state == "joining":
                self.state, self.committed = "in", self.world.now
            self.generation = answer.epoch
            if answer.assignment is not None:
                self._assigned({lane for _, lane in answer.assignment})

    def _assigned(self, lanes: set[int]) -> None:
        for lane in [lane for lane in self.mine if lane not in lanes]:
            # what is done is said before the lane is not reported any more
            if lane in self.done and not self.stuck:
                names = {at: verb for at, verb in self.names.get(lane, {}).items() if at < self.done[lane]}
                self.send(lane, self.done[lane], names, self.id, self.generation)
            self._give_up(lane)
        gained = sorted(lanes - self.mine.keys())
        for lane in gained:
            self.taken += 1
            self.mine[lane] = self.taken
        if gained:
            self._place(self.life, {lane: self.mine[lane] for lane in gained})

    def _give_up(self, lane: int) -> None:
        if (at := self.at.pop(lane, None)) is not None:
            at.watchers.discard(self)
        for those in (self.mine, self.lanes, self.work, self.done, self.names):
            those.pop(lane, None)

    def _place(self, life: int, gained: dict[int, int]) -> None:
        """It asks where to begin on these lanes, as long as it has them from this time."""
        lanes = [lane for lane, taken in gained.items() if self.mine.get(lane) == taken]
        if self.life != life or self.gone or not lanes:
            return
        asked = messages.OffsetFetchRequest
        group = asked.OffsetFetchRequestGroup(
            group_id="g",
            member_id=self.id,
            member_epoch=self.generation,
            topics=[asked.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=lanes)],
        )
        again = partial(self._place, life, gained)

        def placed(answer: Any) -> None:
            (found,) = answer.groups
            if found.error_code or any(each.error_code for each in found.topics[0].partitions):
                # its lanes are being written, or its epoch is another by now
                self.world.later(again)
                return
            for each in found.topics[0].partitions:
                lane = each.partition_index
                if each.committed_offset < 0:
                    raise Broken(f"OffsetFetch answers {each.committed_offset} for lane {lane}")
                if self.life == life and self.mine.get(lane) == gained[lane]:
                    self.lanes[lane] = each.committed_offset

        self.world.when(
            offset_fetch(
                self.world.broker, context(ApiKey.OFFSET_FETCH, 9), asked(groups=[group], require_stable=True)
            ),
            placed,
            lambda: self.world.later(again),
        )

    def leave(self) -> None:
        """In good order; a static member may say that it comes back."""
        world = self.world
        if self.state == "in" and self.done and world.random.random() < 0.7:
            self.commit()
        if self.id and self.state == "in":
            epoch = -2 if self.instance is not None and world.random.random() < 0.5 else -1
            leaving = self._beating(epoch, whole=False)
            world.when(world.broker.consumer_groups.leave(leaving), lambda answer: None)
        self.lost()
        self.since = world.now + world.random.randint(0, 2_000)

    def cut(self) -> None:
        self.at = {}
        self._asked += 1
        if self.state == "joining":
            self.state = "out"
