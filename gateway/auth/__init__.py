"""Who clients are: certificates and TLS, passwords, tokens."""
