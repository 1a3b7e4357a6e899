"""Pulsar's own pulsar-admin, unmodified, against Magnetar: what of it is served."""
