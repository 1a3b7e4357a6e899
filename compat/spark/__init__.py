"""Spark beside a broker: the connector's jars, a small local session, the proof of the round trip."""

from compat.spark.jars import SPARK_VERSION, SparkMissingError, ensure_spark_jars
from compat.spark.session import session

__all__ = ["SPARK_VERSION", "SparkMissingError", "ensure_spark_jars", "session"]
