"""Subscriptions at work: see README.md."""
