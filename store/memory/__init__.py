"""The driver that forgets: for non-persistent topics and property tests."""
