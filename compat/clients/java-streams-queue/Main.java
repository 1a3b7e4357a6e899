import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Materialized;

/** Kafka Streams on a queue topic: the application's id is the subscription's name. ../java-common has what it shares. */
public final class Main {
    private static final int KEYS = 20;

    private Main() {}

    public static void main(String[] arguments) throws Exception {
        Cases cases = new Cases();
        cases.put("queue_streams", ctx -> {
            var queue = new QueueTopic(ctx, 4);
            queue.feed(0, 500, KEYS);
            String out = ctx.create(1);
            try (var streams = start(queue, copy(queue, out), 1)) {
                Expect.same(QueueTopic.values(read(ctx, out, 500)), QueueTopic.span(0, 500), "records, each once");
                settled(queue, 500);
                var found = queue.committed(asking(queue)).values();
                Expect.check(found.stream().allMatch(one -> !one.metadata().isEmpty()), "metadata of its own: " + found);
                ctx.detail = "its metadata: " + found.iterator().next().metadata();
            }
            queue.feed(500, 600, KEYS);
            try (var streams = start(queue, copy(queue, out), 1)) {
                Expect.same(QueueTopic.values(read(ctx, out, 600)), QueueTopic.span(0, 600), "records, over a stop");
                settled(queue, 600);
            }
        });
        cases.put("queue_streams_state", ctx -> {
            var queue = new QueueTopic(ctx, 3, "pulsar.subscription.type", "key_shared");
            String out = ctx.create(1);
            for (int round = 1; round <= 2; round++) {
                queue.feed(200 * (round - 1), 200 * round, KEYS);
                try (var streams = start(queue, count(queue, out), 1)) {
                    int count = 10 * round;
                    ctx.until("counts of " + count, () -> {
                        Map<String, Integer> last = new HashMap<>();
                        read(ctx, out, 0).forEach(one -> last.put(new String(one.key(), UTF_8), QueueTopic.value(one)));
                        Expect.check(last.values().stream().allMatch(n -> n <= count), "counted twice: " + last);
                        return last.size() == KEYS && last.values().stream().allMatch(n -> n == count);
                    });
                    settled(queue, 200L * round);
                }
            }
        });
        cases.put("queue_streams_threads", ctx -> {
            var queue = new QueueTopic(ctx, 6, "pulsar.subscription.type", "key_shared");
            String out = ctx.create(1);
            try (var streams = start(queue, copy(queue, out), 3)) {
                queue.feed(0, 1000, KEYS);
                inOrder(read(ctx, out, 1000));
                settled(queue, 1000);
            }
        });
        cases.put("queue_streams_crash", ctx -> {
            var queue = new QueueTopic(ctx, 4, "pulsar.subscription.type", "key_shared");
            String out = ctx.create(1);
            queue.feed(0, 200, KEYS);
            Process first = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx128m",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", System.getProperty("java.class.path"),
                Dying.class.getName(), ctx.bootstrap, queue.group, queue.name, out)
                .redirectError(new File("/dev/null")).redirectOutput(new File("/dev/null")).start();
            ctx.onClose(first::destroyForcibly);
            read(ctx, out, 50);  // it commits once a minute: nothing of it is settled
            first.destroyForcibly();
            try (var streams = start(queue, copy(queue, out), 1)) {
                ctx.until("every record", () -> new HashSet<>(QueueTopic.values(read(ctx, out, 0))).size() == 200);
                ctx.detail = (read(ctx, out, 0).size() - 200) + " of 200 came again";
            }
        });
        cases.put("restart_queue_streams", ctx -> {
            var queue = new QueueTopic(ctx, 3, "pulsar.subscription.type", "key_shared");
            String out = ctx.create(1);
            queue.feed(0, 300, KEYS);
            try (var streams = start(queue, copy(queue, out), 1)) {
                read(ctx, out, 300);
                settled(queue, 300);
                ctx.restart();
                queue.feed(300, 400, KEYS);
                Expect.same(new HashSet<>(QueueTopic.values(read(ctx, out, 400))).size(), 400, "different records");
                Expect.same(read(ctx, out, 0).size(), 400, "records: what was committed did not come again");
            }
        });
        Runner.main("java-streams-queue", new Since43(), cases, arguments);
    }

    /** The application in a process of its own, which commits once a minute, and is to be killed. */
    public static final class Dying {
        public static void main(String[] arguments) throws Exception {
            StreamsBuilder builder = new StreamsBuilder();
            builder.stream(arguments[2]).to(arguments[3]);
            Properties settings = settings(arguments[0], arguments[1], 1);
            settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 60_000);
            new KafkaStreams(builder.build(), settings).start();
            Thread.sleep(600_000);
        }
    }

    private static Properties settings(String bootstrap, String group, int threads) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, group);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.putAll(Security.settings());
        settings.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("streams-").toString());
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, threads);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        settings.put("session.timeout.ms", 3000);
        settings.put("heartbeat.interval.ms", 300);
        settings.put("fetch.max.wait.ms", 100);
        settings.put("auto.offset.reset", "earliest");
        return settings;
    }

    /** Runs until it is closed; then it leaves the group. Its state is gone then, as on another machine. */
    private static AutoCloseable start(QueueTopic queue, Topology topology, int threads) throws Exception {
        KafkaStreams streams = new KafkaStreams(topology, settings(queue.ctx.bootstrap, queue.group, threads));
        AutoCloseable end = () -> streams.close(new KafkaStreams.CloseOptions().leaveGroup(true).timeout(Duration.ofSeconds(5)));
        queue.ctx.onClose(end);
        streams.start();
        queue.ctx.until("the application to run", () -> {
            Expect.check(streams.state() != KafkaStreams.State.ERROR, "the application has ended");
            return streams.state() == KafkaStreams.State.RUNNING;
        });
        return end;
    }

    private static Topology copy(QueueTopic queue, String out) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(queue.name).to(out);
        return builder.build();
    }

    private static Topology count(QueueTopic queue, String out) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<byte[], byte[]>stream(queue.name).groupByKey()
            .count(Materialized.with(Serdes.ByteArray(), Serdes.Long()))
            .toStream().mapValues(count -> ("" + count).getBytes(UTF_8)).to(out);
        return builder.build();
    }

    /** All records of a topic, so many at least. */
    private static List<ConsumerRecord<byte[], byte[]>> read(Ctx ctx, String topic, int count) throws Exception {
        var client = ctx.consumer(null);
        var where = List.of(new TopicPartition(topic, 0));
        client.assign(where);
        client.seekToBeginning(where);
        var found = ctx.take(client, count);
        long end = client.endOffsets(where).get(where.get(0));
        while (client.position(where.get(0)) < end) ctx.api.poll(client, 100).forEach(found::add);
        ctx.api.close(client);
        return found;
    }

    private static void inOrder(List<ConsumerRecord<byte[], byte[]>> found) {
        Map<String, Integer> last = new HashMap<>();
        for (var one : found) {
            Integer before = last.put(new String(one.key(), UTF_8), QueueTopic.value(one));
            Expect.check(before == null ? QueueTopic.value(one) < KEYS : QueueTopic.value(one) == before + KEYS,
                "a key's " + QueueTopic.value(one) + " after " + before);
        }
    }

    private static KafkaConsumer<byte[], byte[]> asking(QueueTopic queue) { return queue.ctx.consumer(queue.group); }

    /** Until so many deliveries are settled, and no more. */
    private static void settled(QueueTopic queue, long count) throws Exception {
        var asking = asking(queue);
        queue.ctx.until(count + " settled deliveries", () -> {
            long found = queue.settled(asking);
            Expect.check(found <= count, found + " deliveries are settled, of " + count);
            return found == count;
        });
        queue.ctx.api.close(asking);
    }
}
