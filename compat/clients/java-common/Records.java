import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;

/** Section "Produce and consume" of ../cases.toml. */
final class Records {
    private Records() {}

    static void register(Cases cases) {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            cases.put("produce_" + codec, ctx -> {
                String topic = ctx.create(1);
                List<Rec> sent = Rec.sample(500);
                ctx.produce(topic, sent, "compression.type", codec, "acks", "all");
                Expect.same(Rec.records(ctx.read(topic, 1, 500)), sent, "records");
            });
        }
        cases.put("acks", ctx -> {
            String topic = ctx.create(1);
            for (String acks : List.of("0", "1")) {
                ctx.produce(topic, Rec.sample(50), "acks", acks, "enable.idempotence", "false");
            }
            Expect.same(ctx.read(topic, 1, 100).size(), 100, "records");
        });
        cases.put("headers", ctx -> {
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
            Expect.same(back.length, names.length, "headers");
            for (int i = 0; i < names.length; i++) {
                Expect.same(back[i].key(), names[i], "header key");
                Expect.check(Arrays.equals(back[i].value(), values[i]), "value of header " + names[i]);
            }
            Expect.same(got.get(1).headers().toArray().length, 0, "headers of the second");
        });
        cases.put("null_key_and_value", ctx -> {
            String topic = ctx.create(1);
            List<Rec> sent = List.of(Rec.of("k", "v"), Rec.of(null, "no key"), Rec.of("no value", null),
                Rec.of(null, null), Rec.of("", ""));
            ctx.produce(topic, sent);
            Expect.same(Rec.records(ctx.read(topic, 1, 5)), sent, "records");
        });
        cases.put("idempotent_producer", ctx -> {
            String topic = ctx.create(3);
            ctx.produce(topic, Rec.sample(3000), "enable.idempotence", "true", "batch.size", "2000");
            var got = ctx.read(topic, 3, 3000);
            for (int p = 0; p < 3; p++) {
                int partition = p;
                var mine = got.stream().filter(r -> r.partition() == partition).toList();
                Expect.same(Rec.offsets(mine), Rec.range(0, mine.size()), "offsets");
                var order = mine.stream().map(Rec::number).toList();
                Expect.same(order, order.stream().sorted().distinct().toList(), "order");
            }
        });
        cases.put("timestamps", ctx -> {
            String topic = ctx.create(1);
            var client = ctx.producer();
            long start = System.currentTimeMillis() - 60_000;
            for (int n = 0; n < 5; n++) client.send(new ProducerRecord<>(topic, 0, start + n, null, new byte[] {1}));
            client.flush();
            var got = ctx.read(topic, 1, 5);
            Expect.same(got.stream().map(r -> r.timestamp()).toList(), Rec.range(start, start + 5), "timestamps");
            Expect.same(got.get(0).timestampType(), TimestampType.CREATE_TIME, "type");
        });
        cases.put("log_append_time", ctx -> {
            String topic = ctx.create(1, "message.timestamp.type", "LogAppendTime");
            long before = System.currentTimeMillis() - 1000;
            var sent = ctx.producer().send(new ProducerRecord<>(topic, 0, 1_000L, null, new byte[] {1})).get();
            var got = ctx.read(topic, 1, 1).get(0);
            Expect.same(got.timestampType(), TimestampType.LOG_APPEND_TIME, "type");
            Expect.check(got.timestamp() >= before && got.timestamp() < before + 60_000, "not the broker's: " + got);
            Expect.same(sent.timestamp(), got.timestamp(), "timestamp in the produce response");
        });
        cases.put("auto_create_topic", ctx -> {
            String topic = ctx.topicName();
            ctx.produce(topic, Rec.sample(10));
            Expect.same(ctx.read(topic, 1, 10).size(), 10, "records");
        });
        cases.put("many_partitions", ctx -> {
            String topic = ctx.create(60);
            var client = ctx.producer();
            for (int n = 0; n < 1200; n++) {
                client.send(new ProducerRecord<>(topic, n % 60, null, Integer.toString(n).getBytes()));
            }
            client.flush();
            Set<String> got = ctx.read(topic, 60, 1200).stream()
                .map(r -> r.partition() + ":" + new String(r.value())).collect(Collectors.toSet());
            var sent = IntStream.range(0, 1200).mapToObj(n -> n % 60 + ":" + n).collect(Collectors.toSet());
            Expect.same(got, sent, "records");
        });
        cases.put("large_message", ctx -> {
            String topic = ctx.create(1);
            List<Rec> big = Rec.sample(1, 1_000_000);
            ctx.produce(topic, big);
            Expect.same(Rec.records(ctx.read(topic, 1, 1)), big, "1 MB message");
            topic = ctx.create(1, "max.message.bytes", "4000000");
            big = Rec.sample(1, 3_000_000);
            ctx.produce(topic, big, "max.request.size", "4000000");
            Expect.same(Rec.records(ctx.read(topic, 1, 1)), big, "3 MB message");
        });
        cases.put("batch_larger_than_fetch", ctx -> {
            String topic = ctx.create(1);
            List<Rec> sent = Rec.sample(200, 1000);
            ctx.produce(topic, sent, "linger.ms", "200", "batch.size", "100000");
            String[] small = {"max.partition.fetch.bytes", "1000", "fetch.max.bytes", "1000"};
            Expect.same(Rec.records(ctx.read(topic, 1, 200, small)), sent, "records");
        });
        cases.put("many_batches", ctx -> {
            String topic = ctx.create(1);
            ctx.produce(topic, Rec.sample(20_000), "batch.size", "8000");
            var got = ctx.read(topic, 1, 20_000);
            Expect.same(Rec.offsets(got), Rec.range(0, 20_000), "offsets");
            Expect.same(got.stream().map(r -> (long) Rec.number(r)).toList(), Rec.range(0, 20_000), "keys");
        });
        cases.put("compacted_topic", ctx -> {
            String topic = ctx.create(1, "cleanup.policy", "compact");
            ctx.produce(topic, List.of(Rec.of("a", "1"), Rec.of("b", "2"), Rec.of("a", null)));
            Expect.same(Rec.records(ctx.read(topic, 1, 3)).get(2), Rec.of("a", null), "tombstone");
        });
        cases.put("topic_compression", ctx -> {
            Map<String, Long> sizes = new HashMap<>();
            int node = ctx.node();
            for (String codec : List.of("gzip", "uncompressed", "snappy")) {
                TopicPartition where = new TopicPartition(ctx.create(1, "compression.type", codec), 0);
                List<Rec> sent = Rec.sample(100);
                ctx.produce(where.topic(), sent, "compression.type", "lz4", "linger.ms", "100");
                Expect.same(Rec.records(ctx.read(where.topic(), 1, 100)), sent, "records stored as " + codec);
                Map<TopicPartition, Long> all = ctx.api.sizes(ctx, node);
                if (all != null) sizes.put(codec, all.get(where));
            }
            // Half of each value is noise.
            boolean smaller = sizes.isEmpty() || sizes.get("gzip") < 0.8 * sizes.get("uncompressed");
            Expect.check(smaller, "stored sizes: " + sizes);
        });
    }
}
