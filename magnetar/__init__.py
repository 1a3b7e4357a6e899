"""What Magnetar offers to Python programs beside a Kafka client of their choice."""
