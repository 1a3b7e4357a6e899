"""What went wrong, in one sentence for the person who started the job."""

from __future__ import annotations

import re

import click

INTERRUPTED = 130
"""The exit code of a job that was stopped before its end."""


class PipelineError(click.ClickException):
    """A job that cannot go on; the message says what happened and what to do."""

    exit_code = 1

    def show(self, file: object = None) -> None:
        click.echo(f"magnetar-pipeline: {self.message}", err=True)


class StoppedError(PipelineError):
    """A job that was told to stop before its end."""

    exit_code = INTERRUPTED


NOT_IN_TIME = "the broker did not answer in time."
OUT_OF_MEMORY = (
    "Spark ran out of memory. Give it more (--spark-conf spark.driver.memory=4g; spark.executor.memory on a cluster), "
    "or read fewer records at a time (--option kafka.max.poll.records=10)."
)
SPARK_IS_GONE = "Spark's Java process has ended; --spark-log FILE keeps what it says."
_MEMORY = (
    r"OutOfMemory|Java heap space|GC overhead limit|"
    r"(?:[Ee]xited with code|exit code:?) (?:52|137)\b|beyond the .{0,20}memory limits|exceeding memory limits"
)
_GONE = (
    r"Answer from Java side is empty|Error while sending or receiving|trying to connect to the Java server"
)

_TOO_LARGE = r"RecordTooLarge|larger than the maximum request size"
_NO_CLIENT = r"Failed to create new KafkaAdminClient|Failed to construct kafka (?:consumer|producer)"

# What Spark and the Kafka client say, and what it means. The first pattern found in the text wins.
MEANINGS: tuple[tuple[str, str], ...] = (
    # Before all others: a process that is out of memory answers nobody in time either.
    (_MEMORY, OUT_OF_MEMORY),
    (_GONE, SPARK_IS_GONE),
    (
        r"Failed to find data source: kafka",
        "Spark has no Kafka connector: pass --packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION "
        "(Spark's own), or --jars with a folder that holds it.",
    ),
    (
        r"KAFKA_DATA_LOSS|(?i:some data may have been lost|partitions? .{0,80}(?:are|have been|is) "
        r"(?:gone|deleted)|offset.{0,80}was changed from|OffsetOutOfRange)",
        "records that were not archived yet are gone from the topic (deleted, past their retention, or the "
        "topic was made again). To go on with what is left, pass --allow-data-loss.",
    ),
    (
        r"UnknownTopicOrPartition|does not host this topic-partition|not present in metadata",
        "a topic or partition does not exist on the broker.",
    ),
    (_TOO_LARGE, ""),
    (
        r"(?:Topic|Group|Cluster)AuthorizationException|Not authorized to access",
        "the broker does not let this user read or write the topic.",
    ),
    (r"SaslAuthenticationException|Authentication failed", "the broker refused the user name or password."),
    (
        r"PKIX path",
        "the broker's certificate is signed by no CA that is trusted here (ssl.truststore.location, "
        "ssl.truststore.type=PEM).",
    ),
    (
        r"No subject alternative .{0,80}(?:found|present)|No name matching .{0,300} found",
        "the broker's certificate is for other names than the one in --bootstrap.",
    ),
    (r"SslAuthenticationException|SSL handshake failed", "the TLS handshake with the broker failed."),
    (_NO_CLIENT, ""),
    (
        r"Multiple streaming queries are concurrently using|ConcurrentModificationException",
        "another archive job uses the same checkpoint.",
    ),
    (r"No space left on device", "the disk that Spark writes to is full."),
    (r"Permission denied|AccessControlException", "Spark may not write to the folder."),
    (
        r"TimeoutException|DisconnectException|Connection refused|No resolvable bootstrap",
        NOT_IN_TIME,
    ),
)


def explain(error: BaseException) -> str:
    """One sentence for an error of Spark, Java or the Kafka client."""
    if isinstance(error, (ConnectionError, EOFError)):  # py4j's own socket
        return SPARK_IS_GONE
    text = str(error)
    for pattern, meaning in MEANINGS:
        if re.search(pattern, text):
            return meaning or (_too_large(text) if pattern == _TOO_LARGE else _no_client(text))
    return _first_line(text) or type(error).__name__


def died(log: str) -> str:
    """What to say of a Spark that has ended by itself, from its log."""
    return OUT_OF_MEMORY if re.search(_MEMORY, log) else SPARK_IS_GONE


def start_failure(log: str) -> str:
    """Why Spark did not start, from its log: the cause first, and for a connector where it was looked for."""
    lines = [line.strip() for line in log.splitlines()]
    causes = [
        re.sub(r'^(?:Exception in thread "[^"]*"|Caused by:) ', "", line)
        for line in lines
        if line.startswith(("Exception in thread", "Caused by:", "Error:"))
    ]
    if re.search(r"unresolved dependency|download failed", log):
        # Ivy says why beside each address that it tried, above its table and far above the exception.
        reasons = [
            line
            for line in lines
            if re.search(
                r"not found\. url=|Server access [Ee]rror|access denied|timed out|^:: .*: not found$", line
            )
        ]
        causes = ["the Kafka connector could not be fetched:", *reasons, *causes]
        causes.append("Without a way to Maven, pass --jars with a folder that holds it.")
    if not causes:
        causes = [line for line in lines if line and not re.match(r"at |\.\.\. \d+ more", line)][-8:]
    return "\n  ".join(dict.fromkeys(causes))


def _no_client(text: str) -> str:
    """Which setting the Kafka client cannot begin with: the innermost cause but one names the file or the module."""
    causes = [
        line.rpartition("Exception: ")[2] for line in re.findall(r"^Caused by: (.+)$", text, re.MULTILINE)
    ]
    causes = [cause for cause in causes if not cause.startswith("Failed to create new NetworkClient")]
    said = "; ".join(dict.fromkeys(causes[:1] + causes[-1:])) or "its settings are not good"
    # a word that was taken for the name of something may be part of a password
    said = re.sub(r"'[^']*'", "'…'", said) if "JAAS" in said else said
    return f"the Kafka client cannot be made of its settings: {said.rstrip('.')}."


def _too_large(text: str) -> str:
    found = re.search(r"RecordTooLargeException: ([^\n]+)", text)
    detail = found.group(1).strip() if found else "a record is larger than the topic takes"
    return f"{detail.rstrip('.')} (max.message.bytes of the topic, max.request.size of the client)."


def _first_line(text: str) -> str:
    """The first line that says something: Java's own prefixes and stack frames are left out."""
    for line in text.splitlines():
        line = re.sub(r"^(?:: )?(?:[a-z][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error): ", "", line.strip())
        if line and not line.startswith(("at ", "An error occurred while calling", "Caused by", "===")):
            return line if len(line) <= 300 else line[:297] + "..."
    return ""
