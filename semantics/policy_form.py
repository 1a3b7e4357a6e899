"""What a form is: how Pulsar's tools say one policy, or some that are said together.

The rows are in `policy_forms.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from semantics.policies import Level, Policy


class Reads(enum.Enum):
    """What a flag of the command line takes."""

    NUMBER = "N"
    TIME = "TIME"
    SIZE = "SIZE"
    NAMES = "NAMES"
    NAME = "NAME"
    FLAG = ""
    """two flags, one for yes and one for no"""


class Field(NamedTuple):
    """One policy of a form."""

    policy: Policy
    json: str
    """its key in the body; nothing: the body is the value"""
    flags: tuple[str, ...]
    """of the command for namespaces; the last one names the value"""
    help: str
    topic_flags: tuple[str, ...] = ()
    """of the command for topics, where they are others"""
    reads: Reads = Reads.NUMBER
    unit: int = 1
    """what one of the body's is, in the units of the policy's config"""
    unit_name: str = ""
    """of the body's"""
    none: str = ""
    """what 0 means, where it does not mean 0"""
    optional: bool = False
    """it may be left out: then it is not set"""
    unsaid: int | bool | None = None
    """what magnetar-admin says without its flag, as pulsar-admin does: then nothing of it is inherited"""


def _nothing_wrong(values: Mapping[str, Any]) -> str | None:
    return None


class Form(NamedTuple):
    """What is got, set and removed by one verb each."""

    verb: str
    """behind get-, set- and remove-; also what people call it, with blanks"""
    segment: str
    """of the path behind a namespace"""
    key: str
    """in Policies of a namespace"""
    fields: tuple[Field, ...]
    sets: str
    """what setting it does, for --help, with {} for what it is done to, and {each} for its topics"""
    gets: str
    """what is asked for, likewise"""
    example: str
    """the flags of an example"""
    more: str = ""
    """what --help says besides"""
    topic_segment: str = ""
    """of the path behind a topic, where it is another"""
    topic_verb: str = ""
    topic_query: str = ""
    """of topics the value is in the query, by this name, and not in the body"""
    topic_example: str = ""
    wrong: Callable[[Mapping[str, Any]], str | None] = _nothing_wrong
    """what is wrong with the values of a body beside each other, in a sentence, or None"""
    sentence: Callable[[Mapping[str, Any]], str] | None = None
    """how what was set reads, where it is not said field by field"""
    type: str = ""
    """where one verb is for several: which of them, as `backlogQuotaType` says it"""
    by_cluster: bool = False
    """in Policies it is said for each cluster by itself"""
    put: bool = False
    """of namespaces it is set by PUT, and not by POST as all others"""
    unset: int | tuple[str, ...] | None = None
    """what Pulsar answers of a namespace that says nothing of it"""

    @property
    def title(self) -> str:
        """What people call it."""
        return self.verb.replace("-", " ")

    def title_at(self, level: Level) -> str:
        """The same of what is said at a level."""
        return self.verb_at(level).replace("-", " ")

    def method_at(self, level: Level) -> str:
        """What sets it."""
        return "PUT" if self.put and level is Level.NAMESPACE else "POST"

    @property
    def levels(self) -> frozenset[Level]:
        return self.fields[0].policy.levels

    def segment_at(self, level: Level) -> str:
        return self.topic_segment if level is Level.TOPIC and self.topic_segment else self.segment

    def verb_at(self, level: Level) -> str:
        return self.topic_verb if level is Level.TOPIC and self.topic_verb else self.verb

    def example_at(self, level: Level) -> str:
        return self.topic_example if level is Level.TOPIC and self.topic_example else self.example
