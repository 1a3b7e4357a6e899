"""Kafka's membership protocols as pure state machines."""
