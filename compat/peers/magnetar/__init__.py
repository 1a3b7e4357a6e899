"""Magnetar itself, as `magnetar serve` starts it: `with MagnetarPeer() as peer: peer.bootstrap`."""

from compat.peers.magnetar.peer import MODULE, MagnetarPeer
from compat.peers.process import PeerError

__all__ = ["MODULE", "MagnetarPeer", "PeerError"]
