import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** What is said of shared records inside of transactions. */
final class Transactions {
    private Transactions() {}

    @SuppressWarnings("deprecation")
    private static ConsumerGroupMetadata of(String group) { return new ConsumerGroupMetadata(group); }

    /** What was made of some records, and that they are done. */
    private static void end(Sharer member, String group, Producer<byte[], byte[]> producer, String made,
            List<ConsumerRecord<byte[], byte[]>> records, boolean commit) {
        producer.beginTransaction();
        for (var one : records) {
            producer.send(new ProducerRecord<>(made, ("of " + new String(one.value(), UTF_8)).getBytes(UTF_8)));
        }
        String said = records.stream().map(one -> one.offset() + "@" + one.deliveryCount().get())
            .collect(Collectors.joining(",", "ack1;a=", ""));
        var first = records.get(0);
        producer.sendOffsetsToTransaction(Map.of(new TopicPartition(first.topic(), first.partition()),
            new OffsetAndMetadata(0, said)), of(group));
        if (commit) producer.commitTransaction();
        else producer.abortTransaction();
        member.acknowledge(records, AcknowledgeType.ACCEPT);  // the client insists; by now this says nothing
    }

    static void register(Cases cases) {
        cases.put("pulsar_transaction", ctx -> {
            String topic = ctx.create(1), made = ctx.create(1);
            String group = Sharer.group(ctx, "pulsar.max.redeliver.count", "1");
            try (var feeding = ctx.producer()) {
                for (int n = 0; n < 4; n++) feeding.send(new ProducerRecord<>(topic, ("" + n).getBytes(UTF_8)));
            }
            var producer = ctx.producer("transactional.id", ctx.unique("x"));
            producer.initTransactions();
            Sharer member = new Sharer(ctx, group, topic);
            var first = member.hold(4);
            end(member, group, producer, made, first.subList(0, 2), false);
            end(member, group, producer, made, first.subList(2, 4), true);
            var again = member.hold(2);
            Expect.same(Rec.offsets(again), Rec.range(0, 2), "what was aborted comes again");
            Expect.same(Sharer.counts(again), Sharer.all(2, 2), "delivery counts");
            end(member, group, producer, made, again.subList(0, 1), true);
            end(member, group, producer, made, again.subList(1, 2), false);
            member.nothingElse(topic);
            var found = ctx.read(made, 1, 3, "isolation.level", "read_committed");
            Expect.same(found.stream().map(r -> new String(r.value(), UTF_8)).sorted().toList(),
                List.of("of 0", "of 2", "of 3"), "what was made");
            var dead = ctx.read(topic + "-" + group + "-DLQ", 1, 1);
            Expect.same(new String(dead.get(0).value(), UTF_8), "1", "the second failure was the last");
        });
    }
}
