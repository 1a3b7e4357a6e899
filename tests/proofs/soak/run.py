"""The soak: start, kill, start again, look; at random instants, and at every numbered step."""

from __future__ import annotations

import random
import signal
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tqdm import tqdm

from compat.peers.process import PeerError
from tests.proofs.soak import reading
from tests.proofs.soak.gateway import Gateway
from tests.proofs.soak.loads import KINDS, TOPICS, Load, World, all_loads
from tests.proofs.soak.oracle import Oracle
from tests.proofs.soak.proxy import Proxy
from tests.proofs.soak.steps import NUMBERS, STEPS, Step, When
from tests.proofs.soak.wire import Wire

STALL = 60.0
"""So long may everybody be without an acknowledgement, and a step without being reached."""
ENDING = 900.0
"""So long may a client take to end. Whether it stands still meanwhile, it says itself."""
FROZEN = 1.5
"""So long may a gateway stand still, seconds: shorter than the sessions of members."""
TRIES = 6
"""So many starts may pass a step of the start without having anything to do there."""


class Failed(Exception):
    """The run cannot go on: clients or gateway are stuck, or the oracle is unhappy."""


@dataclass
class Plan:
    """What a run does. The same plan makes the same choices; what the machine makes of them differs."""

    seed: int
    kills: int = 200
    minutes: float = 0.0
    durabilities: tuple[str, ...] = ("os", "fsync")
    steps: tuple[Step, ...] = STEPS
    # of each step, how many of its passes
    passes: int = 3
    sabotage: str = ""
    # which loads
    kinds: tuple[str, ...] = KINDS
    quiet: bool = False


@dataclass
class Figures:
    random_kills: int = 0
    # those of them before the gateway had answered anything, and while it stopped
    starting_kills: int = 0
    stopping_kills: int = 0
    step_kills: int = 0
    # SIGSTOP, and SIGCONT later
    freezes: int = 0
    steps: set[str] = field(default_factory=set)
    starts: list[float] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    checks: int = 0
    # the last client that went on after the last kill, and how long it took
    slowest: tuple[float, str] = (0.0, "")
    seconds: float = 0.0


class Soak:
    """One run in one folder."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.chance = random.Random(plan.seed)
        self.gateway = Gateway(folder)
        self.world = World(self.gateway.port, plan.seed, self.gateway.admin_port)
        self.proxy = Proxy(self.gateway.proxied_port, f"{plan.seed} proxy")
        self.world.late = self.proxy.held
        self.loads: list[Load] = all_loads(self.world, plan.kinds)
        self.oracle = Oracle(self.world.producers)
        self.figures = Figures()
        self._began = time.monotonic()

    # the whole

    def run(self) -> None:
        """Raises Failed; `violations` and `figures` say the rest."""
        self.gateway.durability = self.plan.durabilities[0]
        # for all together; some clients need longer to give up a gateway that is gone, and end later by themselves
        patience = 5.0
        try:
            self.proxy.start()
            self.world.proxy_port = self.gateway.proxy_port = self.proxy.port
            self._start()
            self._make_topics()
            for load in self.loads:
                load.start()
            share = self.plan.kills // len(self.plan.durabilities)
            for number, durability in enumerate(self.plan.durabilities):
                self.gateway.durability = durability
                last = number == len(self.plan.durabilities) - 1
                kills = self.plan.kills - share * number if last else share
                self._random_kills(kills, durability)
                self._steps(durability)
            self._end()
        except (PeerError, OSError) as error:
            self.world.abandoned = True
            raise Failed(str(error)) from error
        except BaseException as error:
            self.world.abandoned = True
            if isinstance(error, KeyboardInterrupt):
                patience = 0.0
            raise
        finally:
            self.world.stop.set()
            self.gateway.close()
            self.proxy.close()
            deadline = time.monotonic() + patience
            for load in self.loads:
                load.let_go(max(0.0, deadline - time.monotonic()))
            self.figures.seconds = time.monotonic() - self._began

    @property
    def violations(self) -> list[str]:
        return [*self.oracle.violations, *self.world.failures]

    def _make_topics(self) -> None:
        with Wire(self.gateway.port) as wire:
            for name, (partitions, configs) in TOPICS.items():
                wire.create(name, partitions, configs)
        for load in self.loads:
            load.prepare()

    # kills at random

    def _random_kills(self, kills: int, durability: str) -> None:
        began = time.monotonic()
        least = self.plan.minutes * 60 / len(self.plan.durabilities)
        with self._bar(kills, f"random kills, {durability}") as bar:
            done = 0
            while done < kills or time.monotonic() - began < least:
                done += self._one_random_kill()
                bar.update(min(done, kills) - bar.n if done <= kills else 0)
                bar.set_postfix(acked=self._moved(), refresh=False)

    def _one_random_kill(self) -> int:
        """Let it run for a while, kill it somehow, start it, look. How many kills it was."""
        chance = self.chance
        way = chance.random()
        count = 1
        if way < 0.12:
            # a start is cut short, perhaps more than once
            self.gateway.kill()
            for _ in range(chance.randrange(1, 4)):
                self.gateway.begin(sabotage=self.plan.sabotage)
                time.sleep(chance.random() * 0.6)
                self.gateway.kill()
                count += 1
                self.figures.starting_kills += 1
        elif way < 0.2:
            self._go_on(chance.randrange(1, 500))
            self.gateway.terminate()
            if self.gateway.wait(chance.random() * 0.3) is None:
                self.gateway.kill()
                self.figures.stopping_kills += 1
        else:
            if way < 0.7:
                self._go_on(chance.randrange(1, 2000))
            if chance.random() < 0.15:
                self.gateway.freeze(chance.random() * FROZEN)
                self.figures.freezes += 1
            time.sleep(chance.random() * 0.5)
            self.gateway.kill()
        self.figures.random_kills += count
        if chance.random() < 0.2:
            time.sleep(chance.random() * 0.5)
        self._start()
        self._check(restarted=True)
        return count

    # kills at steps

    def _steps(self, durability: str) -> None:
        work = [(step, passes) for step in self.plan.steps for passes in step.passes[: self.plan.passes]]
        if not work:
            return
        if self.gateway.running:
            self.gateway.kill()
        self._start(victim=True)
        self._check(restarted=True)
        with self._bar(len(work), f"steps, {durability}") as bar:
            for step, (low, high) in work:
                bar.set_postfix(step=step.name, acked=self._moved(), refresh=False)
                self._kill_at(step, self.chance.randint(low, high))
                bar.update()

    def _kill_at(self, step: Step, passes: int) -> None:
        if step.when is When.STARTING:
            self._kill_start(step, passes)
        else:
            self._go_on(1)
            self.gateway.arm(step.name, passes)
            if step.when is When.STOPPING:
                time.sleep(0.05)
                self.gateway.terminate()
            self._died_at(step, passes)
        self.figures.step_kills += 1
        self.figures.steps.add(step.name)
        self._start(victim=True)
        self._check(restarted=True)

    def _died_at(self, step: Step, passes: int) -> None:
        code = self.gateway.wait(STALL)
        if code != -9:
            what = "it goes on" if code is None else f"it ended with {code}"
            raise Failed(f"step {NUMBERS[step.name]}, {step.name}, was not passed {passes} times: {what}")

    def _kill_start(self, step: Step, passes: int) -> None:
        for attempt in range(TRIES):
            self._go_on(300)
            if step.after:
                self.gateway.arm(step.after, 1)
                self._died_at(next(each for each in STEPS if each.name == step.after), 1)
            else:
                self.gateway.kill()
            self.gateway.begin(victim=True, arm=f"{step.name} {passes if attempt < 3 else 1}")
            if self._ready() is None:
                return
            self._check(restarted=True)
        raise Failed(f"step {NUMBERS[step.name]}, {step.name}, was not reached in {TRIES} starts")

    # parts

    def _start(self, *, victim: bool = False) -> None:
        first = not self.figures.starts
        self.gateway.begin(victim=victim, sabotage=self.plan.sabotage)
        took = self._ready()
        if took is None:
            raise Failed("a start ended by SIGKILL, and nobody sent it")
        self.figures.starts.append(took)
        if not first:
            self.figures.recoveries.append(took)

    def _ready(self) -> float | None:
        """How long a start took; None when it ended by SIGKILL."""
        try:
            return self.gateway.ready()
        except PeerError as error:
            if error.code != -signal.SIGKILL:
                raise
            return None

    def _check(self, *, restarted: bool) -> None:
        reading.check(self.world, self.loads, self.oracle, restarted=restarted)
        self.figures.checks += 1
        if self.violations:
            raise Failed("what clients were told does not hold")

    def _moved(self) -> int:
        return sum(load.moved for load in self.loads)

    def _go_on(self, count: int) -> None:
        """Until so much more was acknowledged, by every one of the loads something."""
        target = self._moved() + count
        deadline = time.monotonic() + STALL
        while self._moved() < target:
            if self.world.failures:
                raise Failed("a client gave up")
            if time.monotonic() > deadline:
                raise Failed(f"nothing was acknowledged for {STALL:.0f} s")
            time.sleep(0.002)

    def _end(self) -> None:
        """Everybody moves once more, producers finish, groups read to the end; then all is read again."""
        before = {load.name: load.moved for load in self.loads}
        began = time.monotonic()
        while still := [
            load.name for load in self.loads if load.moved == before[load.name] and load.name not in _MAY_IDLE
        ]:
            took = time.monotonic() - began
            if took > 2 * STALL:
                raise Failed(f"not within {2 * STALL:.0f} s: {', '.join(still)} did not go on")
            self.figures.slowest = took, still[-1]
            time.sleep(0.02)
        self.world.stop.set()
        for load in self.loads:
            load.finish(ENDING)
        self._check(restarted=False)
        if self.world.failures:
            raise Failed("a client gave up")
        for durability in (self.gateway.durability, "os"):
            # stopped cleanly, then started, and read from the first record that is left
            self.gateway.terminate()
            if (code := self.gateway.wait(60)) != 0:
                raise Failed(f"the gateway ended with {code} after SIGTERM")
            self.gateway.durability = durability
            self._start()
            self._check(restarted=True)
            ends = {place: log.end for place, log in self.oracle.logs.items()}
            starts = {place: log.start for place, log in self.oracle.logs.items()}
            reading.read(self.world, self.oracle, starts, ends)
        self.oracle.finish()
        self.gateway.terminate()
        self.gateway.wait(60)
        found = self.gateway.verify()
        (self.folder / "verify.log").write_text(found.stdout + found.stderr)
        if found.returncode:
            raise Failed(f"`magnetar store verify` found damage; see {self.folder / 'verify.log'}")
        if self.violations:
            raise Failed("what clients were told does not hold")

    def _bar(self, total: int, text: str) -> tqdm:
        often = 0.1 if sys.stderr.isatty() else 10
        return tqdm(total=total, desc=f"{text:<20}", unit="kill", disable=self.plan.quiet, mininterval=often)

    def table(self) -> str:
        figures, seen = self.figures, self.oracle.seen
        starts = sorted(figures.recoveries) or [0.0]
        late = ", ".join(f"{count:,} {name}" for name, count in sorted(self.world.late.items())) or "none"
        lines = [
            ("kills at random", f"{figures.random_kills:,}"),
            ("  during a start, during a stop", f"{figures.starting_kills:,}, {figures.stopping_kills:,}"),
            ("kills at steps", f"{figures.step_kills:,} at {len(figures.steps)} of {len(STEPS)} steps"),
            ("stops (SIGSTOP) and late requests", f"{figures.freezes:,}, {late}"),
            ("checks", f"{figures.checks:,}"),
            ("records acknowledged", f"{seen['acknowledged']:,}"),
            ("  delivered to groups", f"{seen['delivered']:,}"),
            ("records read and compared", f"{seen['read']:,}"),
            ("doubles of plain producers", f"{seen['doubles of plain producers']:,}"),
            ("offsets of groups compared", f"{seen['committed offsets checked']:,}"),
            ("share deliveries, again", f"{seen['share deliveries']:,}, {seen['share redeliveries']:,}"),
            ("  acknowledgements answered", f"{seen['share acknowledgements answered']:,}"),
            (
                "  records settled, dead letters",
                f"{seen['share records settled']:,}, {seen['dead letters']:,}",
            ),
            ("queue deliveries, again", f"{seen['queue deliveries']:,}, {seen['queue redeliveries']:,}"),
            (
                "  acknowledged, dead letters",
                f"{seen['queue acknowledgements']:,}, {seen['queue dead letters']:,}",
            ),
            ("  deliveries of lanes read again", f"{seen['queue deliveries read again']:,}"),
            (
                "transactions whole, aborted",
                f"{seen['transactions whole']:,}, {seen['transactions aborted']:,}",
            ),
            (
                "  done on lanes, dead letters",
                f"{seen['lane acknowledgements in transactions']:,}, "
                f"{seen['lane dead letters in transactions']:,}",
            ),
            ("  answers to zombies", f"{seen['zombies']:,}"),
            ("  hops of the ring, assignments", f"{seen['hops']:,}, {seen['assignments']:,}"),
            ("records compacted away", f"{seen['records compacted away']:,}"),
            ("policies compared", f"{seen['policies compared']:,}"),
            ("  messages expired, deliveries", f"{seen['policy expired']:,}, {seen['policy deliveries']:,}"),
            (
                "  named messages, ended topics",
                f"{seen['named messages read']:,}, {seen['ended topics looked at']:,}",
            ),
            ("topics compared", f"{seen['topics checked']:,}"),
            ("start to the first answer", f"p50 {statistics.median(starts):.2f} s, max {starts[-1]:.2f} s"),
            ("last client that went on", f"{figures.slowest[1]}, {figures.slowest[0]:.1f} s"),
            ("violations", f"{seen['violations'] + len(self.world.failures):,}"),
            ("seconds", f"{figures.seconds:,.0f}"),
        ]
        return "\n".join(f"{name:<32}{value}" for name, value in lines)


_MAY_IDLE = {"readers-1", "trims", "cashiers-judge", "porters-judge"}
"""A member may be left without partitions; nothing may be left to delete; who judges does nothing else."""
