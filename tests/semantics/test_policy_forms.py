"""Pulsar's forms of policies: nothing is said twice, nothing is left out."""

from __future__ import annotations

from collections import Counter

import pytest

from semantics.policies import TABLE, Kind, Level
from semantics.policy_form import Form, Reads
from semantics.policy_forms import ALL, FORMS, RETENTION


def test_every_policy_is_in_one_form() -> None:
    assert Counter(field.policy.name for form in ALL for field in form.fields) == Counter(
        policy.name for policy in TABLE
    )


@pytest.mark.parametrize("level", [Level.NAMESPACE, Level.TOPIC])
def test_forms_of_a_level_differ(level: Level) -> None:
    forms = [form for form in FORMS if level in form.levels]
    for said in ([form.segment_at(level) for form in forms], [form.verb_at(level) for form in forms]):
        assert len(set(said)) == len(said)


@pytest.mark.parametrize("form", ALL, ids=[form.verb + form.type for form in ALL])
def test_fields_of_a_form_go_together(form: Form) -> None:
    assert len({field.policy.levels for field in form.fields}) == 1
    assert len({field.json for field in form.fields}) == len(form.fields)
    assert len(form.fields) == 1 or all(field.json for field in form.fields)
    for flags in ([field.flags for field in form.fields], [field.topic_flags for field in form.fields]):
        assert len({flag for each in flags for flag in each}) == sum(map(len, flags))
    for field in form.fields:
        # flags of numbers and times are of numbers
        assert (field.policy.kind is Kind.NUMBER) == (field.reads in (Reads.NUMBER, Reads.TIME, Reads.SIZE))
        assert field.unit == 1 or field.unit_name


def test_retention_is_nothing_by_both_limits_or_by_none() -> None:
    for minutes, megabytes, good in (
        (0, 0, True),
        (1, 1, True),
        (-1, -1, True),
        (0, 1, False),
        (-1, 0, False),
    ):
        wrong = RETENTION.wrong({"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes})
        assert (wrong is None) == good
