// The Java client of Apache Kafka: a single-file source, run with `java -cp 'jars/*' Client.java --bootstrap HOST:PORT`.
// The same command line and JSON lines as the Python programs (../common.py); ../cases.toml says what each case proves.

import static java.nio.charset.StandardCharsets.UTF_8;

import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.regex.Pattern;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.AppInfoParser;

public class Client {
    // --- the runner: cases in threads, time limits, one JSON line for each

    interface Body { void run(Ctx ctx) throws Exception; }

    interface Check { boolean test() throws Exception; }

    static final Map<String, Body> CASES = new LinkedHashMap<>();
    static long limit = 30_000;

    static class Barrier {
        final CountDownLatch released = new CountDownLatch(1);
        final Semaphore events = new Semaphore(0);
        volatile String bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        String bootstrap = null;
        List<String> names = new ArrayList<>();
        boolean list = false, skipRestart = false;
        int parallel = 4;
        for (int i = 0; i < arguments.length; i++) {
            switch (arguments[i]) {
                case "--bootstrap" -> bootstrap = arguments[++i];
                case "--case" -> names.add(arguments[++i]);
                case "--limit" -> limit = (long) (Double.parseDouble(arguments[++i]) * 1000);
                case "--parallel" -> parallel = Integer.parseInt(arguments[++i]);
                case "--list" -> list = true;
                case "--skip-restart" -> skipRestart = true;
                default -> throw new IllegalArgumentException("unknown argument " + arguments[i]);
            }
        }
        produceAndConsume();
        consume();
        groups();
        restarts();
        administration();
        errors();
        String head = "{\"client\": \"java-kafka-clients\", \"version\": " + quote(AppInfoParser.getVersion());
        if (list) {
            System.out.println(head + ", \"cases\": " + CASES.keySet().stream().map(Client::quote).toList() + "}");
            return;
        }
        if (names.isEmpty()) names.addAll(CASES.keySet());
        if (!CASES.keySet().containsAll(names)) throw new IllegalArgumentException("no such case in " + names);
        System.out.println(head + "}");
        ExecutorService pool = Executors.newFixedThreadPool(parallel, Client::daemon);
        List<Future<Boolean>> running = new ArrayList<>();
        for (String name : names) {
            String server = bootstrap;
            if (!name.startsWith("restart_")) running.add(pool.submit(() -> run(name, server, null)));
        }
        boolean failed = false;
        for (Future<Boolean> each : running) failed |= !each.get();
        List<String> restarts = names.stream().filter(n -> n.startsWith("restart_")).toList();
        if (!restarts.isEmpty() && !skipRestart) failed |= !runRestarts(restarts, bootstrap);
        System.out.flush();
        Runtime.getRuntime().halt(failed ? 1 : 0);  // cases past their time may hang
    }

    static Thread daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    // All at once up to the restart, tell the harness, wait for its line, go on.
    static boolean runRestarts(List<String> names, String bootstrap) throws Exception {
        Barrier barrier = new Barrier();
        List<FutureTask<Boolean>> tasks = new ArrayList<>();
        for (String name : names) {
            FutureTask<Boolean> task = new FutureTask<>(() -> {
                boolean ok = run(name, bootstrap, barrier);
                barrier.events.release();
                return ok;
            });
            tasks.add(task);
            daemon(task).start();
        }
        barrier.events.tryAcquire(names.size(), limit + 10_000, TimeUnit.MILLISECONDS);
        System.out.println("{\"waiting\": \"restart\"}");
        String[] line = new Scanner(System.in).nextLine().split(" ");
        barrier.bootstrap = line.length > 1 ? line[1] : bootstrap;
        barrier.released.countDown();
        boolean ok = true;
        for (FutureTask<Boolean> task : tasks) ok &= task.get();
        return ok;
    }

    // Run one case, a thread of its own so that it can be given up.
    static boolean run(String name, String bootstrap, Barrier barrier) throws InterruptedException {
        Ctx ctx = new Ctx(name, bootstrap, barrier);
        long start = System.nanoTime();
        Throwable[] problem = {null};
        Thread body = daemon(() -> {
            try {
                CASES.get(name).run(ctx);
            } catch (Throwable error) {
                problem[0] = error;
            } finally {
                ctx.close();
            }
        });
        body.start();
        while (body.isAlive() && ctx.left() > -10_000) body.join(50);
        if (body.isAlive()) problem[0] = new AssertionError("no end after " + (limit / 1000 + 10) + " s");
        Throwable error = problem[0] instanceof ExecutionException e ? e.getCause() : problem[0];
        String detail = error == null ? ctx.detail : error + at(error);
        String line = "{\"case\": " + quote(name) + ", \"ok\": " + (error == null) + ", \"detail\": " + quote(detail)
            + (ctx.refused.isEmpty() ? "" : ", \"refused\": " + quote(ctx.refused))
            + ", \"ms\": " + (System.nanoTime() - start) / 1_000_000 + "}";
        synchronized (System.out) {
            System.out.println(line);
        }
        return error == null;
    }

    static String at(Throwable error) {
        return Arrays.stream(error.getStackTrace())
            .filter(f -> "Client.java".equals(f.getFileName()) && !f.getMethodName().matches("check|same|failure|until"))
            .findFirst().map(f -> " (Client.java:" + f.getLineNumber() + ")").orElse("");
    }

    static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < 32) out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        return out.append('"').toString();
    }

    static void check(boolean condition, String what) {
        if (!condition) throw new AssertionError(what);
    }

    static void same(Object actual, Object expected, String what) {
        if (!Objects.equals(actual, expected)) {
            String text = String.valueOf(actual);
            if (text.length() > 300) text = text.substring(0, 300) + "…";
            throw new AssertionError(what + ": got " + text + ", expected " + expected);
        }
    }

    // The error of this kind that an action raises; fails when there is none.
    static Throwable failure(Class<? extends Throwable> kind, Callable<?> action) {
        try {
            action.call();
        } catch (Throwable error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            if (kind.isInstance(cause)) return cause;
            throw new AssertionError("expected " + kind.getSimpleName() + ", got " + cause);
        }
        throw new AssertionError("expected " + kind.getSimpleName() + ", got no error");
    }

    // --- what a case works with

    record Rec(byte[] key, byte[] value) {
        static Rec of(String key, String value) {
            return new Rec(key == null ? null : key.getBytes(UTF_8), value == null ? null : value.getBytes(UTF_8));
        }
        @Override public boolean equals(Object o) {
            return o instanceof Rec r && Arrays.equals(key, r.key) && Arrays.equals(value, r.value);
        }
        @Override public int hashCode() { return Arrays.hashCode(key); }
        @Override public String toString() { return text(key) + "=" + text(value); }
        static String text(byte[] bytes) {
            return bytes == null ? "null" : new String(bytes, 0, Math.min(bytes.length, 20), UTF_8);
        }
    }

    // Half of a value is text, half noise.
    static List<Rec> sample(int count, int size) {
        Random noise = new Random(7);
        List<Rec> records = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            byte[] value = new byte[size];
            noise.nextBytes(value);
            Arrays.fill(value, 0, size / 2, (byte) '.');
            records.add(new Rec(("key-" + n).getBytes(UTF_8), value));
        }
        return records;
    }

    static List<Rec> sample(int count) { return sample(count, 100); }

    static List<Rec> records(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(r -> new Rec(r.key(), r.value())).toList();
    }

    static List<Long> offsets(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(ConsumerRecord::offset).toList();
    }

    static List<Long> range(long from, long to) { return LongStream.range(from, to).boxed().toList(); }

    static int number(ConsumerRecord<byte[], byte[]> record) {
        return Integer.parseInt(new String(record.key(), UTF_8).split("-")[1]);
    }

    static class Ctx {
        final String name;
        String bootstrap, detail = "", refused = "";
        private final Barrier barrier;
        private volatile long end = System.nanoTime() / 1_000_000 + limit;
        private final Deque<AutoCloseable> open = new ArrayDeque<>();
        private Admin admin;

        Ctx(String name, String bootstrap, Barrier barrier) {
            this.name = name;
            this.bootstrap = bootstrap;
            this.barrier = barrier;
        }

        long left() { return end - System.nanoTime() / 1_000_000; }

        String unique(String label) {
            return "compat." + name + "." + label + "." + UUID.randomUUID().toString().substring(0, 10);
        }

        String topicName() { return unique("t"); }

        String group() { return unique("g"); }

        void restart() throws Exception {
            end = Long.MAX_VALUE;
            barrier.events.release();
            barrier.released.await();
            bootstrap = barrier.bootstrap;
            end = System.nanoTime() / 1_000_000 + limit;
        }

        void until(String what, Check check) throws Exception {
            while (left() > 0) {
                if (check.test()) return;
                Thread.sleep(10);
            }
            throw new AssertionError("gave up waiting for " + what);
        }

        <T> T get(KafkaFuture<T> future) throws Exception {
            return future.get(Math.max(1, left()), TimeUnit.MILLISECONDS);
        }

        Admin admin() {
            if (admin == null) {
                admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", 20000, "request.timeout.ms", 15000));
                open.push(() -> admin.close(Duration.ofSeconds(3)));
            }
            return admin;
        }

        // A new topic; configs in pairs. Comes back when the broker knows it.
        String create(int partitions, String... configs) throws Exception {
            String topic = topicName();
            get(admin().createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(pairs(configs)))).all());
            describe(topic);
            return topic;
        }

        // Kafka answers CreateTopics before its brokers know of the topic: ask until it is known.
        TopicDescription describe(String topic) throws Exception {
            TopicDescription[] found = {null};
            until("the topic to be known", () -> {
                try {
                    found[0] = get(admin().describeTopics(List.of(topic)).allTopicNames()).get(topic);
                    return found[0].partitions().stream().allMatch(p -> p.leader() != null);
                } catch (ExecutionException e) {
                    if (e.getCause() instanceof UnknownTopicOrPartitionException) return false;
                    throw e;
                }
            });
            return found[0];
        }

        Producer<byte[], byte[]> producer(String... conf) {
            Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "max.block.ms", 15000));
            settings.putAll(pairs(conf));
            var client = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
            open.push(() -> client.close(Duration.ofSeconds(3)));
            return client;
        }

        // Produce and flush; raises the first failure.
        List<RecordMetadata> produce(String topic, Integer partition, List<Rec> records, String... conf)
                throws Exception {
            Producer<byte[], byte[]> client = producer(conf);
            List<Future<RecordMetadata>> futures = new ArrayList<>();
            for (Rec r : records) futures.add(client.send(new ProducerRecord<>(topic, partition, r.key, r.value)));
            client.flush();
            List<RecordMetadata> done = new ArrayList<>();
            for (var future : futures) done.add(future.get(Math.max(1, left()), TimeUnit.MILLISECONDS));
            return done;
        }

        List<RecordMetadata> produce(String topic, List<Rec> records, String... conf) throws Exception {
            return produce(topic, null, records, conf);
        }

        KafkaConsumer<byte[], byte[]> consumer(String group, String... conf) {
            Map<String, Object> settings = new HashMap<>(Map.of(
                "bootstrap.servers", bootstrap, "auto.offset.reset", "earliest", "enable.auto.commit", "false",
                "session.timeout.ms", "10000", "heartbeat.interval.ms", "500", "fetch.max.wait.ms", "100"));
            if (group != null) settings.put("group.id", group);
            settings.putAll(pairs(conf));
            var client = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            open.push(() -> client.close(CloseOptions.timeout(Duration.ofSeconds(3))));
            return client;
        }

        List<ConsumerRecord<byte[], byte[]>> take(Consumer<byte[], byte[]> client, int count) throws Exception {
            List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
            until(count + " records", () -> {
                client.poll(Duration.ofMillis(200)).forEach(records::add);
                return records.size() >= count;
            });
            return records;
        }

        List<ConsumerRecord<byte[], byte[]>> read(String topic, int partitions, int count, String... conf)
                throws Exception {
            var client = consumer(null, conf);
            client.assign(IntStream.range(0, partitions).mapToObj(p -> new TopicPartition(topic, p)).toList());
            client.seekToBeginning(client.assignment());
            return take(client, count);
        }

        Config config(ConfigResource.Type type, String name) throws Exception {
            ConfigResource resource = new ConfigResource(type, name);
            return get(admin().describeConfigs(List.of(resource)).all()).get(resource);
        }

        ConfigEntry config(String topic, String name) throws Exception {
            return config(ConfigResource.Type.TOPIC, topic).get(name);
        }

        void alter(String topic, String name, String value, AlterConfigOp.OpType operation) throws Exception {
            get(admin().incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic),
                List.of(new AlterConfigOp(new ConfigEntry(name, value), operation)))).all());
        }

        void close() {
            while (!open.isEmpty()) {
                try {
                    open.pop().close();
                } catch (Exception error) {
                    System.err.println(name + ": closing: " + error);
                }
            }
        }
    }

    static Map<String, String> pairs(String... names) {
        Map<String, String> map = new LinkedHashMap<>();
        for (int i = 0; i < names.length; i += 2) map.put(names[i], names[i + 1]);
        return map;
    }

    // --- cases

    static void produceAndConsume() {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            CASES.put("produce_" + codec, ctx -> {
                String topic = ctx.create(1);
                List<Rec> sent = sample(500);
                ctx.produce(topic, sent, "compression.type", codec, "acks", "all");
                same(records(ctx.read(topic, 1, 500)), sent, "records");
            });
        }
        CASES.put("acks", ctx -> {
            String topic = ctx.create(1);
            for (String acks : List.of("0", "1")) {
                ctx.produce(topic, sample(50), "acks", acks, "enable.idempotence", "false");
            }
            same(ctx.read(topic, 1, 100).size(), 100, "records");
        });
        CASES.put("headers", ctx -> {
            String topic = ctx.create(1);
            var record = new ProducerRecord<>(topic, "k".getBytes(), "v".getBytes());
            byte[][] values = {{0, -1}, {1}, {2}, {}, null, "ü".getBytes(UTF_8)};
            String[] names = {"trace", "twice", "twice", "empty", "null", "käse"};
            for (int i = 0; i < names.length; i++) record.headers().add(names[i], values[i]);
            var client = ctx.producer();
            client.send(record).get();
            client.send(new ProducerRecord<>(topic, "v".getBytes())).get();
            var got = ctx.read(topic, 1, 2);
            Header[] back = got.get(0).headers().toArray();
            same(back.length, names.length, "headers");
            for (int i = 0; i < names.length; i++) {
                same(back[i].key(), names[i], "header key");
                check(Arrays.equals(back[i].value(), values[i]), "value of header " + names[i]);
            }
            same(got.get(1).headers().toArray().length, 0, "headers of the second");
        });
        CASES.put("null_key_and_value", ctx -> {
            String topic = ctx.create(1);
            List<Rec> sent = List.of(Rec.of("k", "v"), Rec.of(null, "no key"), Rec.of("no value", null),
                Rec.of(null, null), Rec.of("", ""));
            ctx.produce(topic, sent);
            same(records(ctx.read(topic, 1, 5)), sent, "records");
        });
        CASES.put("idempotent_producer", ctx -> {
            String topic = ctx.create(3);
            ctx.produce(topic, sample(3000), "enable.idempotence", "true", "batch.size", "2000");
            var got = ctx.read(topic, 3, 3000);
            for (int p = 0; p < 3; p++) {
                int partition = p;
                var mine = got.stream().filter(r -> r.partition() == partition).toList();
                same(offsets(mine), range(0, mine.size()), "offsets");
                var order = mine.stream().map(Client::number).toList();
                same(order, order.stream().sorted().distinct().toList(), "order");
            }
        });
        CASES.put("timestamps", ctx -> {
            String topic = ctx.create(1);
            var client = ctx.producer();
            long start = System.currentTimeMillis() - 60_000;
            for (int n = 0; n < 5; n++) client.send(new ProducerRecord<>(topic, 0, start + n, null, new byte[] {1}));
            client.flush();
            var got = ctx.read(topic, 1, 5);
            same(got.stream().map(ConsumerRecord::timestamp).toList(), range(start, start + 5), "timestamps");
            same(got.get(0).timestampType(), TimestampType.CREATE_TIME, "type");
        });
        CASES.put("log_append_time", ctx -> {
            String topic = ctx.create(1, "message.timestamp.type", "LogAppendTime");
            long before = System.currentTimeMillis() - 1000;
            var sent = ctx.producer().send(new ProducerRecord<>(topic, 0, 1_000L, null, new byte[] {1})).get();
            var got = ctx.read(topic, 1, 1).get(0);
            same(got.timestampType(), TimestampType.LOG_APPEND_TIME, "type");
            check(got.timestamp() >= before && got.timestamp() < before + 60_000, "not the broker's: " + got);
            same(sent.timestamp(), got.timestamp(), "timestamp in the produce response");
        });
        CASES.put("auto_create_topic", ctx -> {
            String topic = ctx.topicName();
            ctx.produce(topic, sample(10));
            same(ctx.read(topic, 1, 10).size(), 10, "records");
        });
        CASES.put("many_partitions", ctx -> {
            String topic = ctx.create(60);
            var client = ctx.producer();
            for (int n = 0; n < 1200; n++) {
                client.send(new ProducerRecord<>(topic, n % 60, null, Integer.toString(n).getBytes()));
            }
            client.flush();
            Set<String> got = ctx.read(topic, 60, 1200).stream()
                .map(r -> r.partition() + ":" + new String(r.value())).collect(Collectors.toSet());
            same(got, IntStream.range(0, 1200).mapToObj(n -> n % 60 + ":" + n).collect(Collectors.toSet()), "records");
        });
        CASES.put("large_message", ctx -> {
            String topic = ctx.create(1);
            List<Rec> big = sample(1, 1_000_000);
            ctx.produce(topic, big);
            same(records(ctx.read(topic, 1, 1)), big, "1 MB message");
            topic = ctx.create(1, "max.message.bytes", "4000000");
            big = sample(1, 3_000_000);
            ctx.produce(topic, big, "max.request.size", "4000000");
            same(records(ctx.read(topic, 1, 1)), big, "3 MB message");
        });
        CASES.put("batch_larger_than_fetch", ctx -> {
            String topic = ctx.create(1);
            List<Rec> sent = sample(200, 1000);
            ctx.produce(topic, sent, "linger.ms", "200", "batch.size", "100000");
            same(records(ctx.read(topic, 1, 200, "max.partition.fetch.bytes", "1000", "fetch.max.bytes", "1000")),
                sent, "records");
        });
        CASES.put("many_batches", ctx -> {
            String topic = ctx.create(1);
            ctx.produce(topic, sample(20_000), "batch.size", "8000");
            var got = ctx.read(topic, 1, 20_000);
            same(offsets(got), range(0, 20_000), "offsets");
            same(got.stream().map(r -> (long) number(r)).toList(), range(0, 20_000), "keys");
        });
        CASES.put("compacted_topic", ctx -> {
            String topic = ctx.create(1, "cleanup.policy", "compact");
            ctx.produce(topic, List.of(Rec.of("a", "1"), Rec.of("b", "2"), Rec.of("a", null)));
            same(records(ctx.read(topic, 1, 3)).get(2), Rec.of("a", null), "tombstone");
        });
        CASES.put("topic_compression", ctx -> {
            Map<String, Long> sizes = new HashMap<>();
            int node = ctx.get(ctx.admin().describeCluster().nodes()).iterator().next().id();
            for (String codec : List.of("gzip", "uncompressed", "zstd", "snappy")) {
                TopicPartition where = new TopicPartition(ctx.create(1, "compression.type", codec), 0);
                List<Rec> sent = sample(100);
                ctx.produce(where.topic(), sent, "compression.type", "lz4", "linger.ms", "100");
                same(records(ctx.read(where.topic(), 1, 100)), sent, "records stored as " + codec);
                var folders = ctx.get(ctx.admin().describeLogDirs(List.of(node)).allDescriptions()).get(node).values();
                sizes.put(codec, folders.stream().map(f -> f.replicaInfos().get(where)).filter(Objects::nonNull)
                    .mapToLong(ReplicaInfo::size).sum());
            }
            // Half of each value is noise.
            check(sizes.get("gzip") < 0.8 * sizes.get("uncompressed"), "stored sizes: " + sizes);
            check(sizes.get("zstd") < 0.8 * sizes.get("uncompressed"), "stored sizes: " + sizes);
        });
    }

    static void consume() {
        CASES.put("consume_by_assignment", ctx -> {
            String topic = ctx.create(3);
            for (int p = 0; p < 3; p++) ctx.produce(topic, p, sample(20));
            var client = ctx.consumer(null);
            client.assign(List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 2)));
            Set<Integer> got = ctx.take(client, 40).stream().map(ConsumerRecord::partition).collect(Collectors.toSet());
            same(got, Set.of(0, 2), "partitions");
        });
        CASES.put("consume_by_group", ctx -> {
            String topic = ctx.create(3);
            ctx.produce(topic, sample(300));
            var client = ctx.consumer(ctx.group());
            client.subscribe(List.of(topic));
            var got = ctx.take(client, 300).stream().map(r -> (long) number(r)).sorted().toList();
            same(got, range(0, 300), "records");
        });
        CASES.put("subscribe_pattern", ctx -> {
            String prefix = ctx.topicName();
            for (String suffix : List.of("one", "two")) ctx.produce(prefix + "." + suffix, sample(10));
            var client = ctx.consumer(ctx.group(), "metadata.max.age.ms", "500");
            client.subscribe(Pattern.compile(Pattern.quote(prefix) + "\\..*"));
            Set<String> seen = new HashSet<>();
            Check poll = () -> {
                client.poll(Duration.ofMillis(200)).forEach(r -> seen.add(r.topic()));
                return seen.size() == 2;
            };
            ctx.until("both topics", poll);
            ctx.produce(prefix + ".three", sample(10));
            ctx.until("the later topic", () -> { poll.test(); return seen.contains(prefix + ".three"); });
        });
        CASES.put("seek_into_batch", ctx -> {
            String topic = ctx.create(1);
            ctx.produce(topic, sample(100), "linger.ms", "200", "compression.type", "lz4");
            var client = ctx.consumer(null);
            TopicPartition where = new TopicPartition(topic, 0);
            client.assign(List.of(where));
            client.seek(where, 57);
            same(offsets(ctx.take(client, 43)), range(57, 100), "offsets");
            client.seek(where, 33);
            same(ctx.take(client, 1).get(0).offset(), 33L, "offset after seek");
        });
        CASES.put("seek_by_time", ctx -> {
            String topic = ctx.create(1);
            var client = ctx.producer("linger.ms", "100");
            long start = System.currentTimeMillis() - 600_000;
            for (long n = 0; n < 100; n++) {
                client.send(new ProducerRecord<>(topic, 0, start + n * 1000, null, new byte[] {(byte) n}));
            }
            client.flush();
            var reader = ctx.consumer(null);
            TopicPartition where = new TopicPartition(topic, 0);
            same(reader.offsetsForTimes(Map.of(where, start + 39_500)).get(where).offset(), 40L, "offset for a time");
            same(reader.offsetsForTimes(Map.of(where, start + 1_000_000)).get(where), null, "a time after all records");
            reader.assign(List.of(where));
            reader.seek(where, 40);
            same(ctx.take(reader, 1).get(0).value()[0], (byte) 40, "value at the offset");
        });
        CASES.put("beginning_and_end_offsets", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            var client = ctx.consumer(null);
            same(client.endOffsets(List.of(where)), Map.of(where, 0L), "end of an empty topic");
            ctx.produce(where.topic(), sample(25));
            same(client.endOffsets(List.of(where)), Map.of(where, 25L), "end");
            same(client.beginningOffsets(List.of(where)), Map.of(where, 0L), "beginning");
        });
        CASES.put("empty_poll", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            var client = ctx.consumer(null);
            client.assign(List.of(where));
            same(client.poll(Duration.ofMillis(300)).count(), 0, "records of an empty topic");
            ctx.produce(where.topic(), sample(1));
            ctx.take(client, 1);
        });
        CASES.put("reset_latest", ctx -> {
            String topic = ctx.create(1);
            ctx.produce(topic, sample(10));
            var client = ctx.consumer(ctx.group(), "auto.offset.reset", "latest");
            client.subscribe(List.of(topic));
            ctx.until("a new record", () -> {  // it may look up the end after we wrote: write again
                ctx.produce(topic, List.of(Rec.of("new", "new")));
                var got = client.poll(Duration.ofMillis(500));
                got.forEach(r -> same(new String(r.key()), "new", "key"));
                return !got.isEmpty();
            });
        });
        CASES.put("read_committed", ctx -> {
            String topic = ctx.create(1);
            ctx.produce(topic, sample(100));
            same(ctx.read(topic, 1, 100, "isolation.level", "read_committed").size(), 100, "records");
        });
        CASES.put("pause_and_resume", ctx -> {
            String topic = ctx.create(2);
            for (int p = 0; p < 2; p++) ctx.produce(topic, p, sample(20));
            TopicPartition zero = new TopicPartition(topic, 0);
            var client = ctx.consumer(null);
            client.assign(List.of(zero, new TopicPartition(topic, 1)));
            client.pause(List.of(zero));
            ctx.take(client, 20).forEach(r -> same(r.partition(), 1, "partition while paused"));
            client.resume(List.of(zero));
            ctx.take(client, 20).forEach(r -> same(r.partition(), 0, "partition after resume"));
        });
    }

    // A consumer that counts its rebalances.
    static class Member implements ConsumerRebalanceListener {
        final KafkaConsumer<byte[], byte[]> client;
        final Set<Integer> seen = new HashSet<>();
        int changes = 0;

        Member(Ctx ctx, String topic, String group, String... conf) {
            client = ctx.consumer(group, conf);
            client.subscribe(List.of(topic), this);
        }

        @Override public void onPartitionsAssigned(Collection<TopicPartition> p) { changes++; }
        @Override public void onPartitionsRevoked(Collection<TopicPartition> p) { changes++; }

        void poll() { client.poll(Duration.ofMillis(100)).forEach(r -> seen.add(number(r))); }

        Set<Integer> partitions() {
            return client.assignment().stream().map(TopicPartition::partition).collect(Collectors.toSet());
        }
    }

    // Poll until the members have so many partitions, all of them apart.
    static void settle(Ctx ctx, List<Member> members, Integer... counts) throws Exception {
        int sum = Arrays.stream(counts).mapToInt(n -> n).sum();
        ctx.until("shares of " + Arrays.toString(counts), () -> {
            members.forEach(Member::poll);
            Set<Integer> all = new HashSet<>();
            members.forEach(m -> all.addAll(m.partitions()));
            return all.size() == sum && members.stream().map(m -> m.partitions().size()).sorted().toList()
                .equals(Arrays.stream(counts).sorted().toList());
        });
    }

    static void rebalance(Ctx ctx, Class<?> assignor) throws Exception {
        String topic = ctx.create(4), group = ctx.group();
        ctx.produce(topic, sample(200));
        String[] conf = {"partition.assignment.strategy", assignor.getName()};
        Member first = new Member(ctx, topic, group, conf);
        settle(ctx, List.of(first), 4);
        Member second = new Member(ctx, topic, group, conf);
        settle(ctx, List.of(first, second), 2, 2);
        first.client.close();
        settle(ctx, List.of(second), 4);
        ctx.until("every record", () -> {
            second.poll();
            Set<Integer> all = new HashSet<>(first.seen);
            all.addAll(second.seen);
            return all.size() == 200;
        });
    }

    static String committedGroup(Ctx ctx, TopicPartition where, long offset) {
        String group = ctx.group();
        try (var client = ctx.consumer(group)) {
            client.assign(List.of(where));
            client.commitSync(Map.of(where, new OffsetAndMetadata(offset)));
        }
        return group;
    }

    static ConsumerGroupDescription describeGroup(Ctx ctx, String group) throws Exception {
        return ctx.get(ctx.admin().describeConsumerGroups(List.of(group)).all()).get(group);
    }

    static void groups() {
        CASES.put("commit_and_resume", ctx -> {
            String topic = ctx.create(1), group = ctx.group();
            ctx.produce(topic, sample(100));
            var first = ctx.consumer(group, "max.poll.records", "30");
            first.subscribe(List.of(topic));
            ctx.take(first, 30);
            first.commitSync();
            first.close();
            var second = ctx.consumer(group);
            second.subscribe(List.of(topic));
            same(offsets(ctx.take(second, 70)), range(30, 100), "offsets after resume");
        });
        CASES.put("commit_metadata", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            String text = "käse {\"a\": [1, 2]} " + "x".repeat(500);
            var client = ctx.consumer(ctx.group());
            client.assign(List.of(where));
            client.commitSync(Map.of(where, new OffsetAndMetadata(0, Optional.of(0), text)));
            OffsetAndMetadata back = client.committed(Set.of(where)).get(where);
            same(back.metadata(), text, "metadata");
            same(back.leaderEpoch(), Optional.of(0), "leader epoch");
        });
        CASES.put("auto_commit", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            ctx.produce(where.topic(), sample(10));
            var client = ctx.consumer(ctx.group(), "enable.auto.commit", "true", "auto.commit.interval.ms", "100");
            client.subscribe(List.of(where.topic()));
            ctx.take(client, 10);
            ctx.until("the automatic commit", () -> {
                client.poll(Duration.ofMillis(200));
                OffsetAndMetadata found = client.committed(Set.of(where)).get(where);
                return found != null && found.offset() == 10;
            });
        });
        CASES.put("rebalance_eager", ctx -> rebalance(ctx, RangeAssignor.class));
        CASES.put("rebalance_cooperative", ctx -> rebalance(ctx, CooperativeStickyAssignor.class));
        CASES.put("static_membership", ctx -> {
            String topic = ctx.create(4), group = ctx.group();
            Member one = new Member(ctx, topic, group, "group.instance.id", "one");
            Member two = new Member(ctx, topic, group, "group.instance.id", "two");
            settle(ctx, List.of(one, two), 2, 2);
            int changes = one.changes;
            Set<Integer> share = two.partitions();
            two.client.close();
            Member again = new Member(ctx, topic, group, "group.instance.id", "two");
            settle(ctx, List.of(one, again), 2, 2);
            same(again.partitions(), share, "the returning member's partitions");
            same(one.changes, changes, "rebalances of the other member");
            one.client.close();
            again.client.close();
            // A static member stays when it closes; the administrator removes it.
            var removed = new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("two")));
            ctx.get(ctx.admin().removeMembersFromConsumerGroup(group, removed).all());
            same(describeGroup(ctx, group).members().size(), 1, "members after one was removed");
        });
        CASES.put("member_timeout", ctx -> {
            String topic = ctx.create(2), group = ctx.group();
            Member lazy = new Member(ctx, topic, group, "session.timeout.ms", "6000", "max.poll.interval.ms", "6000");
            settle(ctx, List.of(lazy), 2);
            Member eager = new Member(ctx, topic, group);
            settle(ctx, List.of(eager), 2);  // the lazy one never polls again, so it never rejoins
        });
        CASES.put("new_partitions_in_group", ctx -> {
            String topic = ctx.create(1);
            Member member = new Member(ctx, topic, ctx.group(), "metadata.max.age.ms", "500");
            settle(ctx, List.of(member), 1);
            ctx.get(ctx.admin().createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all());
            settle(ctx, List.of(member), 3);
            ctx.produce(topic, 2, sample(5));
            ctx.until("records of the new partition", () -> { member.poll(); return member.seen.size() == 5; });
        });
    }

    static void restarts() {
        CASES.put("restart_resume_group", ctx -> {
            String topic = ctx.create(1), group = ctx.group();
            List<Rec> sent = sample(100);
            ctx.produce(topic, sent, "compression.type", "zstd");
            var first = ctx.consumer(group, "max.poll.records", "40");
            first.subscribe(List.of(topic));
            ctx.take(first, 40);
            first.commitSync();
            first.close();
            ctx.restart();
            var second = ctx.consumer(group);
            second.subscribe(List.of(topic));
            same(offsets(ctx.take(second, 60)), range(40, 100), "offsets after the restart");
            same(records(ctx.read(topic, 1, 100)), sent, "records from the beginning");
        });
        CASES.put("restart_live_clients", ctx -> {
            String topic = ctx.create(2);
            var writer = ctx.producer("reconnect.backoff.max.ms", "500");
            Member reader = new Member(ctx, topic, ctx.group(), "reconnect.backoff.max.ms", "500");
            for (Rec r : sample(50)) writer.send(new ProducerRecord<>(topic, r.key, r.value)).get();
            ctx.until("the records before", () -> { reader.poll(); return reader.seen.size() == 50; });
            reader.client.commitSync();
            ctx.restart();
            for (Rec r : sample(100).subList(50, 100)) writer.send(new ProducerRecord<>(topic, r.key, r.value)).get();
            ctx.until("the records after", () -> { reader.poll(); return reader.seen.size() == 100; });
        });
        CASES.put("restart_idempotent", ctx -> {
            String topic = ctx.create(1);
            var client = ctx.producer("reconnect.backoff.max.ms", "500");
            List<Rec> sent = sample(200);
            for (Rec r : sent.subList(0, 100)) client.send(new ProducerRecord<>(topic, r.key, r.value));
            client.flush();
            ctx.restart();
            List<Future<RecordMetadata>> futures = new ArrayList<>();
            for (Rec r : sent.subList(100, 200)) futures.add(client.send(new ProducerRecord<>(topic, r.key, r.value)));
            client.flush();
            for (var future : futures) future.get();
            same(records(ctx.read(topic, 1, 200)), sent, "records");
        });
        CASES.put("restart_topic_settings", ctx -> {
            String topic = ctx.create(3, "retention.ms", "123456789");
            Uuid id = ctx.describe(topic).topicId();
            ctx.restart();
            same(ctx.describe(topic).topicId(), id, "topic id");
            same(ctx.describe(topic).partitions().size(), 3, "partitions");
            same(ctx.config(topic, "retention.ms").value(), "123456789", "config");
        });
    }

    static void administration() {
        CASES.put("create_and_describe_topic", ctx -> {
            String topic = ctx.topicName();
            var result = ctx.admin().createTopics(List.of(
                new NewTopic(topic, 5, (short) 1).configs(Map.of("cleanup.policy", "compact"))));
            same(ctx.get(result.numPartitions(topic)), 5, "partitions in the response");
            same(ctx.get(result.config(topic)).get("cleanup.policy").value(), "compact", "config in the response");
            TopicDescription found = ctx.describe(topic);
            same(found.topicId(), ctx.get(result.topicId(topic)), "topic id");
            same(found.partitions().size(), 5, "partitions");
            check(found.partitions().stream().allMatch(p -> p.isr().size() == 1), "replicas in sync");
            check(ctx.get(ctx.admin().listTopics().names()).contains(topic), "not listed");
            String defaults = ctx.topicName();
            ctx.get(ctx.admin().createTopics(List.of(
                new NewTopic(defaults, Optional.empty(), Optional.empty()))).all());
            check(!ctx.describe(defaults).partitions().isEmpty(), "no partitions by default");
            String assigned = ctx.topicName();
            int node = found.partitions().get(0).leader().id();
            ctx.get(ctx.admin().createTopics(List.of(
                new NewTopic(assigned, Map.of(0, List.of(node), 1, List.of(node))))).all());
            same(ctx.describe(assigned).partitions().size(), 2, "partitions by assignment");
        });
        CASES.put("validate_only", ctx -> {
            String topic = ctx.topicName();
            ctx.get(ctx.admin().createTopics(List.of(new NewTopic(topic, 2, (short) 1)),
                new CreateTopicsOptions().validateOnly(true)).all());
            check(!ctx.get(ctx.admin().listTopics().names()).contains(topic), "the topic was created");
        });
        CASES.put("delete_topic", ctx -> {
            String topic = ctx.create(1);
            ctx.produce(topic, sample(10));
            Uuid id = ctx.describe(topic).topicId();
            ctx.get(ctx.admin().deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all());
            ctx.until("the topic to go", () -> !ctx.get(ctx.admin().listTopics().names()).contains(topic));
            ctx.get(ctx.admin().createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all());
            check(!ctx.describe(topic).topicId().equals(id), "the new topic has the old id");
            ctx.produce(topic, sample(3));
            same(offsets(ctx.read(topic, 1, 3)), range(0, 3), "offsets of the new topic");
            failure(UnknownTopicIdException.class,
                () -> ctx.get(ctx.admin().deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all()));
        });
        CASES.put("create_partitions", ctx -> {
            String topic = ctx.create(1);
            ctx.get(ctx.admin().createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all());
            ctx.until("four partitions", () -> ctx.describe(topic).partitions().size() == 4);
            ctx.produce(topic, 3, sample(10));
            same(ctx.read(topic, 4, 10).size(), 10, "records");
        });
        CASES.put("describe_configs", ctx -> {
            String topic = ctx.create(1, "retention.ms", "5000");
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            Config found = ctx.get(ctx.admin().describeConfigs(List.of(resource), new DescribeConfigsOptions()
                .includeSynonyms(true).includeDocumentation(true)).all()).get(resource);
            ConfigEntry retention = found.get("retention.ms");
            same(retention.value(), "5000", "retention.ms");
            same(retention.source(), ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, "source");
            same(retention.type(), ConfigEntry.ConfigType.LONG, "type");
            same(retention.synonyms().get(0).name(), "retention.ms", "first synonym");
            check(retention.documentation() != null && retention.documentation().length() > 20, "no documentation");
            check(found.get("cleanup.policy").isDefault(), "a default is called set");
            for (String name : List.of("max.message.bytes", "segment.bytes", "compression.type", "min.insync.replicas",
                    "retention.bytes", "message.timestamp.type", "cleanup.policy")) {
                check(found.get(name) != null, name + " is missing");
            }
            String node = ctx.get(ctx.admin().describeCluster().nodes()).iterator().next().idString();
            Config broker = ctx.config(ConfigResource.Type.BROKER, node);
            for (String name : List.of("num.partitions", "message.max.bytes", "auto.create.topics.enable")) {
                check(broker.get(name) != null, "broker config " + name + " is missing");
            }
        });
        CASES.put("alter_configs", ctx -> {
            String topic = ctx.create(1, "retention.ms", "5000");
            ctx.alter(topic, "max.message.bytes", "2000", AlterConfigOp.OpType.SET);
            ctx.until("the value", () -> ctx.config(topic, "max.message.bytes").value().equals("2000"));
            same(ctx.config(topic, "retention.ms").value(), "5000", "the other value");
            ctx.alter(topic, "retention.ms", null, AlterConfigOp.OpType.DELETE);
            ctx.until("the default", () -> ctx.config(topic, "retention.ms").isDefault());
            ctx.alter(topic, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND);
            ctx.until("append", () -> ctx.config(topic, "cleanup.policy").value().equals("delete,compact"));
            ctx.alter(topic, "cleanup.policy", "delete", AlterConfigOp.OpType.SUBTRACT);
            ctx.until("subtract", () -> ctx.config(topic, "cleanup.policy").value().equals("compact"));
        });
        CASES.put("delete_records", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            ctx.produce(where.topic(), sample(100), "batch.size", "1000");
            var result = ctx.admin().deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(35)));
            same(ctx.get(result.lowWatermarks().get(where)).lowWatermark(), 35L, "low watermark");
            same(ctx.read(where.topic(), 1, 65).get(0).offset(), 35L, "first offset");
            failure(org.apache.kafka.common.errors.OffsetOutOfRangeException.class,
                () -> ctx.get(ctx.admin().deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(101))).all()));
            result = ctx.admin().deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(-1)));
            same(ctx.get(result.lowWatermarks().get(where)).lowWatermark(), 100L, "low watermark when emptied");
        });
        CASES.put("list_offsets", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            var client = ctx.producer();
            long start = System.currentTimeMillis() - 600_000;
            for (long n : List.of(0L, 1L, 5L, 3L, 4L)) {
                client.send(new ProducerRecord<>(where.topic(), 0, start + n * 1000, null, new byte[] {1}));
            }
            client.flush();
            Map<OffsetSpec, Long> asked = Map.of(OffsetSpec.earliest(), 0L, OffsetSpec.latest(), 5L,
                OffsetSpec.maxTimestamp(), 2L, OffsetSpec.forTimestamp(start + 1500), 2L,
                OffsetSpec.forTimestamp(start + 1_000_000), -1L, OffsetSpec.earliestLocal(), 0L);
            for (var entry : asked.entrySet()) {
                for (IsolationLevel isolation : IsolationLevel.values()) {
                    var found = ctx.get(ctx.admin().listOffsets(Map.of(where, entry.getKey()),
                        new ListOffsetsOptions(isolation)).partitionResult(where));
                    same(found.offset(), entry.getValue(), entry.getKey().getClass().getSimpleName());
                }
            }
        });
        CASES.put("list_and_describe_groups", ctx -> {
            String topic = ctx.create(2), group = ctx.group();
            Member member = new Member(ctx, topic, group, "client.id", "compat-client");
            settle(ctx, List.of(member), 2);
            var listed = ctx.get(ctx.admin().listGroups(new ListGroupsOptions()
                .inGroupStates(Set.of(GroupState.STABLE)).withTypes(Set.of(GroupType.CLASSIC))).all());
            check(listed.stream().anyMatch(g -> g.groupId().equals(group)), "not listed");
            ConsumerGroupDescription found = describeGroup(ctx, group);
            same(found.groupState(), GroupState.STABLE, "state");
            same(found.partitionAssignor(), "range", "assignor");
            same(found.coordinator().host() + ":" + found.coordinator().port(), ctx.bootstrap, "coordinator");
            MemberDescription one = found.members().iterator().next();
            same(one.clientId(), "compat-client", "client id");
            same(one.assignment().topicPartitions().size(), 2, "assignment");
            member.client.close();
            ctx.until("the group to be empty", () -> describeGroup(ctx, group).groupState() == GroupState.EMPTY);
        });
        CASES.put("delete_group", ctx -> {
            String group = committedGroup(ctx, new TopicPartition(ctx.create(1), 0), 3);
            ctx.get(ctx.admin().deleteConsumerGroups(List.of(group)).all());
            check(ctx.get(ctx.admin().listGroups().all()).stream().noneMatch(g -> g.groupId().equals(group)),
                "still listed");
        });
        CASES.put("group_offsets", ctx -> {
            String topic = ctx.create(2);
            TopicPartition zero = new TopicPartition(topic, 0), one = new TopicPartition(topic, 1);
            String group = committedGroup(ctx, zero, 3);
            Callable<Map<TopicPartition, Long>> offsets = () -> {
                Map<TopicPartition, Long> found = new HashMap<>();
                ctx.get(ctx.admin().listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata())
                    .forEach((p, o) -> found.put(p, o.offset()));
                return found;
            };
            same(offsets.call(), Map.of(zero, 3L), "offsets");
            ctx.get(ctx.admin().alterConsumerGroupOffsets(group,
                Map.of(zero, new OffsetAndMetadata(1), one, new OffsetAndMetadata(7))).all());
            same(offsets.call(), Map.of(zero, 1L, one, 7L), "altered offsets");
            ctx.get(ctx.admin().deleteConsumerGroupOffsets(group, Set.of(zero)).all());
            same(offsets.call(), Map.of(one, 7L), "offsets after one was deleted");
        });
        CASES.put("describe_cluster", ctx -> {
            var found = ctx.admin().describeCluster();
            check(!ctx.get(found.clusterId()).isEmpty(), "no cluster id");
            Node node = ctx.get(found.nodes()).iterator().next();
            same(node.host() + ":" + node.port(), ctx.bootstrap, "advertised address");
            same(ctx.get(found.controller()).id(), node.id(), "controller");
        });
        CASES.put("describe_log_dirs", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            ctx.produce(where.topic(), sample(10));
            int node = ctx.get(ctx.admin().describeCluster().nodes()).iterator().next().id();
            var folders = ctx.get(ctx.admin().describeLogDirs(List.of(node)).allDescriptions()).get(node).values();
            var replicas = folders.stream().filter(f -> f.replicaInfos().containsKey(where)).toList();
            same(replicas.size(), 1, "folders with the partition");
            check(replicas.get(0).replicaInfos().get(where).size() > 500, "size of the partition");
            check(replicas.get(0).totalBytes().orElse(0) > 0, "size of the disk");
        });
        CASES.put("describe_producers", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            ctx.produce(where.topic(), sample(10), "enable.idempotence", "true");
            var states = ctx.get(ctx.admin().describeProducers(List.of(where)).partitionResult(where)).activeProducers();
            same(states.size(), 1, "producers");
            same(states.get(0).lastSequence(), 9, "last sequence");
        });
        CASES.put("list_config_resources", ctx -> {
            String topic = ctx.create(1);
            var found = ctx.get(ctx.admin().listConfigResources(
                Set.of(ConfigResource.Type.TOPIC, ConfigResource.Type.BROKER), new ListConfigResourcesOptions()).all());
            check(found.contains(new ConfigResource(ConfigResource.Type.TOPIC, topic)), "the topic is missing");
            check(found.stream().anyMatch(r -> r.type() == ConfigResource.Type.BROKER), "no broker");
        });
        CASES.put("describe_features", ctx -> ctx.get(ctx.admin().describeFeatures().featureMetadata()));
    }

    static void errors() {
        CASES.put("error_unknown_topic", ctx -> {
            String topic = ctx.topicName();
            failure(UnknownTopicOrPartitionException.class,
                () -> ctx.get(ctx.admin().describeTopics(List.of(topic)).allTopicNames()));
            failure(UnknownTopicOrPartitionException.class,
                () -> ctx.get(ctx.admin().deleteTopics(List.of(topic)).all()));
            failure(UnknownTopicOrPartitionException.class, () -> {
                ctx.alter(topic, "retention.ms", "1", AlterConfigOp.OpType.SET);
                return null;
            });
            var client = ctx.consumer(null, "allow.auto.create.topics", "false");
            check(client.partitionsFor(topic).isEmpty(), "partitions of an unknown topic");
            check(!ctx.get(ctx.admin().listTopics().names()).contains(topic), "the topic was created");
        });
        CASES.put("error_topic_exists", ctx -> {
            NewTopic again = new NewTopic(ctx.create(1), 1, (short) 1);
            failure(TopicExistsException.class, () -> ctx.get(ctx.admin().createTopics(List.of(again)).all()));
        });
        CASES.put("error_invalid_topic_name", ctx -> {
            for (String name : List.of("not a name!", "x".repeat(250), "..")) {
                NewTopic topic = new NewTopic(name, 1, (short) 1);
                failure(InvalidTopicException.class, () -> ctx.get(ctx.admin().createTopics(List.of(topic)).all()));
            }
        });
        CASES.put("error_invalid_partitions", ctx -> {
            NewTopic none = new NewTopic(ctx.topicName(), 0, (short) 1);
            failure(InvalidPartitionsException.class, () -> ctx.get(ctx.admin().createTopics(List.of(none)).all()));
            String topic = ctx.create(3);
            for (int count : List.of(2, 3)) {
                failure(InvalidPartitionsException.class, () -> ctx.get(
                    ctx.admin().createPartitions(Map.of(topic, NewPartitions.increaseTo(count))).all()));
            }
        });
        CASES.put("error_invalid_replication", ctx -> {
            NewTopic topic = new NewTopic(ctx.topicName(), 1, (short) 3);
            failure(InvalidReplicationFactorException.class,
                () -> ctx.get(ctx.admin().createTopics(List.of(topic)).all()));
        });
        CASES.put("error_bad_config_value", ctx -> {
            for (var bad : List.of(Map.of("retention.ms", "soon"), Map.of("no.such.config", "1"),
                    Map.of("cleanup.policy", "shred"))) {
                NewTopic topic = new NewTopic(ctx.topicName(), 1, (short) 1).configs(bad);
                Throwable error = failure(InvalidConfigurationException.class,
                    () -> ctx.get(ctx.admin().createTopics(List.of(topic)).all()));
                check(error.getMessage().contains(bad.keySet().iterator().next()), "not named: " + error.getMessage());
            }
            String topic = ctx.create(1);
            failure(InvalidConfigurationException.class, () -> {
                ctx.alter(topic, "retention.ms", "soon", AlterConfigOp.OpType.SET);
                return null;
            });
        });
        CASES.put("error_message_too_large", ctx -> {
            String topic = ctx.create(1, "max.message.bytes", "2000");
            failure(RecordTooLargeException.class, () -> ctx.produce(topic, sample(1, 10_000)));
            ctx.produce(topic, sample(1, 1000));
        });
        CASES.put("error_offset_out_of_range", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            ctx.produce(where.topic(), sample(10));
            var client = ctx.consumer(null, "auto.offset.reset", "none");
            client.assign(List.of(where));
            client.seek(where, 1000);
            failure(org.apache.kafka.clients.consumer.OffsetOutOfRangeException.class, () -> ctx.take(client, 1));
        });
        CASES.put("error_no_key_on_compacted", ctx -> {
            String topic = ctx.create(1, "cleanup.policy", "compact");
            failure(InvalidRecordException.class, () -> ctx.produce(topic, List.of(Rec.of(null, "no key"))));
        });
        CASES.put("error_timestamp_out_of_bounds", ctx -> {
            String topic = ctx.create(1, "message.timestamp.after.max.ms", "60000");
            long later = System.currentTimeMillis() + 3_600_000;
            failure(InvalidTimestampException.class,
                () -> ctx.producer().send(new ProducerRecord<>(topic, 0, later, null, new byte[] {1})).get());
        });
        CASES.put("error_unknown_group", ctx -> {
            String group = ctx.group();
            failure(GroupIdNotFoundException.class,
                () -> ctx.get(ctx.admin().deleteConsumerGroups(List.of(group)).all()));
            failure(GroupIdNotFoundException.class, () -> describeGroup(ctx, group));
        });
        CASES.put("error_group_not_empty", ctx -> {
            String topic = ctx.create(1), group = ctx.group();
            settle(ctx, List.of(new Member(ctx, topic, group)), 1);
            failure(GroupNotEmptyException.class,
                () -> ctx.get(ctx.admin().deleteConsumerGroups(List.of(group)).all()));
            failure(GroupSubscribedToTopicException.class, () -> ctx.get(ctx.admin()
                .deleteConsumerGroupOffsets(group, Set.of(new TopicPartition(topic, 0))).all()));
        });
        CASES.put("error_unknown_member", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            String group = ctx.group();
            settle(ctx, List.of(new Member(ctx, where.topic(), group)), 1);
            // A commit from outside (no member id, no generation) while the group has members.
            failure(UnknownMemberIdException.class, () -> ctx.get(
                ctx.admin().alterConsumerGroupOffsets(group, Map.of(where, new OffsetAndMetadata(1))).all()));
        });
        CASES.put("error_fenced_instance", ctx -> {
            String topic = ctx.create(1), group = ctx.group();
            Member first = new Member(ctx, topic, group, "group.instance.id", "same");
            settle(ctx, List.of(first), 1);
            Member second = new Member(ctx, topic, group, "group.instance.id", "same");
            settle(ctx, List.of(second), 1);
            failure(FencedInstanceIdException.class, () -> {
                ctx.until("the first to be fenced", () -> { first.poll(); second.poll(); return false; });
                return null;
            });
        });
        CASES.put("error_inconsistent_protocol", ctx -> {
            String topic = ctx.create(1), group = ctx.group();
            String strategy = "partition.assignment.strategy";
            settle(ctx, List.of(new Member(ctx, topic, group, strategy, RangeAssignor.class.getName())), 1);
            Member other = new Member(ctx, topic, group, strategy, CooperativeStickyAssignor.class.getName());
            failure(InconsistentGroupProtocolException.class, () -> {
                ctx.until("the refusal", () -> { other.poll(); return false; });
                return null;
            });
        });
        CASES.put("transactions", ctx -> {
            String topic = ctx.create(1);
            var client = ctx.producer("transactional.id", ctx.unique("x"), "max.block.ms", "10000");
            try {
                client.initTransactions();
            } catch (org.apache.kafka.common.errors.TimeoutException error) {
                throw error;
            } catch (KafkaException error) {
                ctx.refused = error.getMessage();
                return;
            }
            for (int n = 0; n < 3; n++) {
                client.beginTransaction();
                client.send(new ProducerRecord<>(topic, new byte[] {(byte) n}));
                if (n == 1) client.abortTransaction();
                else client.commitTransaction();
            }
            var got = ctx.read(topic, 1, 2, "isolation.level", "read_committed");
            same(got.stream().map(r -> r.value()[0]).toList(), List.of((byte) 0, (byte) 2), "committed records");
        });
    }
}
