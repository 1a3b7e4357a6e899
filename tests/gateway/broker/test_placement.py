"""Where everything is: so far on one node."""

from __future__ import annotations

from gateway.broker.catalog import Topic
from gateway.broker.placement import Advertised, OneNode, Placement


def test_a_node_alone_leads_and_coordinates_everything() -> None:
    endpoints = {"PLAINTEXT": ("one.example", 9092)}
    placement: Placement = OneNode(3, endpoints, "r1")
    endpoints["INTERNAL"] = ("127.0.0.1", 9093)
    assert (placement.controller, list(placement.ids), placement.coordinator("g")) == (3, [3], 3)
    assert list(placement.nodes("PLAINTEXT")) == [Advertised(3, "one.example", 9092, "r1")]
    assert list(placement.nodes("INTERNAL")) == [Advertised(3, "127.0.0.1", 9093, "r1")]
    assert list(placement.replicas(Topic("t", bytes(16), [5, 6, 9], 0))) == [[3], [3], [3]]
