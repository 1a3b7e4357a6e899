"""Bytes to values and back. Pure: no sockets, no clock, nothing else of ours."""
