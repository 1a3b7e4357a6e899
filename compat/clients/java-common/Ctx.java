import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What a case works with: clients that are closed at its end, names of its own, its time limit. */
final class Ctx {
    interface Condition { boolean test() throws Exception; }

    final Api api;
    final String name;
    String bootstrap, detail = "", refused = "";
    private final Runner.Barrier barrier;
    private final long limit;
    private volatile long end;
    private final Deque<AutoCloseable> open = new ArrayDeque<>();
    private AdminClient admin;

    Ctx(Api api, String name, String bootstrap, Runner.Barrier barrier, long limit) {
        this.api = api;
        this.name = name;
        this.bootstrap = bootstrap;
        this.barrier = barrier;
        this.limit = limit;
        end = System.nanoTime() / 1_000_000 + limit;
    }

    /** Milliseconds until the case is given up. */
    long left() { return end - System.nanoTime() / 1_000_000; }

    String unique(String label) {
        return "compat." + name + "." + label + "." + UUID.randomUUID().toString().substring(0, 10);
    }

    String topicName() { return unique("t"); }

    String group() { return unique("g"); }

    /** Come back when the harness has restarted the server. */
    void restart() throws Exception {
        end = Long.MAX_VALUE;
        barrier.events.release();
        barrier.released.await();
        bootstrap = barrier.bootstrap;
        end = System.nanoTime() / 1_000_000 + limit;
    }

    void until(String what, Condition condition) throws Exception {
        while (left() > 0) {
            if (condition.test()) return;
            Thread.sleep(10);
        }
        throw new AssertionError("gave up waiting for " + what);
    }

    <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(Math.max(1, left()), TimeUnit.MILLISECONDS);
    }

    /** Close this at the end of the case, before what was opened earlier. */
    void onClose(AutoCloseable last) { open.push(last); }

    void close() {
        while (!open.isEmpty()) {
            try {
                open.pop().close();
            } catch (Exception error) {
                System.err.println(name + ": closing: " + error);
            }
        }
    }

    // --- administration

    AdminClient admin() {
        if (admin == null) {
            Map<String, Object> settings = new HashMap<>();
            settings.put("bootstrap.servers", bootstrap);
            settings.putAll(Security.settings());
            settings.put("request.timeout.ms", 15000);
            admin = AdminClient.create(settings);
            onClose(() -> api.close(admin));
        }
        return admin;
    }

    /** A new topic; configs in pairs. Comes back when the broker knows it. */
    String create(int partitions, String... configs) throws Exception {
        String topic = topicName();
        create(new NewTopic(topic, partitions, (short) 1).configs(pairs(configs)));
        describe(topic);
        return topic;
    }

    void create(NewTopic topic) throws Exception { get(admin().createTopics(List.of(topic)).all()); }

    /** Kafka answers CreateTopics before its brokers know of the topic: ask until it is known. */
    TopicDescription describe(String topic) throws Exception {
        TopicDescription[] found = {null};
        until("the topic to be known", () -> {
            try {
                found[0] = get(api.describe(admin(), topic)).get(topic);
                return found[0].partitions().stream().allMatch(p -> p.leader() != null);
            } catch (ExecutionException e) {
                if (e.getCause() instanceof UnknownTopicOrPartitionException) return false;
                throw e;
            }
        });
        return found[0];
    }

    Config config(ConfigResource.Type type, String name) throws Exception {
        ConfigResource resource = new ConfigResource(type, name);
        return get(admin().describeConfigs(List.of(resource)).all()).get(resource);
    }

    ConfigEntry config(String topic, String name) throws Exception {
        return config(ConfigResource.Type.TOPIC, topic).get(name);
    }

    /** The id of the node. */
    int node() throws Exception { return get(admin().describeCluster().nodes()).iterator().next().id(); }

    // --- records

    Producer<byte[], byte[]> producer(String... conf) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.putAll(Security.settings());
        settings.put("max.block.ms", 15000);
        settings.put("retries", 1000);  // 1.1 does not by default, and a new topic may want it
        settings.putAll(pairs(conf));
        var client = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        onClose(() -> api.close(client));
        return client;
    }

    /** Produce and flush; raises the first failure. */
    List<RecordMetadata> produce(String topic, Integer partition, List<Rec> records, String... conf) throws Exception {
        Producer<byte[], byte[]> client = producer(conf);
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        for (Rec r : records) futures.add(client.send(new ProducerRecord<>(topic, partition, r.key(), r.value())));
        client.flush();
        List<RecordMetadata> done = new ArrayList<>();
        for (var future : futures) done.add(future.get(Math.max(1, left()), TimeUnit.MILLISECONDS));
        return done;
    }

    List<RecordMetadata> produce(String topic, List<Rec> records, String... conf) throws Exception {
        return produce(topic, null, records, conf);
    }

    KafkaConsumer<byte[], byte[]> consumer(String group, String... conf) {
        Map<String, Object> settings = new HashMap<>();
        settings.putAll(pairs("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest",
            "enable.auto.commit", "false", "session.timeout.ms", "10000", "heartbeat.interval.ms", "500",
            "fetch.max.wait.ms", "100"));
        settings.putAll(Security.settings());
        if (group != null) settings.put("group.id", group);
        settings.putAll(pairs(conf));
        if ("consumer".equals(settings.get("group.protocol"))) {
            // the server says these
            settings.keySet().removeAll(List.of("session.timeout.ms", "heartbeat.interval.ms"));
        }
        var client = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        onClose(() -> api.close(client));
        return client;
    }

    /** Poll until there are so many records. */
    List<ConsumerRecord<byte[], byte[]>> take(Consumer<byte[], byte[]> client, int count) throws Exception {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        until(count + " records", () -> {
            api.poll(client, 200).forEach(records::add);
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

    static Map<String, String> pairs(String... names) {
        Map<String, String> map = new LinkedHashMap<>();
        for (int i = 0; i < names.length; i += 2) map.put(names[i], names[i + 1]);
        return map;
    }
}
