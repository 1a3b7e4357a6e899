"""HTTP: Pulsar's admin v2 API, metrics, health."""
