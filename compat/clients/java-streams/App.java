import static java.nio.charset.StandardCharsets.UTF_8;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/** The application of a case: its topics, its instances, and what came out of it. Keys and values are text. */
final class App {
    /** A record that goes in or came out; its time is in ms since 1970. */
    record Line(String key, String value, long time) {
        static Line of(String key, String value) { return new Line(key, value, System.currentTimeMillis()); }
    }

    /** One instance, with a folder of its own for its state. */
    final class Instance implements AutoCloseable {
        final KafkaStreams streams;
        private boolean open = true;
        /** Why it has ended by itself. */
        volatile Throwable failure;

        private Instance(Topology topology, Path folder, Consumer<KafkaStreams> before) {
            streams = new KafkaStreams(topology, settings(ctx.bootstrap, id, folder, configs));
            ctx.onClose(this);
            instances.add(this);
            streams.setUncaughtExceptionHandler(error -> {
                failure = error;
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            before.accept(streams);
            streams.start();
        }

        /** Until it has what it is to have, and serves. */
        Instance running() throws Exception {
            until("the application to run", () -> streams.state() == KafkaStreams.State.RUNNING);
            return this;
        }

        /** How many tasks it works on. */
        int tasks() { return streams.metadataForLocalThreads().stream().mapToInt(t -> t.activeTasks().size()).sum(); }

        /** It leaves its group, as one that is not to come back. */
        @Override public void close() {
            if (!open) return;
            open = false;
            streams.close(CloseOptions.timeout(Duration.ofSeconds(10))
                .withGroupMembershipOperation(GroupMembershipOperation.LEAVE_GROUP));
        }
    }

    final Ctx ctx;
    final String id;
    private final Map<String, String> configs;
    private final List<Instance> instances = new ArrayList<>();

    /** `guarantee`: processing.guarantee; more configs in pairs. */
    App(Ctx ctx, String guarantee, String... configs) {
        this.ctx = ctx;
        this.id = ctx.group();
        this.configs = new HashMap<>(Ctx.pairs(configs));
        this.configs.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
    }

    /** What keeps a case quick; the rest is as Streams has it. */
    static Properties settings(String bootstrap, String id, Path folder, Map<String, String> more) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, id);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.putAll(Security.settings());
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder.toString());
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put("session.timeout.ms", 3000);
        settings.put("heartbeat.interval.ms", 300);
        settings.put("fetch.max.wait.ms", 100);
        settings.put("auto.offset.reset", "earliest");
        settings.putAll(more);
        return settings;
    }

    /** A new instance without any state, which runs. */
    Instance start(Topology topology) throws Exception { return start(topology, streams -> {}); }

    Instance start(Topology topology, Consumer<KafkaStreams> before) throws Exception {
        return new Instance(topology, folder(), before).running();
    }

    /** One that has the state of an earlier one. */
    Instance start(Topology topology, Path folder) throws Exception {
        return new Instance(topology, folder, streams -> {}).running();
    }

    /** One that may never run. */
    Instance begin(Topology topology) throws Exception { return new Instance(topology, folder(), streams -> {}); }

    /** As that of the case, but no longer than all instances are well. */
    void until(String what, Ctx.Condition condition) throws Exception {
        ctx.until(what, () -> {
            for (Instance one : instances) {
                Throwable why = one.failure;
                while (why != null && why.getCause() != null) why = why.getCause();
                Expect.check(why == null, "an instance has ended: " + why);
            }
            return condition.test();
        });
    }

    /** A folder that goes with the case. */
    Path folder() throws Exception {
        Path folder = Files.createTempDirectory("streams-");
        ctx.onClose(() -> {
            try (var found = Files.walk(folder)) {
                found.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
            }
        });
        return folder;
    }

    /** Produced when this comes back, each with its time. */
    void feed(String topic, List<Line> lines) throws Exception {
        var client = ctx.producer("linger.ms", "5");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (Line one : lines) {
            byte[] value = one.value == null ? null : one.value.getBytes(UTF_8);
            sent.add(client.send(new ProducerRecord<>(topic, null, one.time, one.key.getBytes(UTF_8), value)));
        }
        for (var future : sent) future.get(Math.max(1, ctx.left()), TimeUnit.MILLISECONDS);
        ctx.api.close(client);
    }

    /** All that is committed in a topic, by partition and in order. */
    List<Line> read(String topic) throws Exception { return read(topic, IsolationLevel.READ_COMMITTED); }

    List<Line> read(String topic, IsolationLevel level) throws Exception {
        var client = ctx.consumer(null, "isolation.level", level.toString());
        var places = IntStream.range(0, ctx.describe(topic).partitions().size())
            .mapToObj(n -> new TopicPartition(topic, n)).toList();
        client.assign(places);
        client.seekToBeginning(places);
        var ends = client.endOffsets(places);
        List<Line> found = new ArrayList<>();
        ctx.until("the end of " + topic, () -> {
            for (var one : ctx.api.poll(client, 100)) found.add(new Line(text(one.key()), text(one.value()), one.timestamp()));
            return places.stream().allMatch(place -> client.position(place) >= ends.get(place));
        });
        ctx.api.close(client);
        return found;
    }

    private static String text(byte[] bytes) { return bytes == null ? null : new String(bytes, UTF_8); }

    /** The topic that Streams makes for a part of this name. */
    String internal(String part) { return id + "-" + part; }

    /** The values of each key, in order. */
    static Map<String, List<String>> byKey(List<Line> lines) {
        Map<String, List<String>> found = new HashMap<>();
        for (Line one : lines) found.computeIfAbsent(one.key, key -> new ArrayList<>()).add(one.value);
        return found;
    }

    /** The last value of each key; keys that are deleted are left out. */
    static Map<String, String> last(List<Line> lines) {
        Map<String, String> found = new HashMap<>();
        byKey(lines).forEach((key, values) -> {
            String value = values.get(values.size() - 1);
            if (value != null) found.put(key, value);
        });
        return found;
    }

    /** The same lines, however often each; says which are missing and which are too many. */
    static void same(List<String> found, List<String> expected, String what) {
        List<String> missing = new ArrayList<>(expected), more = new ArrayList<>(found);
        found.forEach(missing::remove);
        expected.forEach(more::remove);
        Expect.check(missing.isEmpty() && more.isEmpty(), what + ": " + missing.size() + " are missing, e.g. "
            + missing.stream().limit(5).toList() + ", " + more.size() + " too many, e.g. " + more.stream().limit(5).toList());
    }

    /** "key=value" of all, sorted: what came, however often, in whatever order. */
    static List<String> sorted(List<Line> lines) {
        return lines.stream().map(one -> one.key + "=" + one.value).sorted().toList();
    }
}
