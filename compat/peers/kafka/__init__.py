"""A real Apache Kafka, one KRaft node, from Maven's jars: `with KafkaPeer() as peer: peer.bootstrap`."""

from compat.peers.kafka.jars import classpath, ensure_jars, find_java, java_command
from compat.peers.kafka.peer import KafkaPeer
from compat.peers.process import PeerError

__all__ = ["KafkaPeer", "PeerError", "classpath", "ensure_jars", "find_java", "java_command"]
