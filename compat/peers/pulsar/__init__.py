"""A real Apache Pulsar standalone from Maven's jars: `with PulsarPeer() as peer: peer.service_url`."""

from compat.peers.pulsar.jars import classpath, ensure_jars
from compat.peers.pulsar.peer import PulsarPeer

__all__ = ["PulsarPeer", "classpath", "ensure_jars"]
