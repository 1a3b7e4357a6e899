"""Topics and partitions in use: what is in memory of them, made when somebody asks and let go when nobody does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gateway.broker import producers as dedup
from gateway.broker.errors import KafkaError
from gateway.broker.loading import Loading, all_loaded, check_loaded, when_loaded
from gateway.broker.namespaces import prefix_of
from gateway.broker.partition import Partition
from gateway.broker.topic_runtime import TopicRuntime
from gateway.broker.transient import Remembering, TransientPartition
from gateway.wire.errors import Error
from semantics.names import dotted
from store.api import Family, Log, StoreError, of_partition
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.readable import Readable
    from gateway.config.topic_configs import TopicConfig
    from semantics.names import Namespace


class InUse:
    """By name (UTF-8) and by id. The rest of the topics there are is rows of the catalog."""

    def __init__(
        self,
        home: Remembering,
        catalog: Catalog,
        effective: Callable[[Topic], TopicConfig],
        lane: Callable[[TopicRuntime, int], Readable],
        subscribed: Callable[[bytes], bool],
    ) -> None:
        """`effective` says how a topic is configured; `lane` what a partition of a queue topic has, or of an internal
        one; `subscribed` whether somebody subscribes to the topic of an id. Raises KafkaError.
        """
        self._lane = lane
        self._subscribed = subscribed
        self._home = home
        self._catalog = catalog
        self._effective = effective
        self._by_name: dict[bytes, TopicRuntime] = {}
        # those of public/default, which its clients call so
        self._at_home: dict[bytes, TopicRuntime] = {}
        self._by_id: dict[bytes, TopicRuntime] = {}

    # -- asked for --------------------------------------------------------------------------------------------------

    def topic(self, name: bytes) -> TopicRuntime | None:
        """The topic of that name, made ready for use."""
        runtime = self._by_name.get(name)
        if runtime is None:
            try:
                topic = self._catalog.get(name.decode())
            except UnicodeDecodeError:
                return None
            if topic is not None:
                runtime = self._open(topic)
        return runtime

    def at_home(self, name: bytes) -> TopicRuntime | None:
        """The topic that a client at home in public/default calls so, if it has one of its own: what has a slash is
        none.
        """
        runtime = self._at_home.get(name)
        if runtime is None and b"/" not in name:
            return self.topic(name)
        return runtime

    def topic_by_id(self, topic_id: bytes) -> TopicRuntime | None:
        runtime = self._by_id.get(topic_id)
        if runtime is None:
            topic = self._catalog.by_id(topic_id)
            if topic is not None:
                runtime = self._open(topic)
        return runtime

    def partition_of(self, runtime: TopicRuntime, index: int) -> Partition:
        """Raises KafkaError when the topic has no such partition; Loading when it is not loaded yet."""
        partitions = runtime.partitions
        if not 0 <= index < len(partitions):
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
        return partitions[index] or self._make(runtime, index)

    def readable(self, runtime: TopicRuntime, index: int) -> Readable:
        """What is fetched as a partition of a topic: a partition, a lane, or one of a view. Raises KafkaError;
        Loading.
        """
        if runtime.topic.queue is not None or self._catalog.is_view(runtime.topic):
            return self._lane(runtime, index)
        return self.partition_of(runtime, index)

    def _make(self, runtime: TopicRuntime, index: int) -> Partition:
        """Read what is stored of a partition. Raises KafkaError."""
        if runtime.topic.queue is not None:
            raise KafkaError(
                Error.INVALID_TOPIC_EXCEPTION,
                f"'{dotted(runtime.name)}' is a queue topic: it has no records of its own, and those of its base are "
                "published there.",
            )
        if self._catalog.is_view(runtime.topic):
            raise KafkaError(
                Error.INVALID_TOPIC_EXCEPTION,
                f"'{runtime.name}' shows what the gateway keeps of groups and transactions: it can be read, and has no "
                "records of its own.",
            )
        current = self.topic_by_id(runtime.topic_id)
        if current is None:
            # The topic went between the look into the catalog and this one.
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
        if current is not runtime:
            # it has left memory since, and came back
            return self.partition_of(current, index)
        if runtime.deleting:
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
        if runtime.name in self._catalog.coming:
            # its rows can be read already, and its first records not yet
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
        number = runtime.topic.partitions[index]
        store = self._home.store_of(runtime.topic)
        check_loaded(store, of_partition(number))
        try:
            log = store.log(number)
            producers = dedup.ProducerTable(number, store.scan(Family.DEDUP, dedup.prefix(number)))
            subscribed = self._subscribed(runtime.topic_id)
        except StoreError as error:
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, str(error)) from error
        except KeyError:
            # its deletion is on its way
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION) from None
        kind = TransientPartition if runtime.topic.transient else Partition
        partition = kind(self._home, runtime, index, store, log, producers)
        runtime.partitions[index] = partition
        if subscribed:
            partition.subscribed()
        return partition

    def partition(self, topic: Topic, index: int) -> Partition:
        """Raises KafkaError when the topic has no such partition, or is another by now; Loading."""
        runtime = self.topic(topic.name.encode())
        if runtime is None or runtime.topic_id != topic.topic_id:
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
        return self.partition_of(runtime, index)

    def open(self, topic: Topic, index: int) -> Pending[Partition]:
        """The same, once it is loaded. Raises KafkaError."""
        return when_loaded(lambda: self.partition(topic, index))

    def load(self, named: Iterable[tuple[TopicRuntime | None, int]]) -> Pending[None]:
        """Until those partitions are loaded that a request names, as far as they are there."""
        loading: list[Loading] = []
        for runtime, index in named:
            if (
                runtime is None
                or not 0 <= index < len(runtime.partitions)
                or runtime.partitions[index] is not None
                or self._catalog.is_view(runtime.topic)
            ):
                continue
            try:
                store = self._home.store_of(runtime.topic)
                check_loaded(store, of_partition(runtime.topic.partitions[index]))
            except Loading as error:
                loading.append(error)
        return all_loaded(loading) if loading else None

    def log_of(self, topic: Topic, index: int) -> Log:
        """The log of a partition, in use or not. Raises KafkaError: the catalog may still have a topic whose deletion
        the store has done already, or have it no more; Loading.
        """
        store, number = self._home.store_of(topic), topic.partitions[index]
        check_loaded(store, of_partition(number))
        try:
            if topic.name in self._catalog.coming or not self._catalog.holds(topic):
                raise KeyError(topic.name)
            return store.log(number)
        except KeyError:
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, "The topic is being deleted.") from None
        except StoreError as error:
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, str(error)) from error

    def _open(self, topic: Topic) -> TopicRuntime:
        runtime = TopicRuntime(topic, self._effective(topic))
        self._by_name[runtime.name_utf8] = runtime
        if b"/" not in runtime.name_utf8:
            self._at_home[runtime.name_utf8] = runtime
        self._by_id[topic.topic_id] = runtime
        return runtime

    def config_of(self, topic: Topic) -> TopicConfig | None:
        """What is in force for a topic in use, by the catalog's row of it as it is now; None for any other."""
        runtime = self._by_name.get(topic.name.encode())
        return runtime.config if runtime is not None and runtime.topic is topic else None

    # -- all of them ------------------------------------------------------------------------------------------------

    def runtimes(self) -> list[TopicRuntime]:
        return list(self._by_name.values())

    def partitions(self) -> list[Partition]:
        return [each for runtime in self._by_name.values() for each in runtime.partitions if each is not None]

    # -- changes ----------------------------------------------------------------------------------------------------

    def reconfigure(self, namespace: Namespace | None = None) -> None:
        """What topics without a value of their own take may have changed, for those of a namespace or for all."""
        full = self._catalog.namespaces.full
        prefix = prefix_of(namespace) if namespace is not None else ""
        for runtime in self._by_name.values():
            if namespace is None or (
                runtime.name.startswith(prefix) and full(runtime.name).namespace == namespace
            ):
                self._configure(runtime)

    def _configure(self, runtime: TopicRuntime) -> None:
        runtime.config = self._effective(runtime.topic)
        for partition in runtime.partitions:
            if partition is not None:
                partition.configure(runtime.config)

    def topic_changed(self, name: str, topic: Topic | None) -> None:
        """A change of the catalog shows there: forget or renew what is derived from the old row."""
        old = self._by_name.get(name.encode())
        if old is None:
            return
        if topic is None or topic.topic_id != old.topic_id:
            del self._by_name[old.name_utf8]
            self._at_home.pop(old.name_utf8, None)
            self._by_id.pop(old.topic_id, None)
            for partition in old.partitions:
                if partition is not None:
                    partition.retire()
            for number in old.topic.partitions:
                self._home.traffic.forget(number)
                self._home.undelayed.forget(number)
            return
        old.topic = topic
        old.partitions.extend([None] * (len(topic.partitions) - len(old.partitions)))
        self._configure(old)

    def release_idle(self) -> None:
        """Let go of partitions that nobody has used since the last call: an idle topic is a row on the disk."""
        for runtime in list(self._by_name.values()):
            busy = runtime.deleting or bool(runtime.ending)
            for index, partition in enumerate(runtime.partitions):
                if partition is None:
                    continue
                activity = partition.bytes_in + partition.bytes_out
                if partition.watchers or not partition.quiet:
                    busy = True
                elif partition.publishers and partition.most_producers:
                    # they would lose their places
                    busy = True
                elif activity == partition.idle_mark:
                    partition.let_go()
                    runtime.partitions[index] = None
                else:
                    partition.idle_mark = activity
                    busy = True
            if not busy:
                del self._by_name[runtime.name_utf8]
                self._at_home.pop(runtime.name_utf8, None)
                self._by_id.pop(runtime.topic_id, None)
