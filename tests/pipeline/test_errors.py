"""One sentence for each thing that goes wrong in Spark or in the Kafka client."""

from __future__ import annotations

import pytest

from pipeline.errors import explain, start_failure

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
        (
            f"{KAFKA}SslAuthenticationException: SSL handshake failed\nCaused by: x: PKIX path building failed",
            "signed by no CA that is trusted here",
        ),
        (
            f"{KAFKA}SslAuthenticationException: SSL handshake failed\nCaused by: x: No subject alternative names "
            "matching IP address 10.0.0.1 found",
            "for other names",
        ),
        (
            f"{KAFKA}SslAuthenticationException: SSL handshake failed\nCaused by: x: No name matching a.example found",
            "for other names",
        ),
        ("Failed to find data source: kafka. Please deploy", "--packages"),
        ("java.io.IOException: No space left on device", "full"),
        (
            f"{KAFKA}TimeoutException: x\nCaused by: java.lang.OutOfMemoryError: Java heap space",
            "out of memory",
        ),
        (
            "ExecutorLostFailure (executor 1 exited unrelated). Reason: Command exited with code 137",
            "out of memory",
        ),
        (
            "An error occurred while trying to connect to the Java server (127.0.0.1:1)",
            "Java process has ended",
        ),
    ],
)
def test_known_errors(text: str, sentence: str) -> None:
    assert sentence in explain(Exception(f"An error occurred while calling o1.get.\n: {text}"))


def test_kafkas_own_words_about_a_large_record_are_kept() -> None:
    text = f"SparkException: Job aborted\nCaused by: {KAFKA}RecordTooLargeException: The message is 5068 bytes\n\tat x"

    assert explain(Exception(text)) == (
        "The message is 5068 bytes (max.message.bytes of the topic, max.request.size of the client)."
    )


def test_settings_that_no_client_can_be_made_of_are_named() -> None:
    text = (
        "org.apache.kafka.common.KafkaException: Failed to create new KafkaAdminClient\n\tat x\n"
        "Caused by: org.apache.kafka.common.KafkaException: Failed to create new NetworkClient\n\tat x\n"
        f"Caused by: {KAFKA}InvalidConfigurationException: Failed to load PEM SSL keystore /nowhere.pem\n"
        "Caused by: java.io.IOException: Unable to read file /nowhere.pem\n"
    )

    assert explain(Exception(text)) == (
        "the Kafka client cannot be made of its settings: Failed to load PEM SSL keystore /nowhere.pem; "
        "Unable to read file /nowhere.pem."
    )


def test_no_part_of_a_password_is_said() -> None:
    text = (
        "org.apache.kafka.common.KafkaException: Failed to construct kafka consumer\n"
        "Caused by: java.lang.IllegalArgumentException: Value not specified for key 'secret' in JAAS config\n"
    )

    assert explain(Exception(text)) == (
        "the Kafka client cannot be made of its settings: Value not specified for key '…' in JAAS config."
    )


def test_of_an_unknown_error_the_first_line_that_says_something() -> None:
    text = "An error occurred while calling o7.x.\n: java.lang.IllegalStateException: out of cheese\n\tat a.b(C.java)"

    assert explain(Exception(text)) == "out of cheese"
    assert explain(ValueError()) == "ValueError"
    assert len(explain(Exception("x" * 1000))) == 300


def test_py4js_own_connection_is_not_the_brokers() -> None:
    assert "Java process has ended" in explain(ConnectionRefusedError(111, "Connection refused"))


IVY = """
:: loading settings :: url = jar:file:/x
\tHost repo.example not found. url=https://repo.example/org/a/1/a-1.pom

\t\tmodule not found: org#a;1
\t\t:: org#a;1: not found
\t\t::::::::::::
Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: org#a;1: not found]
\tat org.apache.spark.util.MavenUtils$.resolveMavenCoordinates(MavenUtils.scala:539)
\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)
"""


def test_a_connector_that_cannot_be_fetched_is_named_with_where_it_was_looked_for() -> None:
    assert start_failure(IVY).splitlines() == [
        "the Kafka connector could not be fetched:",
        "  Host repo.example not found. url=https://repo.example/org/a/1/a-1.pom",
        "  :: org#a;1: not found",
        "  java.lang.RuntimeException: [unresolved dependency: org#a;1: not found]",
        "  Without a way to Maven, pass --jars with a folder that holds it.",
    ]


def test_of_another_failed_start_the_cause_and_not_the_frames() -> None:
    log = "WARN x\nError: A JNI error\nCaused by: java.io.IOException: b\n\tat c.d(E.java)\n\t... 3 more\n"

    assert start_failure(log).splitlines() == ["Error: A JNI error", "  java.io.IOException: b"]
    assert start_failure("one\n\ntwo\n\tat c.d(E.java)\n") == "one\n  two"
    assert start_failure("") == ""
