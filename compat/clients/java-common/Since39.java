import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.UnknownTopicIdException;

/** What the clients from 3.9 on can do beyond 2.8. */
final class Since39 {
    private Since39() {}

    static void register(Cases cases, Modern api) {
        Since28.register(cases, api, Map.of(OffsetSpec.maxTimestamp(), 2L, OffsetSpec.earliestLocal(), 0L));
        Since28.extend(cases, "delete_topic", ctx -> {
            String topic = ctx.create(1);
            Uuid id = ctx.describe(topic).topicId();
            ctx.get(ctx.admin().deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all());
            ctx.until("the topic to go", () -> !ctx.get(ctx.admin().listTopics().names()).contains(topic));
            ctx.create(new NewTopic(topic, 1, (short) 1));
            Expect.failure(UnknownTopicIdException.class,
                () -> ctx.get(ctx.admin().deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all()));
        });
        Since28.extend(cases, "describe_log_dirs", ctx -> {
            int node = ctx.node();
            var folders = ctx.get(ctx.admin().describeLogDirs(List.of(node)).allDescriptions()).get(node);
            Expect.check(folders.values().iterator().next().totalBytes().orElse(0) > 0, "size of the disk");
        });
        cases.put("describe_producers", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            ctx.produce(where.topic(), Rec.sample(10), "enable.idempotence", "true");
            var asked = ctx.admin().describeProducers(List.of(where));
            var states = ctx.get(asked.partitionResult(where)).activeProducers();
            Expect.same(states.size(), 1, "producers");
            Expect.same(states.get(0).lastSequence(), 9, "last sequence");
        });
    }
}
