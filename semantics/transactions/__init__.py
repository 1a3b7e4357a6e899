"""Transactions: who has begun what under a transactional id, and how it ends."""
