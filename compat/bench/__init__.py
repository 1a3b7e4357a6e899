"""The same loads against Apache Kafka and Magnetar, by turns. `python -m compat.bench --help`."""
