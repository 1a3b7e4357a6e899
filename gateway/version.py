"""The version, read by the server, the CLI and the admin API. pyproject.toml says the same (a test compares)."""

VERSION = "0.1.0"
