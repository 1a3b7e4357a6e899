import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.ListConsumerGroupsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.ConsumerGroupState;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** The calls of the clients from 2.8 on; later versions replace what changed. */
abstract class Modern extends Api {
    static final Duration PATIENCE = Duration.ofSeconds(3);

    @Override ConsumerRecords<byte[], byte[]> poll(Consumer<byte[], byte[]> client, long ms) {
        return client.poll(Duration.ofMillis(ms));
    }

    @Override void close(Consumer<?, ?> client) { client.close(PATIENCE); }

    @Override void close(Producer<?, ?> client) { client.close(PATIENCE); }

    @Override void close(AdminClient client) { client.close(PATIENCE); }

    @Override OffsetAndMetadata committed(Consumer<?, ?> client, TopicPartition where) {
        return client.committed(Set.of(where)).get(where);
    }

    @Override Object topicId(TopicDescription topic) { return topic.topicId(); }

    @Override void alter(Ctx ctx, String topic, String name, String value) throws Exception {
        alter(ctx, topic, name, value, value == null ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET);
    }

    static void alter(Ctx ctx, String topic, String name, String value, AlterConfigOp.OpType operation)
            throws Exception {
        ctx.get(ctx.admin().incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic),
            List.of(new AlterConfigOp(new ConfigEntry(name, value), operation)))).all());
    }

    @Override Map<TopicPartition, Long> sizes(Ctx ctx, int node) throws Exception {
        Map<TopicPartition, Long> sizes = new HashMap<>();
        ctx.get(ctx.admin().describeLogDirs(List.of(node)).allDescriptions()).get(node).values().forEach(
            folder -> folder.replicaInfos().forEach((where, replica) -> sizes.merge(where, replica.size(), Long::sum)));
        return sizes;
    }

    @Override void checkCreated(
            Ctx ctx, CreateTopicsResult result, String topic, int partitions, Map<String, String> configs)
            throws Exception {
        Expect.same(ctx.get(result.numPartitions(topic)), partitions, "partitions in the response");
        for (var config : configs.entrySet()) {
            Expect.same(ctx.get(result.config(topic)).get(config.getKey()).value(), config.getValue(),
                config.getKey() + " in the response");
        }
        Expect.same(ctx.get(result.topicId(topic)), topicId(ctx.describe(topic)), "topic id in the response");
    }

    @Override Class<? extends Throwable> invalidRecord() { return InvalidRecordException.class; }

    /** The consumer groups that are in the state Stable. */
    Set<String> stableGroups(Ctx ctx) throws Exception {
        var options = new ListConsumerGroupsOptions().inStates(Set.of(ConsumerGroupState.STABLE));
        return ctx.get(ctx.admin().listConsumerGroups(options).all()).stream()
            .map(group -> group.groupId()).collect(Collectors.toSet());
    }

    /** Describe a group that is not there: until 3.9 the answer is the state Dead. */
    void checkUnknownGroup(Ctx ctx, String group) throws Exception {
        Expect.same(GroupAdministration.state(ctx, group), "Dead", "state of a group that is not there");
    }
}
