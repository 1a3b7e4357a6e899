"""What pulsar-admin has and Magnetar has not: what it would do, why it is not here, and what to use instead.

Rows of text, so that a refusal by HTTP, `magnetar-admin` and the documentation say the same. It imports nothing: the
command line starts with it. What is served has no row here; a verb without a row is refused in general words.
"""

from __future__ import annotations

from typing import NamedTuple


class Reason(NamedTuple):
    """Three pieces of a refusal."""

    does: str
    """What it would do: goes on after "it would"."""
    why: str
    """Why Magnetar has not got it, as a sentence."""
    instead: str = ""
    """What to use, as a sentence; empty where there is nothing."""


_FUNCTIONS = Reason(
    "run code of yours inside the brokers, beside the topics",
    "Magnetar runs no code of its users.",
    "Run it as a client: a share group of any Kafka client is a pool of workers.",
)
_CONNECTORS = Reason(
    "run a connector inside the brokers",
    "Magnetar runs no code of its users.",
    "Run Kafka Connect beside it, which speaks the same protocol.",
)
_TRANSACTIONS = Reason(
    "look into Pulsar's transaction coordinator",
    "Transactions are Kafka's here: there is no coordinator of Pulsar's.",
    "`magnetar-admin transactions list` shows those that are open; Kafka's kafka-transactions.sh ends them.",
)

NOUNS: dict[str, Reason] = {
    "functions": _FUNCTIONS,
    "functions-worker": _FUNCTIONS,
    "sources": _CONNECTORS,
    "source": _CONNECTORS,
    "sinks": _CONNECTORS,
    "sink": _CONNECTORS,
    "packages": Reason(
        "keep the code of functions and connectors in the cluster",
        "Magnetar runs no code of its users, so there is none to keep.",
    ),
    "schemas": Reason(
        "keep the schemas of topics, and check who publishes against them",
        "Magnetar hands records on as they are and does not look into them.",
        "Run a schema registry beside it, as Kafka's clients expect.",
    ),
    "bookies": Reason(
        "say in which racks the bookies are that keep copies of the data",
        "There are no bookies: each gateway keeps its data in files of its own.",
    ),
    "resource-quotas": Reason(
        "tell the load balancer how much a bundle of topics is expected to need",
        "One gateway serves everything, and nothing is balanced by bundles.",
    ),
    "ns-isolation-policy": Reason(
        "have some brokers serve some namespaces only",
        "One gateway serves all namespaces.",
        "Run another gateway, with data of its own, for what is to be apart.",
    ),
    "proxy-stats": Reason(
        "tell of the connections that Pulsar's proxy passes on",
        "There is no proxy: clients connect to the gateway itself.",
        "Connections are counted in the metrics at /metrics.",
    ),
    "documents": Reason(
        "write the reference of the command line as a page",
        "Each command of magnetar-admin explains itself.",
        "Use --help behind any noun or verb.",
    ),
    "persistent": Reason(
        "do what the noun topics does, under its old name",
        "The old name is not kept.",
        "Use `magnetar-admin topics`.",
    ),
    "properties": Reason(
        "do what the noun tenants does, under its old name",
        "The old name is not kept.",
        "Use `magnetar-admin tenants`.",
    ),
}
"""Nouns of which no verb is served."""

OWN_NOUNS: dict[str, Reason] = {"transactions": _TRANSACTIONS}
"""The same, but `magnetar-admin` has verbs of its own there."""

_ONE_CLUSTER = "There is one cluster, standalone, and nothing is copied to or from another."
_ONE_BUNDLE = "Each namespace has one bundle, which holds all of its topics: one gateway serves them all."
_NO_BOOKIES = "There are no bookies: each gateway keeps its data in files of its own."
_NO_SHADOWS = "A topic here has its own log, and no other topic's."
_DOMAINS = "Brokers are not spread over failure domains: there is one."
_METRICS = "What it counts is at /metrics, for Prometheus."

_REPLICATED = Reason(
    "keep a subscription in step in all clusters",
    _ONE_CLUSTER,
    "Leave it out: the subscription is the same without.",
)

VERBS: dict[str, Reason] = {
    "brokers shutdown": Reason(
        "end the process at the other end",
        "It is the affair of whoever runs the gateway, which would be started again.",
        "Send SIGTERM to it, or stop its service: it ends what is under way first.",
    ),
    "broker-stats monitoring-metrics": Reason(
        "print the metrics of the broker as JSON, in Pulsar's own form", "That form is not kept.", _METRICS
    ),
    "broker-stats mbeans": Reason(
        "print the MBeans of the broker's Java machine", "The gateway is no Java program.", _METRICS
    ),
    "broker-stats load-report": Reason(
        "tell the load balancer how busy the broker is", _ONE_BUNDLE, _METRICS
    ),
    "broker-stats allocator-stats": Reason(
        "tell of the buffers of Netty and of the ledger cache", "The gateway has neither.", _METRICS
    ),
    "clusters create": Reason(
        "make another cluster known, so that topics can be copied to it",
        _ONE_CLUSTER,
        "Kafka's MirrorMaker copies topics between clusters.",
    ),
    "clusters update": Reason(
        "change where a cluster is reached",
        "Where this gateway is reached is a setting that it starts with.",
        "See `advertised.listeners` and `admin.listen` in `magnetar config`.",
    ),
    "clusters delete": Reason("forget another cluster", _ONE_CLUSTER),
    "clusters update-peer-clusters": Reason("name clusters that take over when this one fails", _ONE_CLUSTER),
    "clusters update-cluster-migration": Reason(
        "send all clients of this cluster to another one",
        _ONE_CLUSTER,
        "Give clients the other bootstrap address.",
    ),
    "clusters create-failure-domain": Reason("name brokers that fail together", _DOMAINS),
    "clusters update-failure-domain": Reason("name brokers that fail together", _DOMAINS),
    "clusters delete-failure-domain": Reason("forget which brokers fail together", _DOMAINS),
    "namespaces split-bundle": Reason("have two brokers share the topics of a bundle", _ONE_BUNDLE),
    "namespaces get-topic-positions": Reason(
        "tell where topics lie in a bundle's range of hashes, to split it there", _ONE_BUNDLE
    ),
    "namespaces set-bookie-affinity-group": Reason("say which bookies keep a namespace's data", _NO_BOOKIES),
    "namespaces update-migration-state": Reason(
        "send the clients of a namespace to another cluster",
        _ONE_CLUSTER,
        "Give clients the other bootstrap address.",
    ),
    "namespaces list-cluster": Reason(
        "list namespaces by tenant and cluster, as names were before Pulsar 2.0",
        "Names have no cluster in them here.",
        "Use `namespaces list TENANT`.",
    ),
    "non-persistent list-in-bundle": Reason(
        "list the topics of a bundle whose messages are in memory only",
        "A namespace is one bundle.",
        "Use `namespaces topics`.",
    ),
    "topics create-subscription --replicated": _REPLICATED,
    "topics offload": Reason(
        "move old ledgers of a topic to cheaper storage",
        "Offloading is not served yet.",
        "`magnetar-pipeline archive` writes a topic to Parquet, on a disk or in a bucket.",
    ),
    "topics create-shadow-topic": Reason(
        "make a topic that reads another one's ledgers", _NO_SHADOWS, "Any number of groups may read a topic."
    ),
    "topics set-shadow-topics": Reason("say which topics read a topic's ledgers", _NO_SHADOWS),
    "topics set-replicated-subscription-status": _REPLICATED,
}
"""Verbs of nouns that are served, `noun verb` each."""

_SCHEMAS = Reason(
    "say how the schemas of topics may change, and who must have one",
    "Magnetar keeps no schemas: it hands records on as they are.",
    "Run a schema registry beside it, as Kafka's clients expect.",
)
_OFFLOADED = Reason("say when old ledgers move to cheaper storage", "Offloading is not served yet.")

POLICIES: dict[str, Reason] = {
    "deduplication-snapshot-interval": Reason(
        "say after how many messages it is written down which ones of a producer there are",
        "It is written with the messages themselves here, in the same commit: no interval is needed.",
    ),
    "dispatcher-pause-on-ack-state-persistent": Reason(
        "have consumers wait while what they have acknowledged is too much to be written down",
        "Whatever is acknowledged is written down here, however many holes it has.",
    ),
    "encryption-required": Reason(
        "refuse messages that their producer has not encrypted",
        "Magnetar hands records on as they are and does not look into them.",
        "Encrypt in the client; the disk of the gateway can be encrypted below it.",
    ),
    "entry-filters": Reason(
        "have code of yours decide which messages a subscription gets",
        "Magnetar runs no code of its users.",
        "Filter in the consumer: a message that is acknowledged unread costs little.",
    ),
    "entry-filters-per-topic": Reason(
        "have code of yours decide which messages a subscription gets", "Magnetar runs no code of its users."
    ),
    "is-allow-auto-update-schema": _SCHEMAS,
    "offload-deletion-lag": _OFFLOADED,
    "offload-policies": _OFFLOADED,
    "offload-threshold": _OFFLOADED,
    "persistence": Reason(
        "say to how many bookies each message is written, and how often cursors are",
        _NO_BOOKIES,
        "When writes are synced is a setting of the gateway: see `magnetar config`.",
    ),
    "replication-clusters": Reason(
        "say to which clusters a topic is copied",
        _ONE_CLUSTER,
        "Kafka's MirrorMaker copies topics between clusters.",
    ),
    "replicator-dispatch-rate": Reason("limit how fast topics are copied to other clusters", _ONE_CLUSTER),
    "schema-autoupdate-strategy": _SCHEMAS,
    "schema-compatibility-strategy": _SCHEMAS,
    "schema-validation-enforce": _SCHEMAS,
    "subscribe-rate": Reason(
        "limit how often a consumer may connect",
        "Connections are not held back by their rate.",
        "Limit how many there are: `set-max-consumers-per-subscription`.",
    ),
}
"""Policies that cannot be set, by what stands behind `set-` in their verbs."""

FIRST_API = Reason(
    "use names with a cluster in them, tenant/cluster/namespace/topic",
    "That is Pulsar's API of before 2.0.",
    "Use /admin/v2.",
)
"""Calls below /admin that have no version."""

_WITH_POLICIES = ("namespaces", "topics", "topicPolicies")


def find(noun: str, verb: str = "") -> Reason | None:
    """Why a verb (or a whole noun) is not served; None where nothing particular is known."""
    if noun in NOUNS or noun in OWN_NOUNS:
        return NOUNS.get(noun) or OWN_NOUNS[noun]
    found = VERBS.get(f"{noun} {verb}")
    prefix, _, policy = verb.partition("-")
    if found is None and noun in _WITH_POLICIES and prefix == "set":
        return POLICIES.get(policy)
    return found


def sentence(noun: str, verb: str = "") -> str | None:
    """The same as a refusal."""
    found = find(noun, verb)
    return None if found is None else said(f"{noun} {verb}".strip(), found)


def said(what: str, reason: Reason) -> str:
    """A refusal of `what`, a command or a path."""
    return f"`{what}` is not served: it would {reason.does}. {reason.why} {reason.instead}".rstrip()
