import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.errors.RebalanceInProgressException;

/** Queue topics with group.protocol=consumer (KIP-848). */
final class Protocol {
    private static final int KEYS = QueueMembers.KEYS;

    private Protocol() {}

    static void register(Cases cases) {
        cases.put("queue_consumer_protocol", ctx -> {
            var queue = new QueueTopic(ctx, 4, "pulsar.subscription.type", "key_shared");
            QueueMembers.Ledger ledger = new QueueMembers.Ledger();
            List<KafkaConsumer<byte[], byte[]>> members = new ArrayList<>(List.of(queue.join()));
            queue.feed(0, 100, KEYS);
            until(ctx, ledger, members, 100, 4);
            var byName = queue.join("group.protocol", "consumer");
            members.add(byName);
            until(ctx, ledger, members, 100, 2, 2);  // the group is a consumer group by now
            queue.feed(100, 300, KEYS);
            until(ctx, ledger, members, 300, 2, 2);
            ctx.api.close(members.remove(0));
            var byPattern = ctx.consumer(queue.group, "group.protocol", "consumer");
            byPattern.subscribe(new SubscriptionPattern(queue.topic + "-.*-QUEUE"));
            members.add(byPattern);
            until(ctx, ledger, members, 300, 2, 2);
            queue.feed(300, 400, KEYS);
            until(ctx, ledger, members, 400, 2, 2);
            ctx.api.close(members.remove(0));
            queue.feed(400, 500, KEYS);
            until(ctx, ledger, members, 500, 4);
            queue.nothingElse(byPattern);
            ctx.detail = ledger.again + " of 500 came again";
        });
    }

    /** Members work until so many records are done, and each has so many lanes. */
    private static void until(Ctx ctx, QueueMembers.Ledger ledger, List<KafkaConsumer<byte[], byte[]>> members, int done,
            Integer... lanes) throws Exception {
        ctx.until(done + " records, and lanes " + List.of(lanes), () -> {
            for (var client : members) {
                var some = ctx.api.poll(client, 100);
                some.forEach(one -> ledger.take("member " + members.indexOf(client), one));
                try {
                    QueueTopic.commit(client, some, QueueTopic.NOTHING);
                } catch (CommitFailedException | RebalanceInProgressException late) {
                    // they come again to whoever has the lane then
                }
            }
            return ledger.done() == done && members.stream().map(each -> each.assignment().size()).toList().equals(List.of(lanes));
        });
    }
}
