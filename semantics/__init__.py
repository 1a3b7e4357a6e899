"""Pulsar's rules, pure: no I/O, no clock, nothing else of ours."""
