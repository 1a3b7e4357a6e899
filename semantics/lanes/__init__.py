"""Lanes: a subscription as the partitions of a queue topic, for clients that know nothing but offsets."""
