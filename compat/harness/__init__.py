"""Runs the client programs against a server and writes what came out to docs/COMPATIBILITY.md."""
