"""Who a client is: passwords, tokens and certificates, and what they prove."""
