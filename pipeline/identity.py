"""Who an archive is and whose records it has: `magnetar.json` beside Spark's own files in the checkpoint.

Offsets alone do not say which topic they count in: a topic that was deleted and made again counts from 0, and
an archive that went on at its old offset would leave out everything below. So each topic's id is kept, and
another id under the same name is an error.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pipeline.errors import PipelineError

FILE = "magnetar.json"


@dataclass
class Identity:
    """What is kept beside a checkpoint."""

    archive: str = field(default_factory=lambda: str(uuid.uuid4()))
    """A name of its own; every Parquet file that the archive writes carries it."""
    output: str = ""
    """Where the archive lay when it was last written to."""
    checkpoint: str = ""
    """Where the checkpoint lay then."""
    topics: dict[str, str] = field(default_factory=dict)
    """Each topic's id."""

    @classmethod
    def parse(cls, text: str) -> Identity:
        """From `text`. Raises ValueError for anything else."""
        found: Any = json.loads(text)
        try:
            return cls(
                str(found["archive"]), str(found["output"]), str(found["checkpoint"]), dict(found["topics"])
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an archive's identity: {error}") from None

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), indent=1)

    def meet(self, ids: Mapping[str, str]) -> list[str]:
        """Take the ids of topics not known yet, and answer with their names.

        Raises `PipelineError`, and takes none, when a topic that is known has another id now.
        """
        for topic, now in ids.items():
            before = self.topics.get(topic, now)
            if before != now:
                raise PipelineError(_made_again(topic, before, now))
        new = sorted(topic for topic in ids if topic not in self.topics)
        self.topics.update(ids)
        return new


def adopted(new: Collection[str], read: Collection[str]) -> str | None:
    """What to say of topics that were read before their ids were kept; None when there is nothing to say."""
    taken = sorted(set(new) & set(read))
    if not taken:
        return None
    some = ", ".join(taken[:3]) + (f" and {len(taken) - 3} more" if len(taken) > 3 else "")
    return (
        f"this archive was begun before topic ids were kept: from now on it knows {some} by id, and refuses "
        "a topic of that name that was made again"
    )


def _made_again(topic: str, before: str, now: str) -> str:
    return (
        f"topic {topic} was deleted and made again since the archive read it (its id was {before} and is {now}). "
        "Its records have offsets that the archive has already. Archive it into another --output; to go on here "
        "with the other topics, leave it out and pass --allow-data-loss once."
    )
