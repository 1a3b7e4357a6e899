import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** A topic of two partitions with a subscription that lanes serve, and what its consumers do. */
final class QueueTopic {
    interface Condition { boolean test(List<ConsumerRecord<byte[], byte[]>> found) throws Exception; }

    /** Where nothing is said of a single delivery. */
    static final Function<ConsumerRecord<byte[], byte[]>, String> NOTHING = record -> "";

    final Ctx ctx;
    final String topic, group, name;
    final int lanes;

    /** Configs of the subscription in pairs. */
    QueueTopic(Ctx ctx, int lanes, String... configs) throws Exception {
        this.ctx = ctx;
        this.lanes = lanes;
        topic = ctx.create(2);
        group = ctx.group();
        name = topic + "-" + group + "-QUEUE";
        ctx.create(new NewTopic(name, lanes, (short) 1).configs(Ctx.pairs(configs)));
        Expect.same(ctx.describe(name).partitions().size(), lanes, "lanes");
    }

    /** Records with the values from, … to - 1, dealt to so many keys. */
    void feed(int from, int to, int keys) throws Exception {
        try (var producer = ctx.producer("linger.ms", "5")) {
            for (int n = from; n < to; n++) {
                int key = n % keys;
                producer.send(new ProducerRecord<>(topic, key % 2, ("key-" + key).getBytes(UTF_8), ("" + n).getBytes(UTF_8)));
            }
            producer.flush();
        }
    }

    /** A member of the subscription's group. */
    KafkaConsumer<byte[], byte[]> join(String... conf) {
        var client = ctx.consumer(group, conf);
        client.subscribe(List.of(name));
        return client;
    }

    static int value(ConsumerRecord<byte[], byte[]> record) { return Integer.parseInt(new String(record.value(), UTF_8)); }

    /** In ascending order. */
    static List<Integer> values(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(QueueTopic::value).sorted().toList();
    }

    static List<Integer> span(int from, int to) { return IntStream.range(from, to).boxed().toList(); }

    /** Lane and offset of each. */
    static List<String> places(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(one -> one.partition() + ":" + one.offset()).toList();
    }

    /** Commit behind the last record of each lane; `say` gives what is said of a record, "" for nothing. */
    static void commit(Consumer<byte[], byte[]> client, Iterable<ConsumerRecord<byte[], byte[]>> records,
            Function<ConsumerRecord<byte[], byte[]>, String> say) {
        Map<TopicPartition, Long> ends = new HashMap<>();
        Map<TopicPartition, String> names = new HashMap<>();
        for (var one : records) {
            var lane = new TopicPartition(one.topic(), one.partition());
            ends.put(lane, one.offset() + 1);
            String said = say.apply(one);
            if (!said.isEmpty()) names.merge(lane, ";" + said + "=" + one.offset(), String::concat);
        }
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        ends.forEach((lane, end) ->
            offsets.put(lane, new OffsetAndMetadata(end, names.containsKey(lane) ? "ack1" + names.get(lane) : "")));
        if (!offsets.isEmpty()) client.commitSync(offsets);
    }

    /** Poll and commit until it is enough. */
    List<ConsumerRecord<byte[], byte[]>> work(Consumer<byte[], byte[]> client, String what,
            Function<ConsumerRecord<byte[], byte[]>, String> say, Condition enough) throws Exception {
        List<ConsumerRecord<byte[], byte[]>> all = new ArrayList<>();
        ctx.until(what, () -> {
            var some = ctx.api.poll(client, 200);
            commit(client, some, say);
            some.forEach(all::add);
            return enough.test(all);
        });
        return all;
    }

    List<ConsumerRecord<byte[], byte[]>> finish(Consumer<byte[], byte[]> client, int count) throws Exception {
        return work(client, count + " records", NOTHING, all -> all.size() >= count);
    }

    /** What is committed of each lane, by `asking`; lanes without a commit are left out. */
    Map<Integer, OffsetAndMetadata> committed(Consumer<?, ?> asking) {
        Map<Integer, OffsetAndMetadata> found = new TreeMap<>();
        for (int lane = 0; lane < lanes; lane++) {
            var one = ctx.api.committed(asking, new TopicPartition(name, lane));
            if (one != null) found.put(lane, one);
        }
        return found;
    }

    /** How many deliveries are settled, when each lane began at 0. */
    long settled(Consumer<?, ?> asking) {
        return committed(asking).values().stream().mapToLong(OffsetAndMetadata::offset).sum();
    }

    /** Nothing comes, though what is produced for others does. */
    void nothingElse(Consumer<byte[], byte[]> client) throws Exception {
        int mark = 1_000_000;
        feed(mark, mark + 1, 1);
        Expect.same(values(work(client, "the record behind all", NOTHING, all -> !all.isEmpty())), List.of(mark),
            "records where there are none");
    }

    /** The dead letters: these values, and no others. */
    void letters(Integer... values) throws Exception {
        String dead = topic + "-" + group + "-DLQ";
        ctx.until("the dead letter topic", () -> ctx.get(ctx.admin().listTopics().names()).contains(dead));
        ctx.describe(dead);
        var reader = ctx.consumer(null);
        reader.assign(List.of(new TopicPartition(dead, 0), new TopicPartition(dead, 1)));
        reader.seekToBeginning(reader.assignment());
        var found = ctx.take(reader, values.length);
        ctx.api.poll(reader, 300).forEach(found::add);
        Expect.same(values(found), Arrays.stream(values).sorted().toList(), "dead letters");
    }
}
