import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Dead letters and retry letters, counted exactly. */
final class Letters {
    private Letters() {}

    private static String header(ConsumerRecord<byte[], byte[]> record, String name) {
        var found = record.headers().lastHeader(name);
        return found == null ? "none" : new String(found.value(), UTF_8);
    }

    /** All records of a dead letter topic, which then holds so many and no more. */
    private static List<ConsumerRecord<byte[], byte[]>> dead(Ctx ctx, String topic, int partitions, int count)
            throws Exception {
        ctx.until("the topic " + topic, () -> ctx.get(ctx.admin().listTopics().names()).contains(topic));
        Expect.same(ctx.describe(topic).partitions().size(), partitions, "partitions of the dead letter topic");
        var found = ctx.read(topic, partitions, count);
        Map<TopicPartition, OffsetSpec> ends = new HashMap<>();
        for (int p = 0; p < partitions; p++) ends.put(new TopicPartition(topic, p), OffsetSpec.latest());
        long written = ctx.get(ctx.admin().listOffsets(ends).all()).values().stream().mapToLong(o -> o.offset()).sum();
        Expect.same(written, (long) count, "records in the dead letter topic");
        return found;
    }

    static void register(Cases cases) {
        cases.put("pulsar_dead_letters", ctx -> {
            String topic = ctx.create(3), group = Sharer.group(ctx, "pulsar.max.redeliver.count", "2");
            for (int p = 0; p < 3; p++) ctx.produce(topic, p, Rec.sample(20));
            Sharer member = new Sharer(ctx, group, topic);
            Map<String, Integer> deliveries = new HashMap<>();
            int[] sum = {0};
            ctx.until("all records to be settled", () -> {
                var some = member.poll();
                for (var one : some) {
                    int times = deliveries.merge(one.partition() + " " + one.offset(), 1, Integer::sum);
                    Expect.same(Sharer.counts(List.of(one)), List.of(times), "delivery count");
                    member.client.acknowledge(one,
                        one.offset() % 4 == 0 ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                    sum[0]++;
                }
                member.commit();
                return sum[0] >= 45 + 15 * 3;
            });
            var found = dead(ctx, topic + "-" + group + "-DLQ", 3, 15);
            member.nothingElse(topic);
            Set<String> origins = new TreeSet<>(), expected = new TreeSet<>();
            for (var one : found) {
                String where = header(one, "__dlq.errors.partition") + " " + header(one, "__dlq.errors.offset");
                origins.add(where);
                Expect.same(deliveries.get(where), 3, "deliveries of " + where);
                Expect.same("" + one.partition(), header(one, "__dlq.errors.partition"), "partition of a dead letter");
                Expect.same(header(one, "__dlq.errors.topic"), topic, "__dlq.errors.topic");
                Expect.same(header(one, "__dlq.errors.group"), group, "__dlq.errors.group");
                Expect.same(header(one, "__dlq.errors.delivery.count"), "3", "__dlq.errors.delivery.count");
                Expect.same(header(one, "REAL_SUBSCRIPTION"), group, "REAL_SUBSCRIPTION");
                Expect.check(header(one, "REAL_TOPIC").startsWith("persistent://public/default/" + topic), "REAL_TOPIC");
                Expect.check(header(one, "ORIGIN_MESSAGE_ID").contains(":"), "ORIGIN_MESSAGE_ID");
                Expect.same(header(one, "pulsar-dead-letter-reason"), "MAX_DELIVERIES", "reason");
                Expect.same(Rec.number(one), Integer.parseInt(where.split(" ")[1]), "the record");
            }
            for (int p = 0; p < 3; p++) for (int n = 0; n < 20; n += 4) expected.add(p + " " + n);
            Expect.same(origins, expected, "dead letters by origin");
        });
        cases.put("pulsar_rejected", ctx -> {
            String name = ctx.unique("dead");
            String topic = ctx.create(1), group = Sharer.group(ctx, "pulsar.dead.letter.topic", name);
            ctx.produce(topic, Rec.sample(10));
            Sharer member = new Sharer(ctx, group, topic);
            for (var one : member.hold(10)) {
                member.client.acknowledge(one, one.offset() < 3 ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT);
            }
            member.commit();
            var found = dead(ctx, name, 1, 3);
            Expect.same(Rec.records(found), Rec.sample(10).subList(0, 3), "dead letters");
            for (var one : found) Expect.same(header(one, "pulsar-dead-letter-reason"), "REJECTED", "reason");
            member.nothingElse(topic);
        });
        cases.put("pulsar_no_dead_letters", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx, "pulsar.dead.letter.enable", "false");
            ctx.produce(topic, Rec.sample(5));
            Sharer member = new Sharer(ctx, group, topic);
            member.acknowledge(member.hold(5), AcknowledgeType.REJECT);
            member.nothingElse(topic);
            Expect.check(!ctx.get(ctx.admin().listTopics().names()).contains(topic + "-" + group + "-DLQ"),
                "a dead letter topic was made");
        });
        cases.put("pulsar_retry_letters", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx, "pulsar.max.reconsume.count", "2");
            String retry = topic + "-" + group + "-RETRY", dead = topic + "-" + group + "-DLQ";
            ctx.create(new NewTopic(retry, 1, (short) 1));
            ctx.describe(retry);
            ctx.produce(topic, List.of(Rec.of("k", "stubborn")));
            Sharer member = new Sharer(ctx, group, List.of(topic, retry));
            var producer = ctx.producer();
            for (int times = 0; times < 3; times++) {
                var found = member.hold(1);
                var one = found.get(0);
                Expect.same(Rec.records(found), List.of(Rec.of("k", "stubborn")), "record");
                if (times > 0) {
                    Expect.same(one.topic(), retry, "topic");
                    Expect.same(header(one, "RECONSUMETIMES"), "" + times, "RECONSUMETIMES");
                    Expect.check(header(one, "REAL_TOPIC").endsWith(topic), "REAL_TOPIC " + header(one, "REAL_TOPIC"));
                    Expect.check(System.currentTimeMillis() >= one.timestamp() + 400 - 2, "a retry letter came early");
                }
                var again = new ProducerRecord<>(retry, one.key(), one.value());
                one.headers().forEach(h -> {
                    if (!h.key().equals("DELAY_TIME")) again.headers().add(h);
                });
                again.headers().add("DELAY_TIME", "400".getBytes(UTF_8));
                producer.send(again).get();
                member.acknowledge(found, AcknowledgeType.ACCEPT);
            }
            ctx.until("the dead letter", () -> {  // whoever polls has the server look at what is due
                Expect.same(member.poll().size(), 0, "records of a third retry letter");
                return ctx.get(ctx.admin().listTopics().names()).contains(dead);
            });
            var found = dead(ctx, dead, 1, 1);
            Expect.same(Rec.records(found), List.of(Rec.of("k", "stubborn")), "the dead letter");
            Expect.same(header(found.get(0), "pulsar-dead-letter-reason"), "MAX_DELIVERIES", "reason");
            Expect.check(header(found.get(0), "REAL_TOPIC").endsWith(topic), "REAL_TOPIC of the dead letter");
            member.nothingElse(topic);
        });
        cases.put("restart_pulsar_counts", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx, "pulsar.max.redeliver.count", "3");
            ctx.produce(topic, Rec.sample(10));
            Sharer first = new Sharer(ctx, group, topic);
            first.acknowledge(first.hold(10), AcknowledgeType.RELEASE);
            var found = first.hold(10);
            Expect.same(Sharer.counts(found), Sharer.all(10, 2), "delivery counts before the restart");
            for (var one : found) {
                first.client.acknowledge(one, one.offset() < 5 ? AcknowledgeType.RELEASE : AcknowledgeType.REJECT);
            }
            first.commit();
            first.close();
            ctx.restart();
            Sharer second = new Sharer(ctx, group, topic);
            var third = second.take(5, AcknowledgeType.RELEASE);
            Expect.same(Rec.offsets(third), Rec.range(0, 5), "offsets after the restart");
            Expect.same(Sharer.counts(third), Sharer.all(5, 3), "delivery counts after the restart");
            Expect.same(Sharer.counts(second.take(5, AcknowledgeType.RELEASE)), Sharer.all(5, 4), "the last delivery");
            List<Integer> numbers = new ArrayList<>();
            for (var one : dead(ctx, topic + "-" + group + "-DLQ", 1, 10)) numbers.add(Rec.number(one));
            Expect.same(new TreeSet<>(numbers).size(), 10, "different dead letters");
            second.nothingElse(topic);
        });
    }
}
