"""What is simulated of queue topics: who reads them, what it does to them, and what breaks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LaneScenario:
    """One kind of life. Shares are of 1; what happens to somebody is drawn at each step."""

    name: str
    kind: str = "key_shared"
    lanes: int = 6
    members: int = 4
    messages: int = 1500
    partitions: int = 3
    keys: int = 40
    limit: int = 4
    """deliveries of a record"""
    nack_ms: int = 300
    publish: float = 0.04
    """of steps: somebody publishes"""
    poison: tuple[int, ...] = ()
    """numbers of records that kill whoever works on them"""
    bad: int = 97
    """of so many records one is nacked each time"""
    nacks: float = 0.05
    """of records that were worked on"""
    rejected: float = 0.01
    commit_ms: tuple[int, ...] = (0, 200, 1000)
    """between commits; each member has one of these"""
    leaves: float = 0.002
    dies: float = 0.002
    stalls: float = 0.0
    """of members: they have stopped working, and go on to be members"""
    repeats: float = 0.1
    """of commits: they are sent again later, under whatever generation they had"""
    above: float = 0.1
    """of commits: they acknowledge something above what they commit"""
    static: float = 0.25
    """of members: those with an instance id, who come back in place of themselves"""
    new: float = 0.0
    """of members: those of the new protocol"""
    transacts: float = 0.0
    """of members: those that acknowledge inside of transactions"""
    strangers: float = 0.3
    """of what these say: as if they were no members"""
    aborts: float = 0.2
    """of transactions"""
    forgets: float = 0.02
    """of transactions: those that nobody ends before their time is over"""
    most_bytes: tuple[int, ...] = (300, 4000, 1 << 20)
    """of a fetch"""
    kills: float = 0.004
    """of turns: the gateway dies in them"""
    fails: float = 0.01
    """of turns: the disk fails in them"""
    slow: float = 0.1
    """of turns: those whose commit takes until the next one or longer"""
    cold: float = 0.05
    """of reads: those that wait for a disk"""
    asked: float = 0.02
    """of steps: somebody asks where a lane ends"""
    changes: float = 0.002
    """of turns: topics grow, or the queue is read again for another reason"""


def scenarios() -> list[LaneScenario]:
    """The lives that a run goes through."""
    calm = {"kills": 0.0, "fails": 0.0, "dies": 0.0, "leaves": 0.0005, "changes": 0.0}
    return [
        LaneScenario("lanes-keyed"),
        LaneScenario("lanes-shared", kind="shared"),
        LaneScenario("lanes-calm", **calm),  # type: ignore[arg-type]
        LaneScenario(
            "lanes-poison", poison=(300,), commit_ms=(1000,), nacks=0.0, bad=0, kills=0.001, fails=0.001
        ),
        LaneScenario("lanes-poisons", "shared", poison=(100, 101, 900), commit_ms=(0, 1000)),
        LaneScenario("lanes-deaths", dies=0.01, nacks=0.0, bad=0, static=0.0),
        LaneScenario("lanes-stuck", stalls=0.3),
        LaneScenario("lanes-late", repeats=0.5, leaves=0.01, above=0.3),
        LaneScenario("lanes-kills", "shared", kills=0.03, fails=0.03),
        LaneScenario("lanes-cold", "shared", cold=0.6, asked=0.3, changes=0.05, kills=0.0),
        LaneScenario("lanes-cold-keyed", cold=0.6, asked=0.3, changes=0.05, kills=0.0),
        LaneScenario("lanes-new", new=1.0),
        LaneScenario("lanes-rolled", new=0.5, leaves=0.01),
        LaneScenario("lanes-rolled-shared", "shared", new=0.5, kills=0.03, fails=0.03),
        LaneScenario("lanes-transacted", transacts=0.7),
        LaneScenario("lanes-transacted-shared", "shared", transacts=0.7, kills=0.02, fails=0.02),
        LaneScenario("lanes-transacted-new", new=0.7, transacts=1.0, strangers=1.0, kills=0.02),
        LaneScenario(
            "lanes-taken-back",
            lanes=2,
            members=2,
            keys=8,
            limit=9,
            publish=0.2,
            nacks=0.25,
            commit_ms=(0,),
            leaves=0.0,
            dies=0.0,
            repeats=0.0,
            most_bytes=(300,),
            kills=0.04,
            fails=0.02,
            slow=0.4,
        ),
        LaneScenario("lanes-alone", lanes=1, members=2, keys=3, messages=600),
    ]
