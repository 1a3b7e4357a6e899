"""The same requests to Apache Kafka and to Magnetar, and where their answers differ."""
