import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.errors.UnknownMemberIdException;

/** Administration of groups, and what a member is refused: from 2.8 on. */
final class GroupAdministration {
    private GroupAdministration() {}

    static void register(Cases cases, Modern api) {
        cases.put("list_and_describe_groups", ctx -> {
            String topic = ctx.create(2), group = ctx.group();
            Member member = new Member(ctx, topic, group, "client.id", "compat-client");
            Member.settle(ctx, List.of(member), 2);
            Expect.check(api.stableGroups(ctx).contains(group), "not listed");
            ConsumerGroupDescription found = describe(ctx, group);
            Expect.same(found.state().toString(), "Stable", "state");
            Expect.same(found.partitionAssignor(), "range", "assignor");
            Expect.same(found.coordinator().host() + ":" + found.coordinator().port(), ctx.bootstrap, "coordinator");
            MemberDescription one = found.members().iterator().next();
            Expect.same(one.clientId(), "compat-client", "client id");
            Expect.same(one.assignment().topicPartitions().size(), 2, "assignment");
            member.close();
            ctx.until("the group to be empty", () -> state(ctx, group).equals("Empty"));
        });
        cases.put("delete_group", ctx -> {
            String group = committed(ctx, new TopicPartition(ctx.create(1), 0), 3);
            ctx.get(ctx.admin().deleteConsumerGroups(List.of(group)).all());
            var left = ctx.get(ctx.admin().listConsumerGroups().all());
            Expect.check(left.stream().noneMatch(g -> g.groupId().equals(group)), "still listed");
        });
        cases.put("group_offsets", ctx -> {
            String topic = ctx.create(2);
            TopicPartition zero = new TopicPartition(topic, 0), one = new TopicPartition(topic, 1);
            String group = committed(ctx, zero, 3);
            Callable<Map<TopicPartition, Long>> offsets = () -> {
                Map<TopicPartition, Long> found = new HashMap<>();
                ctx.get(ctx.admin().listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata())
                    .forEach((p, o) -> found.put(p, o.offset()));
                return found;
            };
            Expect.same(offsets.call(), Map.of(zero, 3L), "offsets");
            ctx.get(ctx.admin().alterConsumerGroupOffsets(group,
                Map.of(zero, new OffsetAndMetadata(1), one, new OffsetAndMetadata(7))).all());
            Expect.same(offsets.call(), Map.of(zero, 1L, one, 7L), "altered offsets");
            ctx.get(ctx.admin().deleteConsumerGroupOffsets(group, Set.of(zero)).all());
            Expect.same(offsets.call(), Map.of(one, 7L), "offsets after one was deleted");
        });
        cases.put("static_membership", ctx -> {
            String topic = ctx.create(4), group = ctx.group();
            Member one = new Member(ctx, topic, group, "group.instance.id", "one");
            Member two = new Member(ctx, topic, group, "group.instance.id", "two");
            Member.settle(ctx, List.of(one, two), 2, 2);
            int changes = one.changes.get();
            Set<Integer> share = two.partitions;
            two.close();
            Member again = new Member(ctx, topic, group, "group.instance.id", "two");
            Member.settle(ctx, List.of(one, again), 2, 2);
            Expect.same(again.partitions, share, "the returning member's partitions");
            Expect.same(one.changes.get(), changes, "rebalances of the other member");
            one.close();
            again.close();
            // A static member stays when it closes; the administrator removes it.
            var removed = new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("two")));
            ctx.get(ctx.admin().removeMembersFromConsumerGroup(group, removed).all());
            Expect.same(describe(ctx, group).members().size(), 1, "members after one was removed");
        });
        cases.put("error_unknown_group", ctx -> {
            String group = ctx.group();
            Expect.failure(GroupIdNotFoundException.class,
                () -> ctx.get(ctx.admin().deleteConsumerGroups(List.of(group)).all()));
            api.checkUnknownGroup(ctx, group);
        });
        cases.put("error_group_not_empty", ctx -> {
            String topic = ctx.create(1), group = ctx.group();
            Member.settle(ctx, List.of(new Member(ctx, topic, group)), 1);
            Expect.failure(GroupNotEmptyException.class,
                () -> ctx.get(ctx.admin().deleteConsumerGroups(List.of(group)).all()));
            Expect.failure(GroupSubscribedToTopicException.class, () -> ctx.get(ctx.admin()
                .deleteConsumerGroupOffsets(group, Set.of(new TopicPartition(topic, 0))).all()));
        });
        cases.put("error_unknown_member", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            String group = ctx.group();
            Member.settle(ctx, List.of(new Member(ctx, where.topic(), group)), 1);
            // A commit from outside (no member id, no generation) while the group has members.
            Expect.failure(UnknownMemberIdException.class, () -> ctx.get(
                ctx.admin().alterConsumerGroupOffsets(group, Map.of(where, new OffsetAndMetadata(1))).all()));
        });
        cases.put("error_fenced_instance", ctx -> {
            String topic = ctx.create(1), group = ctx.group();
            Member first = new Member(ctx, topic, group, "group.instance.id", "same");
            Member.settle(ctx, List.of(first), 1);
            Member second = new Member(ctx, topic, group, "group.instance.id", "same");
            Member.settle(ctx, List.of(second), 1);
            ctx.until("the first to be fenced", () -> first.error != null);
            Expect.check(first.error instanceof FencedInstanceIdException, "ended by " + first.error);
        });
    }

    /** A group that has committed this offset and has no members. */
    private static String committed(Ctx ctx, TopicPartition where, long offset) {
        String group = ctx.group();
        try (var client = ctx.consumer(group)) {
            client.assign(List.of(where));
            client.commitSync(Map.of(where, new OffsetAndMetadata(offset)));
        }
        return group;
    }

    static ConsumerGroupDescription describe(Ctx ctx, String group) throws Exception {
        return ctx.get(ctx.admin().describeConsumerGroups(List.of(group)).all()).get(group);
    }

    static String state(Ctx ctx, String group) throws Exception { return describe(ctx, group).state().toString(); }
}
