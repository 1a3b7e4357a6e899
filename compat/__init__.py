"""Proof against the outside: clients, peers, benchmarks. Talks over the wire only."""
