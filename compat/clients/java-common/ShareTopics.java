import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.SharePartitionOffsetInfo;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.InvalidConfigurationException;

/** Section "Share groups": where they begin, what becomes of their topics, configs and administration. */
final class ShareTopics {
    private static final long HOUR = 3_600_000;

    private ShareTopics() {}

    static void register(Cases cases) {
        cases.put("share_reset_earliest", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx, "share.auto.offset.reset", "earliest");
            ctx.produce(topic, Rec.sample(10));
            Expect.same(Rec.offsets(new Sharer(ctx, group, topic).take(10)), Rec.range(0, 10), "offsets");
        });
        cases.put("share_reset_latest", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx, "share.auto.offset.reset", "latest");
            ctx.produce(topic, Rec.sample(10));
            Sharer member = new Sharer(ctx, group, topic);
            List<Long> offsets = new ArrayList<>();
            ctx.until("records", () -> {  // it joins at some moment: what is produced before is not for it
                ctx.produce(topic, List.of(Rec.of(null, "later")));
                var found = member.poll();
                offsets.addAll(Rec.offsets(found));
                if (!found.isEmpty()) member.acknowledge(found, AcknowledgeType.ACCEPT);
                return !offsets.isEmpty();
            });
            Expect.check(offsets.get(0) >= 10, "offsets " + offsets);
        });
        cases.put("share_reset_by_duration", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx, "share.auto.offset.reset", "by_duration:PT1H");
            long now = System.currentTimeMillis();
            for (long age : List.of(3 * HOUR, 2 * HOUR, HOUR / 2, 0L)) {
                ctx.producer().send(new ProducerRecord<>(topic, 0, now - age, null, "value".getBytes(UTF_8))).get();
            }
            Expect.same(Rec.offsets(new Sharer(ctx, group, topic).take(2)), List.of(2L, 3L),
                "offsets of the last hour");
        });
        cases.put("share_read_committed", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx, "share.isolation.level", "read_committed");
            ctx.produce(topic, Rec.sample(10));
            Sharer member = new Sharer(ctx, group, topic);
            Expect.same(Rec.offsets(member.take(10)), Rec.range(0, 10), "offsets");
            member.nothingElse(topic);
        });
        cases.put("share_topic_made_later", ctx -> {
            String topic = ctx.topicName(), group = Sharer.group(ctx);
            Sharer member = new Sharer(ctx, group, topic, "metadata.max.age.ms", "500");
            for (int n = 0; n < 5; n++) Expect.same(member.poll().size(), 0, "records");
            // The client may have made it by asking for it: there is no allow.auto.create.topics here.
            try {
                ctx.create(new NewTopic(topic, 1, (short) 1));
            } catch (ExecutionException exists) {
                // it has
            }
            ctx.describe(topic);
            ctx.produce(topic, 0, Rec.sample(10));
            Expect.same(Rec.offsets(member.take(10)), Rec.range(0, 10), "offsets");
        });
        cases.put("share_topic_recreated", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            ctx.produce(topic, Rec.sample(10));
            Sharer member = new Sharer(ctx, group, topic, "metadata.max.age.ms", "500");
            member.take(10);
            Object old = ctx.describe(topic).topicId();
            ctx.get(ctx.admin().deleteTopics(List.of(topic)).all());
            ctx.until("another topic of this name", () -> {
                try {
                    ctx.create(new NewTopic(topic, 1, (short) 1));
                } catch (ExecutionException exists) {
                    // the old one still, or the member's client has made it again by asking for it
                }
                return !ctx.describe(topic).topicId().equals(old);
            });
            ctx.produce(topic, Rec.sample(3));
            Expect.same(Rec.offsets(member.take(3)), Rec.range(0, 3), "offsets in the new topic");
            member.nothingElse(topic);
        });
        cases.put("share_partitions_added", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            ctx.produce(topic, Rec.sample(5));
            Sharer member = new Sharer(ctx, group, topic, "metadata.max.age.ms", "500");
            member.take(5);
            ctx.get(ctx.admin().createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all());
            ctx.until("three partitions", () -> ctx.describe(topic).partitions().size() == 3);
            ctx.produce(topic, 2, Rec.sample(5));
            for (var one : member.take(5)) Expect.same(one.partition(), 2, "partition");
        });
        cases.put("share_group_configs", ctx -> {
            String group = ctx.group();
            Map<String, String> defaults = Ctx.pairs("share.auto.offset.reset", "latest",
                "share.isolation.level", "read_uncommitted", "share.record.lock.duration.ms", "30000",
                "share.delivery.count.limit", "5", "share.partition.max.record.locks", "2000",
                "share.session.timeout.ms", "45000", "share.renew.acknowledge.enable", "true");
            var found = ctx.config(ConfigResource.Type.GROUP, group);
            for (var one : defaults.entrySet()) {
                Expect.same(found.get(one.getKey()).value(), one.getValue(), one.getKey());
            }
            Sharer.configure(ctx, group,
                Ctx.pairs("share.delivery.count.limit", "7", "share.isolation.level", "read_committed"));
            Map<String, String> back = new HashMap<>();
            back.put("share.delivery.count.limit", null);
            Sharer.configure(ctx, group, back);
            found = ctx.config(ConfigResource.Type.GROUP, group);
            Expect.same(found.get("share.delivery.count.limit").value(), "5", "the default");
            Expect.same(found.get("share.isolation.level").value(), "read_committed", "the other config");
            Expect.check(!found.get("share.isolation.level").isDefault(), "a set value is called a default");
        });
        cases.put("share_error_bad_config", ctx -> {
            String group = ctx.group();
            Map<String, String> bad = Ctx.pairs("share.auto.offset.reset", "sometimes",
                "share.record.lock.duration.ms", "soon", "share.isolation.level", "read_everything",
                "share.delivery.count.limit", "-1", "share.no.such.config", "1");
            for (var one : bad.entrySet()) {
                var error = Expect.failure(InvalidConfigurationException.class,
                    () -> Sharer.alter(ctx, group, Map.of(one.getKey(), one.getValue())));
                Expect.check(error.getMessage().contains(one.getKey()), one + ": " + error.getMessage());
            }
        });
        cases.put("share_describe_and_list", ctx -> {
            String topic = ctx.create(2), group = Sharer.group(ctx);
            ctx.produce(topic, 0, Rec.sample(2));
            Sharer first = new Sharer(ctx, group, topic, "client.id", "one");
            first.take(2);
            Sharer second = new Sharer(ctx, group, topic, "client.id", "two");
            ctx.until("two members that have the partitions", () -> {
                first.poll();
                second.poll();
                var found = describe(ctx, group);
                Set<TopicPartition> given = new HashSet<>();
                for (var one : found.members()) given.addAll(one.assignment().topicPartitions());
                return found.groupState() == GroupState.STABLE && found.members().size() == 2
                    && given.equals(Set.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1)));
            });
            Set<String> clients = new HashSet<>();
            for (var one : describe(ctx, group).members()) {
                clients.add(one.clientId());
                Expect.check(one.memberEpoch() > 0 && one.host().startsWith("/127.0.0.1"), "member " + one);
            }
            Expect.same(clients, Set.of("one", "two"), "client ids");
            Expect.check(listed(ctx, group, GroupState.STABLE), "not listed as Stable");
            Expect.check(!listed(ctx, group, GroupState.EMPTY), "listed as Empty");
            first.close();
            second.close();
            ctx.until("the group to be empty", () -> describe(ctx, group).groupState() == GroupState.EMPTY);
            Expect.check(listed(ctx, group, GroupState.EMPTY), "not listed as Empty");
            Expect.failure(GroupIdNotFoundException.class, () -> describe(ctx, ctx.group()));
        });
        cases.put("share_group_offsets", ctx -> {
            String topic = ctx.create(2), group = Sharer.group(ctx);
            TopicPartition zero = new TopicPartition(topic, 0), one = new TopicPartition(topic, 1);
            ctx.produce(topic, 0, Rec.sample(10));
            Sharer member = new Sharer(ctx, group, topic);
            member.take(10);
            ctx.produce(topic, 0, Rec.sample(5));
            ctx.until("the lag", () -> offsets(ctx, group).get(zero) != null  // Kafka's start offset comes later
                && offsets(ctx, group).get(zero).lag().orElse(-1L) == 5);
            Expect.failure(GroupNotEmptyException.class,
                () -> ctx.get(ctx.admin().alterShareGroupOffsets(group, Map.of(zero, 3L)).all()));
            member.close();
            ctx.until("the group to be empty", () -> describe(ctx, group).groupState() == GroupState.EMPTY);
            ctx.get(ctx.admin().alterShareGroupOffsets(group, Map.of(zero, 3L, one, 0L)).all());
            Expect.same(offsets(ctx, group).get(zero).startOffset(), 3L, "altered offset");
            Sharer again = new Sharer(ctx, group, topic);
            Expect.same(Rec.offsets(again.take(12)), Rec.range(3, 15), "offsets from there");
            again.close();
            ctx.until("the group to be empty", () -> describe(ctx, group).groupState() == GroupState.EMPTY);
            ctx.get(ctx.admin().deleteShareGroupOffsets(group, Set.of(topic)).all());
            ctx.until("the offsets to go", 
                () -> offsets(ctx, group).values().stream().allMatch(java.util.Objects::isNull));
            Expect.same(Rec.offsets(new Sharer(ctx, group, topic).take(15)), Rec.range(0, 15), "from the beginning");
        });
        cases.put("share_delete_group", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            ctx.produce(topic, Rec.sample(3));
            Sharer member = new Sharer(ctx, group, topic);
            member.take(3);
            Expect.failure(GroupNotEmptyException.class,
                () -> ctx.get(ctx.admin().deleteShareGroups(List.of(group)).all()));
            member.close();
            ctx.until("the group to be empty", () -> describe(ctx, group).groupState() == GroupState.EMPTY);
            ctx.get(ctx.admin().deleteShareGroups(List.of(group)).all());
            Expect.failure(GroupIdNotFoundException.class, () -> describe(ctx, group));
            Expect.failure(GroupIdNotFoundException.class,
                () -> ctx.get(ctx.admin().deleteShareGroups(List.of(ctx.group())).all()));
            Expect.same(Rec.offsets(new Sharer(ctx, group, topic).take(3)), Rec.range(0, 3), "from the beginning");
        });
    }

    static ShareGroupDescription describe(Ctx ctx, String group) throws Exception {
        return ctx.get(ctx.admin().describeShareGroups(List.of(group)).all()).get(group);
    }

    private static Map<TopicPartition, SharePartitionOffsetInfo> offsets(Ctx ctx, String group) throws Exception {
        return ctx.get(ctx.admin().listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec()))
            .partitionsToOffsetInfo(group));
    }

    private static boolean listed(Ctx ctx, String group, GroupState state) throws Exception {
        var options = ListGroupsOptions.forShareGroups().inGroupStates(Set.of(state));
        return ctx.get(ctx.admin().listGroups(options).all()).stream().anyMatch(one -> one.groupId().equals(group)
            && one.type().equals(java.util.Optional.of(GroupType.SHARE))
            && one.groupState().equals(java.util.Optional.of(state)));
    }
}
