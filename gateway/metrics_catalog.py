"""Every metric that the gateway counts itself, defined once, by the attribute under which the code finds it.

Names begin with `magnetar_` and end in their unit. What is asked for only when somebody scrapes (topics,
groups, the process) is in `gateway/admin/families.py`, with the names that existing dashboards of Kafka and
Pulsar look for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gateway.metrics import COUNTS, Metrics

if TYPE_CHECKING:
    from gateway.tenant_use import TenantUse
    from store.api import StoreStats

COMMIT_SECONDS = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0,
)  # fmt: skip
"""Bucket bounds for commits: finer than for requests, since the page cache takes one in some 50 µs."""


STORED_SECONDS = (0.0005, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 1.0)
"""Bucket bounds for batches on their way into the store: those of Pulsar's storage_write_latency."""


class GatewayMetrics(Metrics):
    """The families and, where there are no labels, their only child.

    For a family with labels take the child once and keep it: per API in the registry of handlers, per
    listener when it opens, per error when it first happens.
    """

    def __init__(self) -> None:
        super().__init__()

        # -- requests
        # api is Kafka's name of it, such as "Fetch"
        self.request_seconds = self.histogram(
            "magnetar_request_seconds",
            "Time from a request's arrival to its answer, waiting included; _count is the requests.",
            labels=("api",),
        )
        self.requests_malformed = self.counter(
            "magnetar_requests_malformed_total",
            "Requests whose bytes made no sense; their connection was closed.",
        ).labels()

        # -- connections
        self.connections = self.gauge("magnetar_connections", "Connections that are open.", ("listener",))
        self.connections_accepted = self.counter(
            "magnetar_connections_accepted_total", "Connections that were let in.", ("listener",)
        )
        self.gates = self.gauge(
            "magnetar_gates", "Connections whose client has not logged in yet.", ("listener",)
        )
        # mechanism is SASL's name, or unknown; result is success, failure, or busy: put off
        self.logins = self.counter(
            "magnetar_logins_total",
            "Logins over SASL on new connections.",
            ("listener", "mechanism", "result"),
        )
        self.reauthentications = self.counter(
            "magnetar_reauthentications_total",
            "Logins over SASL of clients that had logged in before on the same connection.",
            ("listener", "mechanism", "result"),
        )
        # reason is limit, rate, memory, idle, slow, protocol, login
        self.connections_refused = self.counter(
            "magnetar_connections_refused_total",
            "Connections that the gateway refused or closed itself.",
            ("listener", "reason"),
        )
        # result is refused (too many, before they began), failed
        self.handshakes_failed = self.counter(
            "magnetar_tls_handshakes_failed_total",
            "Connections over TLS that were not made, by what came of their handshake.",
            ("listener", "result"),
        )
        self.network_in_bytes = self.counter(
            "magnetar_network_received_bytes_total", "Bytes that clients sent.", ("listener",)
        )
        self.network_out_bytes = self.counter(
            "magnetar_network_sent_bytes_total", "Bytes handed to clients' connections.", ("listener",)
        )
        self.unsent_bytes = self.gauge(
            "magnetar_unsent_bytes", "Bytes of answers that clients have not taken yet."
        ).labels()
        self.unfinished_bytes = self.gauge(
            "magnetar_unfinished_request_bytes", "Bytes of requests that have not come whole."
        ).labels()
        self.loop_tasks = self.gauge("magnetar_loop_tasks", "Tasks of the event loop.").labels()
        self.log_lines_left_out = self.counter(
            "magnetar_log_lines_left_out_total",
            "Lines of the log that were not written: one place said too much.",
        ).labels()

        # -- produce and fetch
        self.produced_batches = self.counter(
            "magnetar_produced_batches_total", "Record batches stored."
        ).labels()
        self.produced_messages = self.counter("magnetar_produced_messages_total", "Records stored.").labels()
        self.produced_bytes = self.counter(
            "magnetar_produced_bytes_total", "Bytes of batches stored."
        ).labels()
        self.produced_duplicates = self.counter(
            "magnetar_produced_duplicates_total",
            "Batches sent again by idempotent producers, not stored again.",
        ).labels()
        self.produced_held = self.counter(
            "magnetar_produced_held_total", "Produce requests that waited for a backlog to become smaller."
        ).labels()
        self.produced_throttled = self.counter(
            "magnetar_produce_throttled_total",
            "Produce requests whose client was told to wait, for it publishes faster than it may.",
        ).labels()
        # why is produce, fetch, request, mutations: a quota of Kafka's; publish: the publish rate of a topic or of a
        # resource group
        self._throttled = self.counter(
            "magnetar_throttled_total", "Times that a client was told to wait, by why.", ("why",)
        )
        self._throttled_seconds = self.counter(
            "magnetar_throttled_seconds_total", "Time that clients were told to wait, by why.", ("why",)
        )
        self._throttled_bytes = self.counter(
            "magnetar_throttled_bytes_total",
            "Bytes of requests whose clients were told to wait for these, by why.",
            ("why",),
        )
        self.evicted = self.counter(
            "magnetar_messages_evicted_total",
            "Messages that a backlog quota by size has settled, by subscription.",
        ).labels()
        self.fetch_bytes = self.counter("magnetar_fetched_bytes_total", "Bytes of batches sent.").labels()
        self.reads_corrupt = self.counter(
            "magnetar_reads_corrupt_total", "Reads that came to damaged batches: should stay 0."
        ).labels()
        self.reads_failed = self.counter(
            "magnetar_reads_failed_total", "Reads that the disk or the system refused: should stay 0."
        ).labels()
        self.fetches_parked = self.gauge(
            "magnetar_fetches_parked", "Fetches that wait for data now."
        ).labels()
        self.fetch_sessions = self.gauge("magnetar_fetch_sessions", "Fetch sessions that are kept.").labels()
        self.share_sessions = self.gauge(
            "magnetar_share_sessions", "Share sessions: members of share groups that fetch."
        ).labels()

        # -- subscriptions
        self.deliveries = self.counter(
            "magnetar_share_deliveries_total", "Records delivered by subscriptions, redeliveries included."
        ).labels()
        self.share_acks = self.counter(
            "magnetar_share_accepted_total", "Records that consumers of subscriptions accepted."
        ).labels()
        self.share_nacks = self.counter(
            "magnetar_share_refused_total", "Records that consumers of subscriptions released or rejected."
        ).labels()
        self.share_timeouts = self.counter(
            "magnetar_share_timeouts_total", "Deliveries that ended because nobody acknowledged in time."
        ).labels()
        self.share_crashes = self.counter(
            "magnetar_share_crashes_total", "Deliveries that ended because their consumer was lost."
        ).labels()
        self.share_dropped = self.counter(
            "magnetar_share_dropped_total", "Dead records dropped where dead letters are switched off."
        ).labels()
        self.share_expired = self.counter(
            "magnetar_share_expired_total",
            "Records that nobody had acknowledged when retention took them from a subscription.",
        ).labels()
        self.non_persistent_dropped = self.counter(
            "magnetar_non_persistent_dropped_total",
            "Messages of non-persistent topics that left memory before anybody had read them.",
        ).labels()
        # reason is MAX_DELIVERIES, REJECTED, CORRUPT
        self.dead_letters = self.counter(
            "magnetar_share_dead_letters_total", "Records put into dead letter topics.", ("reason",)
        )
        self.retry_letters = self.counter(
            "magnetar_queue_retry_letters_total",
            "Records that consumers of queue topics sent to retry letter topics.",
        ).labels()
        self.dead_letters_refused = self.counter(
            "magnetar_share_dead_letters_refused_total",
            "Times that dead letters could not be put into their topic and will be tried again: should stay 0.",
        ).labels()

        # -- commits
        self.commit_seconds = self.histogram(
            "magnetar_commit_seconds",
            "Time from the hand-over of a group to the store to its outcome.",
            COMMIT_SECONDS,
        ).labels()
        self.commit_requests = self.histogram(
            "magnetar_commit_group_requests", "Requests whose writes went into one group.", COUNTS
        ).labels()
        self.commit_partitions = self.histogram(
            "magnetar_commit_group_partitions", "Partitions that one group appended to.", COUNTS
        ).labels()
        self.storage_write_seconds = self.histogram(
            "magnetar_storage_write_seconds",
            "Time until a batch that a client sent was stored; _count is the batches.",
            STORED_SECONDS,
        ).labels()
        self.commits_failed = self.counter(
            "magnetar_commits_failed_total", "Groups that were refused or whose outcome is unknown."
        ).labels()

        # -- compaction
        # result is success, error
        self.compactions = self.counter(
            "magnetar_compactions_total", "Passes of compaction over partitions.", ("result",)
        )
        self.compactions_running = self.gauge(
            "magnetar_compactions_running", "Passes that are at work now."
        ).labels()
        self.compaction_read = self.counter(
            "magnetar_compaction_read_bytes_total",
            "Bytes that passes have read, each record twice if it was new.",
        ).labels()
        self.compaction_removed = self.counter(
            "magnetar_compaction_removed_bytes_total", "Bytes by which partitions became smaller."
        ).labels()

        # -- consumer groups
        self.rebalances = self.counter(
            "magnetar_group_rebalances_total", "Rebalances of consumer groups that were completed."
        ).labels()
        self.offset_commits = self.counter(
            "magnetar_group_offset_commits_total", "Offsets of partitions that groups have committed."
        ).labels()

    def throttled(self, why: str, ms: int, size: int) -> None:
        """A client is told to wait for so long, because of a request of so many bytes."""
        self._throttled.labels(why).value += 1
        self._throttled_seconds.labels(why).value += ms / 1000
        self._throttled_bytes.labels(why).value += size

    def watch_tenants(self, uses: Callable[[], Iterable[tuple[str, TenantUse]]]) -> None:
        """Show what tenants use, as it is at each scrape. Call it once."""
        received = self.counter(
            "magnetar_tenant_received_bytes_total", "Bytes that clients of the tenant sent.", ("tenant",)
        )
        sent = self.counter(
            "magnetar_tenant_sent_bytes_total", "Bytes of answers to clients of the tenant.", ("tenant",)
        )
        requests = self.counter(
            "magnetar_tenant_requests_total", "Requests of clients of the tenant.", ("tenant",)
        )
        throttled = self.counter(
            "magnetar_tenant_throttled_seconds_total",
            "Time for which clients of the tenant were told to wait, for rates or quotas.",
            ("tenant",),
        )

        def collect() -> None:
            for tenant, use in uses():
                received.labels(tenant).value = use.received
                sent.labels(tenant).value = use.sent
                requests.labels(tenant).value = use.requests
                throttled.labels(tenant).value = use.throttled_ms / 1000

        self.collect(collect)

    def watch_store(self, stats: Callable[[], StoreStats]) -> None:
        """Show a store's own counters; `stats` is its method of that name. Call it once."""
        commits = self.counter("magnetar_store_commits_total", "Facts committed.").labels()
        groups = self.counter("magnetar_store_groups_total", "Groups of facts written as one.", ("path",))
        inline, threaded = groups.labels("inline"), groups.labels("threaded")
        appended = self.counter("magnetar_store_appended_bytes_total", "Bytes appended to segments.").labels()
        syncs = self.counter(
            "magnetar_store_syncs_total", "Times that files were forced to the disk."
        ).labels()
        sync_seconds = self.counter(
            "magnetar_store_sync_seconds_total", "Time spent forcing files to the disk."
        ).labels()
        cache = self.gauge("magnetar_tail_cache_bytes", "Bytes of fresh batches kept in memory.").labels()
        reads = self.counter(
            "magnetar_tail_cache_reads_total", "Reads by whether the tail cache had the batches.", ("result",)
        )
        hits, misses = reads.labels("hit"), reads.labels("miss")
        files = self.gauge("magnetar_store_open_files", "Segment files held open.").labels()

        def collect() -> None:
            now = stats()
            commits.value = now.commits
            inline.value, threaded.value = now.inline_groups, now.threaded_groups
            appended.value = now.bytes_appended
            syncs.value, sync_seconds.value = now.syncs, now.sync_seconds
            cache.value, hits.value, misses.value = (
                now.tail_cache_bytes,
                now.tail_cache_hits,
                now.tail_cache_misses,
            )
            files.value = now.open_files

        self.collect(collect)

    def watch_certificate(self, ends_in: Callable[[], float]) -> None:
        """Show how long the certificate of TLS is still valid, as it is at each scrape."""
        left = self.gauge(
            "magnetar_tls_certificate_expires_seconds",
            "Seconds until the certificate ends that this gateway shows; negative when it has.",
        ).labels()

        def collect() -> None:
            left.value = ends_in()

        self.collect(collect)

    def watch_memory(self, size: Callable[[], int]) -> None:
        """Show how many bytes messages of non-persistent topics take, as it is at each scrape."""
        kept = self.gauge(
            "magnetar_non_persistent_bytes", "Bytes of messages of non-persistent topics in memory."
        ).labels()

        def collect() -> None:
            kept.value = size()

        self.collect(collect)

    def watch_opened(self, found: Callable[[], tuple[int, int, int, int]]) -> None:
        """Show what is kept of batches that were opened, as it is at each scrape: bytes of what was found in them, of
        those that are open for keys, of those that are kept for scattered records, and how many were opened for these.
        """
        kept = self.gauge(
            "magnetar_opened_batches_bytes", "Bytes kept of batches that were opened, by what for.", ("kept",)
        )
        opened = self.counter(
            "magnetar_batches_opened_total",
            "Times that a batch was opened to send some of its records, since it was not kept open.",
        ).labels()
        scans, keys, scattered = kept.labels("scans"), kept.labels("keys"), kept.labels("scattered")

        def collect() -> None:
            scans.value, keys.value, scattered.value, opened.value = found()

        self.collect(collect)
