"""What people who look after subscriptions are shown, and what they may do there: pure."""
