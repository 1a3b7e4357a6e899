"""What a console shows of subscriptions, pure."""
