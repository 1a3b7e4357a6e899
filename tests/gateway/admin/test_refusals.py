"""Kafka's errors as HTTP."""

from __future__ import annotations

import pytest

from gateway.admin.refusals import from_kafka_error
from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (Error.UNKNOWN_TOPIC_OR_PARTITION, 404),
        (Error.TOPIC_ALREADY_EXISTS, 409),
        # a name or a value that cannot be, where Pulsar says 412
        (Error.INVALID_TOPIC_EXCEPTION, 412),
        (Error.INVALID_CONFIG, 412),
        (Error.INVALID_REQUEST, 400),
        (Error.TOPIC_DELETION_DISABLED, 403),
        # what may succeed later
        (Error.KAFKA_STORAGE_ERROR, 503),
        (Error.REQUEST_TIMED_OUT, 503),
        # what nobody has thought of
        (Error.FENCED_LEADER_EPOCH, 500),
    ],
)
def test_a_status_and_the_reason_or_kafkas_name_of_it(code: Error, status: int) -> None:
    assert from_kafka_error(KafkaError(code, "Why.")) == (status, "Why.")
    assert from_kafka_error(KafkaError(code)) == (status, code.name)


def test_no_error_is_told_as_a_success() -> None:
    assert all(from_kafka_error(KafkaError(code))[0] in range(400, 600) for code in Error if code)
