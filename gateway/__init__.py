"""The gateway: bytes in, bytes out. See README.md in this folder for what to read first."""
