import static java.nio.charset.StandardCharsets.UTF_8;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a share group that acknowledges explicitly, unless told otherwise: what a poll gives is in hand until
 * then, and the client refuses another poll while something is.
 */
final class Sharer implements AutoCloseable {
    /** A short lock, in ms: the least that the servers are set to allow is a second. */
    static final String LOCK = "1500";

    final KafkaShareConsumer<byte[], byte[]> client;
    private final Ctx ctx;
    private boolean open = true;

    Sharer(Ctx ctx, String group, String topic, String... conf) { this(ctx, group, List.of(topic), conf); }

    Sharer(Ctx ctx, String group, Collection<String> topics, String... conf) {
        this.ctx = ctx;
        Map<String, Object> settings = new HashMap<>(Ctx.pairs("bootstrap.servers", ctx.bootstrap, "group.id", group,
            "share.acknowledgement.mode", "explicit", "reconnect.backoff.max.ms", "500", "fetch.max.wait.ms", "200"));
        settings.putAll(Security.settings());
        settings.putAll(Ctx.pairs(conf));
        client = new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        ctx.onClose(this);
        client.subscribe(topics);
    }

    /** What arrives within some 200 ms. */
    List<ConsumerRecord<byte[], byte[]>> poll() {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        client.poll(Duration.ofMillis(200)).forEach(found::add);
        return found;
    }

    /** What the next poll that gives anything gives. */
    List<ConsumerRecord<byte[], byte[]>> some() throws Exception {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        ctx.until("records", () -> found.addAll(poll()));
        return found;
    }

    /** So many records, which come at once as they were there before. */
    List<ConsumerRecord<byte[], byte[]>> hold(int count) throws Exception {
        var found = some();
        Expect.same(found.size(), count, "records in hand");
        return found;
    }

    void acknowledge(List<ConsumerRecord<byte[], byte[]>> records, AcknowledgeType type) {
        for (var record : records) client.acknowledge(record, type);
        commit();
    }

    /** Sent, and confirmed when this comes back. */
    void commit() {
        client.commitSync(Duration.ofMillis(ctx.left())).forEach((where, error) -> {
            if (error.isPresent()) throw new AssertionError("acknowledgements of " + where + ": " + error.get(), error.get());
        });
    }

    /** The errors of a commit, by partition. */
    List<String> commitErrors() {
        return client.commitSync(Duration.ofMillis(ctx.left())).values().stream().flatMap(Optional::stream)
            .map(error -> error.getClass().getSimpleName()).toList();
    }

    /** So many records, each acknowledged as it came. */
    List<ConsumerRecord<byte[], byte[]>> take(int count, AcknowledgeType type) throws Exception {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        ctx.until(count + " records", () -> {
            var some = poll();
            if (!some.isEmpty()) acknowledge(some, type);
            found.addAll(some);
            return found.size() >= count;
        });
        return found;
    }

    List<ConsumerRecord<byte[], byte[]>> take(int count) throws Exception {
        return take(count, AcknowledgeType.ACCEPT);
    }

    /** Nothing is available: a record that is produced now is the next one that comes. */
    void nothingElse(String topic) throws Exception {
        byte[] mark = ctx.unique("mark").getBytes(UTF_8);
        ctx.produce(topic, 0, List.of(new Rec(null, mark)));
        List<String> came = new ArrayList<>();
        ctx.until("the last record", () -> {
            var some = poll();
            if (!some.isEmpty()) acknowledge(some, AcknowledgeType.ACCEPT);
            for (var one : some) came.add(one.value() == null ? "null" : new String(one.value(), UTF_8));
            return some.stream().anyMatch(one -> Arrays.equals(one.value(), mark));
        });
        Expect.same(came, List.of(new String(mark, UTF_8)), "what came instead of nothing");
    }

    @Override public void close() {
        if (!open) return;
        open = false;
        client.close(Modern.PATIENCE);
    }

    /** How often each was delivered, this delivery included. */
    static List<Integer> counts(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(one -> one.deliveryCount().map(Short::intValue).orElse(0)).toList();
    }

    static List<Integer> all(int count, int value) { return java.util.Collections.nCopies(count, value); }

    /** A group's name, its configs set: from the earliest record unless they say otherwise. */
    static String group(Ctx ctx, String... configs) throws Exception {
        String group = ctx.group();
        Map<String, String> wanted = new LinkedHashMap<>(Ctx.pairs("share.auto.offset.reset", "earliest"));
        wanted.putAll(Ctx.pairs(configs));
        configure(ctx, group, wanted);
        return group;
    }

    /** Set group configs, null to take one back, and wait until they are in force. */
    static void configure(Ctx ctx, String group, Map<String, String> wanted) throws Exception {
        alter(ctx, group, wanted);
        ctx.until("the configs " + wanted, () -> {
            var found = ctx.config(ConfigResource.Type.GROUP, group);
            return wanted.entrySet().stream().allMatch(one -> one.getValue() == null
                ? found.get(one.getKey()).isDefault() : one.getValue().equals(found.get(one.getKey()).value()));
        });
    }

    static void alter(Ctx ctx, String group, Map<String, String> wanted) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        wanted.forEach((name, value) -> changes.add(new AlterConfigOp(new ConfigEntry(name, value),
            value == null ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET)));
        ctx.get(ctx.admin().incrementalAlterConfigs(
            Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), changes)).all());
    }

    /** `count` records with the keys "key-0", "key-1" …, in batches of a few. */
    static void spread(Ctx ctx, String topic, int from, int to) throws Exception {
        var client = ctx.producer("batch.size", "400", "linger.ms", "5");
        for (int n = from; n < to; n++) {
            client.send(new ProducerRecord<>(topic, ("key-" + n).getBytes(UTF_8), "some value".getBytes(UTF_8)));
        }
        client.flush();
    }
}
