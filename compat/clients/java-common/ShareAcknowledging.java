import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Section "Share groups": what acknowledgements do. */
final class ShareAcknowledging {
    private ShareAcknowledging() {}

    static void register(Cases cases) {
        cases.put("share_implicit", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            ctx.produce(topic, Rec.sample(10));
            Sharer first = new Sharer(ctx, group, topic, "share.acknowledgement.mode", "implicit");
            Expect.same(Rec.offsets(first.hold(10)), Rec.range(0, 10), "first poll");
            ctx.produce(topic, Rec.sample(10));
            Expect.same(Rec.offsets(first.some()), Rec.range(10, 20), "second poll");  // which accepted the first
            first.commit();  // accepts the second
            first.close();
            new Sharer(ctx, group, topic).nothingElse(topic);
        });
        cases.put("share_explicit", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            List<Rec> sent = new ArrayList<>(Rec.sample(8));
            sent.addAll(List.of(Rec.of(null, "no key"), Rec.of("k", null)));
            var client = ctx.producer();
            for (Rec r : sent) {
                var record = new ProducerRecord<>(topic, r.key(), r.value());
                record.headers().add("a", new byte[] {0}).add("a", null);
                client.send(record);
            }
            client.flush();
            Sharer first = new Sharer(ctx, group, topic);
            var found = first.take(10);
            Expect.same(Rec.records(found), sent, "records");
            Expect.same(Sharer.counts(found), Sharer.all(10, 1), "delivery counts");
            for (var one : found) {
                var headers = one.headers().toArray();
                Expect.check(headers.length == 2 && Arrays.equals(headers[0].value(), new byte[] {0})
                    && headers[1].value() == null, "headers " + one.headers());
            }
            Expect.check(first.client.acquisitionLockTimeoutMs().orElse(0) == 30000, "lock timeout");
            first.nothingElse(topic);
            first.close();
            new Sharer(ctx, group, topic).nothingElse(topic);
        });
        cases.put("share_commit_callback", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            ctx.produce(topic, Rec.sample(10));
            Sharer first = new Sharer(ctx, group, topic);
            List<String> told = new ArrayList<>();
            first.client.setAcknowledgementCommitCallback((offsets, error) -> offsets.values().forEach(
                numbers -> told.add(numbers.stream().sorted().toList() + " " + error)));
            for (var one : first.hold(10)) first.client.acknowledge(one);
            first.client.commitAsync();
            ctx.until("the callback", () -> {
                first.poll();
                return !told.isEmpty();
            });
            Expect.same(told, List.of(Rec.range(0, 10) + " null"), "what the callback was told");
            first.nothingElse(topic);
        });
        cases.put("share_release", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            ctx.produce(topic, Rec.sample(10));
            Sharer first = new Sharer(ctx, group, topic);
            for (var one : first.hold(10)) {
                first.client.acknowledge(one, one.offset() % 2 == 1 ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
            }
            first.commit();
            for (int delivery : List.of(2, 3)) {
                var again = first.hold(5);
                Expect.same(Rec.offsets(again), List.of(1L, 3L, 5L, 7L, 9L), "released records");
                Expect.same(Sharer.counts(again), Sharer.all(5, delivery), "delivery counts");
                for (var one : again) first.client.acknowledge(one, AcknowledgeType.RELEASE);
                if (delivery == 2) first.commit();
            }
            Sharer second = new Sharer(ctx, group, topic);
            // What was said last leaves with the close. After a commit the client may fetch once more before it closes,
            // unseen by its user, and that fetch is a delivery.
            first.close();
            Expect.same(Sharer.counts(second.take(5)), Sharer.all(5, 4), "delivery counts of another member");
            second.nothingElse(topic);
        });
        cases.put("share_reject", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            ctx.produce(topic, Rec.sample(10));
            Sharer first = new Sharer(ctx, group, topic);
            first.acknowledge(first.hold(10), AcknowledgeType.REJECT);
            first.nothingElse(topic);
        });
        cases.put("share_renew", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx, "share.record.lock.duration.ms", Sharer.LOCK);
            ctx.produce(topic, Rec.sample(10));
            Sharer first = new Sharer(ctx, group, topic), second = new Sharer(ctx, group, topic);
            List<ConsumerRecord<byte[], byte[]>> held = new ArrayList<>();
            ctx.until("records", () -> held.addAll(first.poll()));
            Expect.same(held.size(), 10, "records in hand");
            long end = System.nanoTime() + 3_000_000_000L;  // two locks long
            while (System.nanoTime() < end) {
                first.acknowledge(held, AcknowledgeType.RENEW);
                Expect.same(second.poll().size(), 0, "records that another member renews");
                var again = first.poll();  // the client gives again what is renewed
                Expect.same(Rec.offsets(again), Rec.range(0, 10), "renewed records");
                Expect.same(Sharer.counts(again), Sharer.all(10, 1), "delivery counts");
                held.clear();
                held.addAll(again);
            }
            first.acknowledge(held.subList(0, 4), AcknowledgeType.ACCEPT);
            first.acknowledge(held.subList(4, 10), AcknowledgeType.RELEASE);
            first.close();
            Expect.same(Rec.offsets(second.take(6)), Rec.range(4, 10), "records released after it");
            second.nothingElse(topic);
        });
        cases.put("share_individual_acks", ctx -> {
            for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
                String topic = ctx.create(1), group = Sharer.group(ctx);
                List<Rec> left = Rec.sample(100);
                ctx.produce(topic, left, "compression.type", codec, "linger.ms", "50");
                Sharer first = new Sharer(ctx, group, topic);
                for (int keep : List.of(3, 7)) {
                    var found = first.hold(left.size());
                    Expect.same(Rec.records(found), left, "records in " + codec);
                    for (int n = 0; n < found.size(); n++) {
                        first.client.acknowledge(found.get(n),
                            n % keep == 0 ? AcknowledgeType.ACCEPT : AcknowledgeType.RELEASE);
                    }
                    first.commit();
                    List<Rec> before = left;
                    left = IntStream.range(0, before.size()).filter(n -> n % keep != 0).mapToObj(before::get).toList();
                }
                Expect.same(Rec.records(first.take(left.size())), left, "the last records in " + codec);
                first.nothingElse(topic);
                first.close();
            }
        });
        cases.put("share_record_limit", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            ctx.produce(topic, Rec.sample(100), "linger.ms", "50");
            String[] limit = {"share.acquire.mode", "record_limit", "max.poll.records", "7"};
            Sharer first = new Sharer(ctx, group, topic, limit), second = new Sharer(ctx, group, topic, limit);
            var held = first.hold(7);
            Expect.same(Rec.offsets(held), Rec.range(0, 7), "records of the first member");
            var others = second.hold(7);
            Expect.same(Rec.offsets(others), Rec.range(7, 14), "records of the second member");
            second.acknowledge(others, AcknowledgeType.ACCEPT);
            Expect.same(Rec.offsets(second.take(86)), Rec.range(14, 100), "the rest, seven at a time");
            first.acknowledge(held, AcknowledgeType.ACCEPT);
            first.close();
            second.nothingElse(topic);
        });
        cases.put("share_lock_timeout", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx, "share.record.lock.duration.ms", Sharer.LOCK);
            ctx.produce(topic, Rec.sample(10));
            Sharer first = new Sharer(ctx, group, topic);
            long began = System.nanoTime();
            var held = first.hold(10);
            // what the second member gets it may keep for longer than a slow machine takes
            Sharer.configure(ctx, group, Map.of("share.record.lock.duration.ms", "30000"));
            Sharer second = new Sharer(ctx, group, topic);
            // all ten, or its share of them: the first is a member too
            var again = second.some();
            Expect.check(System.nanoTime() - began > 1_498_000_000L, "locked records were given to another member");
            for (var one : held) first.client.acknowledge(one);
            Expect.same(first.commitErrors(), List.of("InvalidRecordStateException"),
                "errors of a late acknowledgement");
            second.acknowledge(again, AcknowledgeType.ACCEPT);
            if (again.size() < 10) again.addAll(second.take(10 - again.size()));
            Expect.same(Rec.offsets(again), Rec.range(0, 10), "offsets");
            Expect.same(Sharer.counts(again), Sharer.all(10, 2), "delivery counts");
            second.nothingElse(topic);
        });
        cases.put("share_delivery_limit", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx, "share.delivery.count.limit", "3");
            ctx.produce(topic, Rec.sample(5));
            Sharer first = new Sharer(ctx, group, topic);
            // Kafka gives what fails again and again record by record.
            Set<String> seen = first.take(15, AcknowledgeType.RELEASE).stream()
                .map(one -> one.offset() + " " + one.deliveryCount().orElseThrow()).collect(Collectors.toSet());
            Expect.same(seen.size(), 15, "deliveries of five records, each counted");
            Expect.check(seen.contains("0 3") && seen.contains("4 3"), "deliveries " + seen);
            first.nothingElse(topic);
        });
        cases.put("share_wrong_use", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            ctx.produce(topic, Rec.sample(2));
            Sharer first = new Sharer(ctx, group, topic);
            var held = first.hold(2);
            Expect.failure(IllegalStateException.class, first::poll);  // with records that are not acknowledged
            first.acknowledge(held, AcknowledgeType.ACCEPT);
            Expect.failure(IllegalStateException.class, () -> first.client.acknowledge(held.get(0)));
            first.nothingElse(topic);
        });
    }
}
