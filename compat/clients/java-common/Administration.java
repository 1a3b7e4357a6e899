import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** Section "Administration", as far as every version has it. */
final class Administration {
    private Administration() {}

    static void register(Cases cases) {
        cases.put("create_and_describe_topic", ctx -> {
            String topic = ctx.topicName();
            Map<String, String> configs = Map.of("cleanup.policy", "compact");
            var result = ctx.admin().createTopics(List.of(new NewTopic(topic, 5, (short) 1).configs(configs)));
            ctx.get(result.all());
            ctx.api.checkCreated(ctx, result, topic, 5, configs);
            TopicDescription found = ctx.describe(topic);
            Expect.same(found.partitions().size(), 5, "partitions");
            Expect.check(found.partitions().stream().allMatch(p -> p.isr().size() == 1), "replicas in sync");
            Expect.check(ctx.get(ctx.admin().listTopics().names()).contains(topic), "not listed");
            String assigned = ctx.topicName();
            int node = found.partitions().get(0).leader().id();
            ctx.create(new NewTopic(assigned, Map.of(0, List.of(node), 1, List.of(node))));
            Expect.same(ctx.describe(assigned).partitions().size(), 2, "partitions by assignment");
        });
        cases.put("validate_only", ctx -> {
            String topic = ctx.topicName();
            ctx.get(ctx.admin().createTopics(List.of(new NewTopic(topic, 2, (short) 1)),
                new CreateTopicsOptions().validateOnly(true)).all());
            Expect.check(!ctx.get(ctx.admin().listTopics().names()).contains(topic), "the topic was created");
        });
        cases.put("delete_topic", ctx -> {
            String topic = ctx.create(1);
            ctx.produce(topic, Rec.sample(10));
            Object id = ctx.api.topicId(ctx.describe(topic));
            ctx.get(ctx.admin().deleteTopics(List.of(topic)).all());
            ctx.until("the topic to go", () -> !ctx.get(ctx.admin().listTopics().names()).contains(topic));
            ctx.create(new NewTopic(topic, 1, (short) 1));
            Object other = ctx.api.topicId(ctx.describe(topic));
            Expect.check(id == null || !id.equals(other), "the new topic has the old id");
            ctx.produce(topic, Rec.sample(3));
            Expect.same(Rec.offsets(ctx.read(topic, 1, 3)), Rec.range(0, 3), "offsets of the new topic");
        });
        cases.put("create_partitions", ctx -> {
            String topic = ctx.create(1);
            ctx.get(ctx.admin().createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all());
            ctx.until("four partitions", () -> ctx.describe(topic).partitions().size() == 4);
            ctx.produce(topic, 3, Rec.sample(10));
            Expect.same(ctx.read(topic, 4, 10).size(), 10, "records");
        });
        cases.put("describe_configs", ctx -> {
            String topic = ctx.create(1, "retention.ms", "5000");
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            Config found = ctx.get(ctx.admin().describeConfigs(List.of(resource), new DescribeConfigsOptions()
                .includeSynonyms(true)).all()).get(resource);
            ConfigEntry retention = found.get("retention.ms");
            Expect.same(retention.value(), "5000", "retention.ms");
            Expect.same(retention.source().name(), "DYNAMIC_TOPIC_CONFIG", "source");
            Expect.same(retention.synonyms().get(0).name(), "retention.ms", "first synonym");
            Expect.check(found.get("cleanup.policy").isDefault(), "a default is called set");
            for (String name : List.of("max.message.bytes", "segment.bytes", "compression.type", "min.insync.replicas",
                    "retention.bytes", "message.timestamp.type", "cleanup.policy")) {
                Expect.check(found.get(name) != null, name + " is missing");
            }
            Config broker = ctx.config(ConfigResource.Type.BROKER, Integer.toString(ctx.node()));
            for (String name : List.of("num.partitions", "message.max.bytes", "auto.create.topics.enable")) {
                Expect.check(broker.get(name) != null, "broker config " + name + " is missing");
            }
        });
        cases.put("delete_records", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            ctx.produce(where.topic(), Rec.sample(100), "batch.size", "1000");
            var result = ctx.admin().deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(35)));
            Expect.same(ctx.get(result.lowWatermarks().get(where)).lowWatermark(), 35L, "low watermark");
            Expect.same(ctx.read(where.topic(), 1, 65).get(0).offset(), 35L, "first offset");
            Expect.failure(org.apache.kafka.common.errors.OffsetOutOfRangeException.class,
                () -> ctx.get(ctx.admin().deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(101))).all()));
            result = ctx.admin().deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(-1)));
            Expect.same(ctx.get(result.lowWatermarks().get(where)).lowWatermark(), 100L, "low watermark when emptied");
        });
        cases.put("describe_cluster", ctx -> {
            var found = ctx.admin().describeCluster();
            Expect.check(!ctx.get(found.clusterId()).isEmpty(), "no cluster id");
            Node node = ctx.get(found.nodes()).iterator().next();
            Expect.same(node.host() + ":" + node.port(), ctx.bootstrap, "advertised address");
            Expect.same(ctx.get(found.controller()).id(), node.id(), "controller");
        });
        cases.put("describe_log_dirs", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            ctx.produce(where.topic(), Rec.sample(10));
            Expect.check(ctx.api.sizes(ctx, ctx.node()).get(where) > 500, "size of the partition");
        });
    }
}
