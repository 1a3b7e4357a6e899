"""Subscriptions: who is given which message, when, and what becomes of it. See README.md."""
