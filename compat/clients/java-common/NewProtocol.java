import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;

/** Section "The new consumer protocol" (KIP-848): group.protocol=consumer, from 4.0 on. */
final class NewProtocol {
    private NewProtocol() {}

    static Member member(Ctx ctx, String topic, String group, String... conf) {
        String[] all = new String[conf.length + 2];
        all[0] = "group.protocol";
        all[1] = "consumer";
        System.arraycopy(conf, 0, all, 2, conf.length);
        return new Member(ctx, topic, group, all);
    }

    static void register(Cases cases) {
        cases.put("protocol_sharing", ctx -> {
            String topic = ctx.create(4), group = ctx.group();
            ctx.produce(topic, Rec.sample(200));
            String[] commits = {"enable.auto.commit", "true", "auto.commit.interval.ms", "100"};
            Member first = member(ctx, topic, group, commits);
            Member.settle(ctx, List.of(first), 4);
            Member second = member(ctx, topic, group, commits);
            Member.settle(ctx, List.of(first, second), 2, 2);
            ctx.until("every record, and the offsets behind them", () -> {
                Set<Integer> all = new HashSet<>(first.seen);
                all.addAll(second.seen);
                var committed = ctx.get(ctx.admin().listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
                return all.size() == 200 && committed.values().stream().mapToLong(OffsetAndMetadata::offset).sum() == 200;
            });
            first.close();
            Member.settle(ctx, List.of(second), 4);
        });
        cases.put("protocol_static", ctx -> {
            String topic = ctx.create(4), group = ctx.group();
            Member one = member(ctx, topic, group, "group.instance.id", "one");
            Member two = member(ctx, topic, group, "group.instance.id", "two");
            Member.settle(ctx, List.of(one, two), 2, 2);
            int changes = one.changes.get();
            Set<Integer> share = two.partitions;
            two.close();
            Member again = member(ctx, topic, group, "group.instance.id", "two");
            Member.settle(ctx, List.of(one, again), 2, 2);
            Expect.same(again.partitions, share, "the returning member's partitions");
            Expect.same(one.changes.get(), changes, "rebalances of the other member");
        });
        cases.put("protocol_stops_polling", ctx -> {
            String topic = ctx.create(2), group = ctx.group();
            Member lazy = member(ctx, topic, group, "max.poll.interval.ms", "6000");
            Member.settle(ctx, List.of(lazy), 2);
            lazy.stop();
            Member eager = member(ctx, topic, group);
            Member.settle(ctx, List.of(eager), 2);
        });
        cases.put("protocol_new_partitions", ctx -> {
            String topic = ctx.create(1);
            Member only = member(ctx, topic, ctx.group(), "metadata.max.age.ms", "500");
            Member.settle(ctx, List.of(only), 1);
            ctx.get(ctx.admin().createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all());
            Member.settle(ctx, List.of(only), 3);
        });
        cases.put("protocol_pattern", ctx -> {
            String prefix = ctx.group();
            var client = ctx.consumer(ctx.group(), "group.protocol", "consumer");
            client.subscribe(new SubscriptionPattern(prefix + "-.*"));
            for (String name : List.of(prefix + "-1", prefix + "-2")) {
                ctx.create(new NewTopic(name, 1, (short) 1));
                ctx.produce(name, Rec.sample(10));
                Expect.check(ctx.take(client, 10).stream().allMatch(each -> each.topic().equals(name)), "another topic");
            }
        });
        cases.put("protocol_described", ctx -> {
            String topic = ctx.create(3), group = ctx.group();
            Member only = member(ctx, topic, group, "client.id", "reader", "group.remote.assignor", "range");
            Member.settle(ctx, List.of(only), 3);
            var options = new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER));
            var listed = ctx.get(ctx.admin().listGroups(options).all()).stream()
                .filter(each -> each.groupId().equals(group)).toList();
            Expect.same(listed.size(), 1, "groups of that name");
            Expect.same(listed.get(0).groupState().orElseThrow(), GroupState.STABLE, "state");
            var described = ctx.get(ctx.admin().describeConsumerGroups(List.of(group)).all()).get(group);
            Expect.same(described.type(), GroupType.CONSUMER, "type");
            Expect.same(described.partitionAssignor(), "range", "assignor");
            var one = described.members().iterator().next();
            Expect.same(one.clientId(), "reader", "client id");
            Expect.same(one.assignment().topicPartitions().size(), 3, "what it has");
            Expect.same(one.targetAssignment().orElseThrow().topicPartitions().size(), 3, "what it should have");
        });
        cases.put("protocol_in_turns", ctx -> {
            String topic = ctx.create(1), group = ctx.group();
            ctx.produce(topic, Rec.sample(90));
            int begin = 0;
            for (String protocol : List.of("classic", "consumer", "classic")) {
                var client = ctx.consumer(group, "group.protocol", protocol, "max.poll.records", "30");
                client.subscribe(List.of(topic));
                Expect.same(Rec.offsets(ctx.take(client, 30)), Rec.range(begin, begin + 30), "offsets");
                begin += 30;
                client.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(begin)));
                ctx.api.close(client);
            }
        });
        cases.put("restart_protocol", ctx -> {
            String topic = ctx.create(4), group = ctx.group();
            Member one = member(ctx, topic, group, "reconnect.backoff.max.ms", "500");
            Member two = member(ctx, topic, group, "reconnect.backoff.max.ms", "500");
            Member.settle(ctx, List.of(one, two), 2, 2);
            int changes = one.changes.get() + two.changes.get();
            ctx.restart();
            ctx.produce(topic, Rec.sample(50));
            ctx.until("the records after the restart", () -> one.seen.size() + two.seen.size() == 50);
            Expect.same(one.changes.get() + two.changes.get(), changes, "rebalances");
        });
    }
}
