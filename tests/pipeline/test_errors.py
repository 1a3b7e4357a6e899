"""One sentence for each thing that goes wrong in Spark or in the Kafka client."""

from __future__ import annotations

import pytest

from pipeline.errors import explain

KAFKA = "org.apache.kafka.common.errors."


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"java.util.concurrent.ExecutionException: {KAFKA}UnknownTopicOrPartitionException: This",
            "does not exist",
        ),
        ("[KAFKA_DATA_LOSS.START_OFFSET_RESET] Some data may have been lost", "--allow-data-loss"),
        (
            f"Caused by: {KAFKA}TopicAuthorizationException: Not authorized to access topics: [a]",
            "does not let",
        ),
        (f"{KAFKA}SaslAuthenticationException: Authentication failed", "user name or password"),
        (f"{KAFKA}TimeoutException: Timed out waiting for a node", "in time"),
        ("Failed to find data source: kafka. Please deploy", "--packages"),
        ("java.io.IOException: No space left on device", "full"),
    ],
)
def test_known_errors(text: str, sentence: str):
    assert sentence in explain(Exception(f"An error occurred while calling o1.get.\n: {text}"))


def test_kafkas_own_words_about_a_large_record_are_kept():
    text = f"SparkException: Job aborted\nCaused by: {KAFKA}RecordTooLargeException: The message is 5068 bytes\n\tat x"

    assert explain(Exception(text)) == (
        "The message is 5068 bytes (max.message.bytes of the topic, max.request.size of the client)."
    )


def test_of_an_unknown_error_the_first_line_that_says_something():
    text = "An error occurred while calling o7.x.\n: java.lang.IllegalStateException: out of cheese\n\tat a.b(C.java)"

    assert explain(Exception(text)) == "out of cheese"
    assert explain(ValueError()) == "ValueError"
    assert len(explain(Exception("x" * 1000))) == 300
