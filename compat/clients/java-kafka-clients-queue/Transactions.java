import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Commits of a queue topic's consumer as parts of transactions. */
final class Transactions {
    private Transactions() {}

    private static void end(QueueTopic queue, Producer<byte[], byte[]> producer, String made,
            Consumer<byte[], byte[]> consumer, List<ConsumerRecord<byte[], byte[]>> records, String said,
            boolean commit) {
        producer.beginTransaction();
        for (var one : records) producer.send(new ProducerRecord<>(made, ("of " + QueueTopic.value(one)).getBytes(UTF_8)));
        long behind = records.get(records.size() - 1).offset() + 1;
        producer.sendOffsetsToTransaction(
            Map.of(new TopicPartition(queue.name, 0), new OffsetAndMetadata(behind, said)), consumer.groupMetadata());
        if (commit) producer.commitTransaction();
        else producer.abortTransaction();
    }

    static void register(Cases cases) {
        cases.put("queue_transaction", ctx -> {
            var queue = new QueueTopic(ctx, 1);
            String made = ctx.create(1);
            var producer = ctx.producer("transactional.id", ctx.unique("x"));
            producer.initTransactions();
            queue.feed(0, 6, 1);
            var consumer = queue.join();
            List<ConsumerRecord<byte[], byte[]>> first = new ArrayList<>(ctx.take(consumer, 6));
            end(queue, producer, made, consumer, first.subList(0, 3), "", false);
            var again = ctx.take(consumer, 3);
            Expect.same(QueueTopic.values(again), QueueTopic.span(0, 3), "what was aborted comes again");
            Expect.same(again.get(0).offset(), 6L, "as new deliveries");
            first.subList(0, 3).clear();
            first.addAll(again);
            String bad = "ack1;d=" + again.get(1).offset();
            end(queue, producer, made, consumer, first, bad, true);
            Expect.same(queue.settled(consumer), 9L, "the first open delivery");
            queue.nothingElse(consumer);
            var found = ctx.read(made, 1, 6, "isolation.level", "read_committed");
            Expect.same(found.stream().map(r -> new String(r.value(), UTF_8)).sorted().toList(),
                List.of("of 0", "of 1", "of 2", "of 3", "of 4", "of 5"), "what was made");
            queue.letters(1);
        });
    }
}
