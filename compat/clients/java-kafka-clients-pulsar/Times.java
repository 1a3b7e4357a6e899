import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.producer.ProducerRecord;

/** What is delivered later. No case says how late is too late. */
final class Times {
    /** Milliseconds by which two clocks of one machine may differ. */
    private static final long EARLY = 2;

    private Times() {}

    static void register(Cases cases) {
        cases.put("pulsar_nack_backoff", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx, "pulsar.nack.backoff.min.ms", "250",
                "pulsar.nack.backoff.max.ms", "800", "pulsar.nack.backoff.multiplier", "2",
                "pulsar.max.redeliver.count", "10");
            ctx.produce(topic, Rec.sample(1));
            Sharer member = new Sharer(ctx, group, topic);
            long ended = 0;
            long[] least = {0, 250, 500, 800, 800};
            for (int delivery = 1; delivery <= 5; delivery++) {
                var found = member.hold(1);
                long waited = System.nanoTime() / 1_000_000 - ended;
                Expect.check(waited >= least[delivery - 1] - EARLY, "delivery " + delivery + " after " + waited + " ms");
                Expect.same(Sharer.counts(found), List.of(delivery), "delivery count");
                ended = System.nanoTime() / 1_000_000;
                member.acknowledge(found, delivery < 5 ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
            }
            member.nothingElse(topic);
        });
        cases.put("pulsar_nack_delay", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx, "pulsar.nack.delay.ms", "400");
            ctx.produce(topic, Rec.sample(3));
            Sharer member = new Sharer(ctx, group, topic);
            for (var one : member.hold(3)) {
                member.client.acknowledge(one, one.offset() == 1 ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
            }
            long began = System.nanoTime() / 1_000_000;
            member.commit();
            var again = member.hold(1);
            Expect.check(System.nanoTime() / 1_000_000 - began >= 400 - EARLY, "redelivered before its delay");
            Expect.same(Rec.offsets(again), List.of(1L), "the released record");
            Expect.same(Sharer.counts(again), List.of(2), "delivery count");
            Sharer.configure(ctx, group, Map.of("pulsar.nack.delay.ms", "600000"));
            member.acknowledge(again, AcknowledgeType.RELEASE);
            member.nothingElse(topic);  // the others go on
        });
        cases.put("pulsar_ack_timeout_backoff", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx, "pulsar.ack.timeout.ms", "1000",
                "pulsar.ack.timeout.backoff.min.ms", "400", "pulsar.ack.timeout.backoff.multiplier", "2");
            ctx.produce(topic, Rec.sample(1));
            long began = System.nanoTime() / 1_000_000;
            int count = 0;
            while (count < 3) {
                Sharer member = new Sharer(ctx, group, topic);  // those before it stay, and hold the record too long
                var found = member.hold(1);
                int now = Sharer.counts(found).get(0);
                Expect.check(now > count, "delivery count " + now + " after " + count);
                count = now;
                long waited = System.nanoTime() / 1_000_000 - began;
                Expect.check(count < 3 || waited >= 3200 - EARLY, "2 time-outs and 400, 800 ms in " + waited + " ms");
                if (count >= 3) member.acknowledge(found, AcknowledgeType.ACCEPT);
            }
            new Sharer(ctx, group, topic).nothingElse(topic);
        });
        cases.put("pulsar_deliver_at", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            Sharer member = new Sharer(ctx, group, topic);
            long now = System.currentTimeMillis();
            var producer = ctx.producer();
            for (int n = 0; n < 6; n++) send(producer, topic, "pulsar-deliver-at", now + 300 * (7 - n));
            send(producer, topic, "pulsar-deliver-at", now - 10_000);
            producer.flush();
            Expect.same(ctx.read(topic, 1, 7).size(), 7, "records that a reader sees at once");
            List<Long> arrived = new ArrayList<>();
            int[] together = {0};
            ctx.until("the delayed records", () -> {
                var some = member.poll();
                for (var one : some) {
                    long due = Long.parseLong(new String(one.headers().lastHeader("pulsar-deliver-at").value(), UTF_8));
                    Expect.check(System.currentTimeMillis() >= due - EARLY, "record " + one.offset() + " came early");
                    arrived.add(one.offset());
                }
                if (!some.isEmpty()) member.acknowledge(some, AcknowledgeType.ACCEPT);
                together[0] = Math.max(together[0], some.size());
                return arrived.size() >= 7;
            });
            if (together[0] == 1) {  // those that are due when a slow member asks come by their offsets
                Expect.same(arrived, List.of(6L, 5L, 4L, 3L, 2L, 1L, 0L), "the order of arrival: by due time");
            }
            Expect.same(arrived.stream().sorted().toList(), Rec.range(0, 7), "records that arrived");
            member.nothingElse(topic);
        });
        cases.put("pulsar_deliver_after", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            Sharer member = new Sharer(ctx, group, topic);
            var producer = ctx.producer("compression.type", "zstd", "linger.ms", "20");
            for (int n = 0; n < 5; n++) send(producer, topic, "pulsar-deliver-after", 700);
            producer.send(new ProducerRecord<>(topic, "at once".getBytes(UTF_8)));
            producer.flush();
            List<Long> arrived = new ArrayList<>();
            ctx.until("all records", () -> {
                var some = member.poll();
                for (var one : some) {
                    Expect.check(one.offset() == 5 || System.currentTimeMillis() >= one.timestamp() + 700 - EARLY,
                        "a record came early");
                }
                if (!some.isEmpty()) member.acknowledge(some, AcknowledgeType.ACCEPT);
                arrived.addAll(Rec.offsets(some));
                return arrived.size() >= 6;
            });
            Expect.same(arrived.stream().sorted().toList(), Rec.range(0, 6), "records");
            member.nothingElse(topic);
        });
        cases.put("restart_pulsar_delays", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            long at = System.currentTimeMillis() + 4000;
            var producer = ctx.producer();
            for (int n = 0; n < 20; n++) send(producer, topic, "pulsar-deliver-at", at + n);
            producer.send(new ProducerRecord<>(topic, "at once".getBytes(UTF_8)));
            producer.flush();
            List<Long> arrived = new ArrayList<>();
            Sharer first = new Sharer(ctx, group, topic);
            collect(ctx, first, at, arrived, 1);
            Expect.check(arrived.contains(20L), "what is not delayed did not come first");
            first.close();
            ctx.restart();
            Sharer second = new Sharer(ctx, group, topic);
            collect(ctx, second, at, arrived, 21);
            Expect.same(arrived.stream().sorted().toList(), Rec.range(0, 21), "records");
            second.nothingElse(topic);
        });
    }

    private static void collect(Ctx ctx, Sharer member, long due, List<Long> arrived, int enough) throws Exception {
        ctx.until(enough + " records", () -> {
            var some = member.poll();
            Expect.check(some.stream().allMatch(one -> one.offset() == 20) || System.currentTimeMillis() >= due - EARLY,
                "records came early");
            if (!some.isEmpty()) member.acknowledge(some, AcknowledgeType.ACCEPT);
            arrived.addAll(Rec.offsets(some));
            return arrived.size() >= enough;
        });
    }

    private static void send(
            org.apache.kafka.clients.producer.Producer<byte[], byte[]> producer, String topic, String header, long ms) {
        var record = new ProducerRecord<>(topic, "k".getBytes(UTF_8), "later".getBytes(UTF_8));
        record.headers().add(header, Long.toString(ms).getBytes(UTF_8));
        producer.send(record);
    }
}
