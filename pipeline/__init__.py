"""PySpark jobs over Spark's stock Kafka source and sink; nothing else of ours."""
