import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Section "Consume". */
final class Consuming {
    private Consuming() {}

    static void register(Cases cases) {
        cases.put("consume_by_assignment", ctx -> {
            String topic = ctx.create(3);
            for (int p = 0; p < 3; p++) ctx.produce(topic, p, Rec.sample(20));
            var client = ctx.consumer(null);
            client.assign(List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 2)));
            Set<Integer> got = ctx.take(client, 40).stream().map(ConsumerRecord::partition).collect(Collectors.toSet());
            Expect.same(got, Set.of(0, 2), "partitions");
        });
        cases.put("consume_by_group", ctx -> {
            String topic = ctx.create(3);
            ctx.produce(topic, Rec.sample(300));
            var client = ctx.consumer(ctx.group());
            client.subscribe(List.of(topic));
            var got = ctx.take(client, 300).stream().map(r -> (long) Rec.number(r)).sorted().toList();
            Expect.same(got, Rec.range(0, 300), "records");
        });
        cases.put("subscribe_pattern", ctx -> {
            String prefix = ctx.topicName();
            for (String suffix : List.of("one", "two")) ctx.produce(prefix + "." + suffix, Rec.sample(10));
            var client = ctx.consumer(ctx.group(), "metadata.max.age.ms", "500");
            client.subscribe(Pattern.compile(Pattern.quote(prefix) + "\\..*"));
            Set<String> seen = new HashSet<>();
            Ctx.Condition poll = () -> {
                ctx.api.poll(client, 200).forEach(r -> seen.add(r.topic()));
                return seen.size() == 2;
            };
            ctx.until("both topics", poll);
            ctx.produce(prefix + ".three", Rec.sample(10));
            ctx.until("the later topic", () -> { poll.test(); return seen.contains(prefix + ".three"); });
        });
        cases.put("seek_into_batch", ctx -> {
            String topic = ctx.create(1);
            ctx.produce(topic, Rec.sample(100), "linger.ms", "200", "compression.type", "lz4");
            var client = ctx.consumer(null);
            TopicPartition where = new TopicPartition(topic, 0);
            client.assign(List.of(where));
            client.seek(where, 57);
            Expect.same(Rec.offsets(ctx.take(client, 43)), Rec.range(57, 100), "offsets");
            client.seek(where, 33);
            Expect.same(ctx.take(client, 1).get(0).offset(), 33L, "offset after seek");
        });
        cases.put("seek_by_time", ctx -> {
            String topic = ctx.create(1);
            var client = ctx.producer("linger.ms", "100");
            long start = System.currentTimeMillis() - 600_000;
            for (long n = 0; n < 100; n++) {
                client.send(new ProducerRecord<>(topic, 0, start + n * 1000, null, new byte[] {(byte) n}));
            }
            client.flush();
            var reader = ctx.consumer(null);
            TopicPartition where = new TopicPartition(topic, 0);
            var found = reader.offsetsForTimes(Map.of(where, start + 39_500)).get(where);
            Expect.same(found.offset(), 40L, "offset of a time");
            Expect.same(reader.offsetsForTimes(Map.of(where, start + 1_000_000)).get(where), null, "a time after all");
            reader.assign(List.of(where));
            reader.seek(where, 40);
            Expect.same(ctx.take(reader, 1).get(0).value()[0], (byte) 40, "value at the offset");
        });
        cases.put("beginning_and_end_offsets", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            var client = ctx.consumer(null);
            Expect.same(client.endOffsets(List.of(where)), Map.of(where, 0L), "end of an empty topic");
            ctx.produce(where.topic(), Rec.sample(25));
            Expect.same(client.endOffsets(List.of(where)), Map.of(where, 25L), "end");
            Expect.same(client.beginningOffsets(List.of(where)), Map.of(where, 0L), "beginning");
        });
        cases.put("empty_poll", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            var client = ctx.consumer(null);
            client.assign(List.of(where));
            Expect.same(ctx.api.poll(client, 300).count(), 0, "records of an empty topic");
            ctx.produce(where.topic(), Rec.sample(1));
            ctx.take(client, 1);
        });
        cases.put("reset_latest", ctx -> {
            String topic = ctx.create(1);
            ctx.produce(topic, Rec.sample(10));
            var client = ctx.consumer(ctx.group(), "auto.offset.reset", "latest");
            client.subscribe(List.of(topic));
            ctx.until("a new record", () -> {  // it may look up the end after we wrote: write again
                ctx.produce(topic, List.of(Rec.of("new", "new")));
                var got = ctx.api.poll(client, 500);
                got.forEach(r -> Expect.same(new String(r.key()), "new", "key"));
                return !got.isEmpty();
            });
        });
        cases.put("read_committed", ctx -> {
            String topic = ctx.create(1);
            ctx.produce(topic, Rec.sample(100));
            Expect.same(ctx.read(topic, 1, 100, "isolation.level", "read_committed").size(), 100, "records");
        });
        cases.put("pause_and_resume", ctx -> {
            String topic = ctx.create(2);
            for (int p = 0; p < 2; p++) ctx.produce(topic, p, Rec.sample(20));
            TopicPartition zero = new TopicPartition(topic, 0);
            var client = ctx.consumer(null);
            client.assign(List.of(zero, new TopicPartition(topic, 1)));
            client.pause(List.of(zero));
            ctx.take(client, 20).forEach(r -> Expect.same(r.partition(), 1, "partition while paused"));
            client.resume(List.of(zero));
            ctx.take(client, 20).forEach(r -> Expect.same(r.partition(), 0, "partition after resume"));
        });
    }
}
