import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.TopicPartition;

/** Section "Groups", as far as every version has it. */
final class Groups {
    private Groups() {}

    static void register(Cases cases) {
        cases.put("commit_and_resume", ctx -> {
            String topic = ctx.create(1), group = ctx.group();
            ctx.produce(topic, Rec.sample(100));
            var first = ctx.consumer(group, "max.poll.records", "30");
            first.subscribe(List.of(topic));
            ctx.take(first, 30);
            first.commitSync();
            first.close();
            var second = ctx.consumer(group);
            second.subscribe(List.of(topic));
            Expect.same(Rec.offsets(ctx.take(second, 70)), Rec.range(30, 100), "offsets after resume");
        });
        cases.put("commit_metadata", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            String text = "käse {\"a\": [1, 2]} " + "x".repeat(500);
            var client = ctx.consumer(ctx.group());
            client.assign(List.of(where));
            client.commitSync(Map.of(where, new OffsetAndMetadata(0, text)));
            Expect.same(ctx.api.committed(client, where).metadata(), text, "metadata");
        });
        cases.put("auto_commit", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            ctx.produce(where.topic(), Rec.sample(10));
            var client = ctx.consumer(ctx.group(), "enable.auto.commit", "true", "auto.commit.interval.ms", "100");
            client.subscribe(List.of(where.topic()));
            ctx.take(client, 10);
            ctx.until("the automatic commit", () -> {
                ctx.api.poll(client, 200);
                OffsetAndMetadata found = ctx.api.committed(client, where);
                return found != null && found.offset() == 10;
            });
        });
        cases.put("rebalance_eager", ctx -> rebalance(ctx, RangeAssignor.class));
        cases.put("member_timeout", ctx -> {
            String topic = ctx.create(2), group = ctx.group();
            Member lazy = new Member(ctx, topic, group, "session.timeout.ms", "6000", "max.poll.interval.ms", "6000");
            Member.settle(ctx, List.of(lazy), 2);
            lazy.stop();
            Member eager = new Member(ctx, topic, group);
            Member.settle(ctx, List.of(eager), 2);
        });
        cases.put("new_partitions_in_group", ctx -> {
            String topic = ctx.create(1);
            Member member = new Member(ctx, topic, ctx.group(), "metadata.max.age.ms", "500");
            Member.settle(ctx, List.of(member), 1);
            ctx.get(ctx.admin().createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all());
            Member.settle(ctx, List.of(member), 3);
            ctx.produce(topic, 2, Rec.sample(5));
            ctx.until("records of the new partition", () -> member.seen.size() == 5);
        });
    }

    /** Two members share by this assignor, then one leaves; together they see every record. */
    static void rebalance(Ctx ctx, Class<?> assignor) throws Exception {
        String topic = ctx.create(4), group = ctx.group();
        ctx.produce(topic, Rec.sample(200));
        String[] conf = {"partition.assignment.strategy", assignor.getName()};
        Member first = new Member(ctx, topic, group, conf);
        Member.settle(ctx, List.of(first), 4);
        Member second = new Member(ctx, topic, group, conf);
        Member.settle(ctx, List.of(first, second), 2, 2);
        first.close();
        Member.settle(ctx, List.of(second), 4);
        ctx.until("every record", () -> {
            Set<Integer> all = new HashSet<>(first.seen);
            all.addAll(second.seen);
            return all.size() == 200;
        });
    }
}
