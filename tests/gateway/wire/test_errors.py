"""The error table against kio's, which is generated from Kafka's own."""

from kio.schema.errors import ErrorCode

from gateway.wire import errors
from gateway.wire.errors import Error


def test_codes_are_those_of_kafka_without_holes() -> None:
    assert [int(error) for error in Error] == list(range(-1, 134))


def test_names_codes_and_retriability_agree_with_kio() -> None:
    ours = {(error.name, int(error), error.retriable) for error in Error}
    theirs = {(error.name.upper(), int(error), error.retriable) for error in ErrorCode}
    assert ours == theirs


def test_what_the_functions_say() -> None:
    assert errors.name(3) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert errors.retriable(Error.NOT_COORDINATOR)
    assert not errors.retriable(Error.INVALID_REQUEST)
    assert errors.message(0) is None
    assert all(errors.message(error) for error in Error if error)


def test_a_code_that_kafka_does_not_have_is_no_crash() -> None:
    assert errors.name(9999) == "ERROR_9999"
    assert not errors.retriable(9999)
    assert "9999" in str(errors.message(9999))
