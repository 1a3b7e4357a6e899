"""One module per family of Kafka APIs: decoded request to broker to response. No state."""
