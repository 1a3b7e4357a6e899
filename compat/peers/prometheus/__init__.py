"""A real Prometheus that scrapes what it is told: `with PrometheusPeer(targets) as peer: peer.query("up")`."""

from compat.peers.process import PeerError
from compat.peers.prometheus.peer import PrometheusPeer

__all__ = ["PeerError", "PrometheusPeer"]
