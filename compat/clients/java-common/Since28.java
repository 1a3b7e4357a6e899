import static org.apache.kafka.clients.admin.AlterConfigOp.OpType;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** What the clients from 2.8 on can do beyond 1.1; cases of the same name there go further here. */
final class Since28 {
    private Since28() {}

    /** `specs`: what else ListOffsets can be asked for, with the answer for the records of the case. */
    static void register(Cases cases, Modern api, Map<OffsetSpec, Long> specs) {
        GroupAdministration.register(cases, api);
        cases.put("rebalance_cooperative", ctx -> Groups.rebalance(ctx, CooperativeStickyAssignor.class));
        extend(cases, "commit_metadata", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            var client = ctx.consumer(ctx.group());
            client.assign(List.of(where));
            client.commitSync(Map.of(where, new OffsetAndMetadata(0, Optional.of(0), "")));
            Expect.same(api.committed(client, where).leaderEpoch(), Optional.of(0), "leader epoch");
        });
        extend(cases, "topic_compression", ctx -> {
            Map<String, Long> sizes = new HashMap<>();
            for (String codec : List.of("zstd", "uncompressed")) {
                TopicPartition where = new TopicPartition(ctx.create(1, "compression.type", codec), 0);
                ctx.produce(where.topic(), Rec.sample(100), "compression.type", "lz4", "linger.ms", "100");
                sizes.put(codec, api.sizes(ctx, ctx.node()).get(where));
            }
            Expect.check(sizes.get("zstd") < 0.8 * sizes.get("uncompressed"), "stored sizes: " + sizes);
        });
        extend(cases, "create_and_describe_topic", ctx -> {
            String topic = ctx.topicName();
            ctx.create(new NewTopic(topic, Optional.empty(), Optional.empty()));
            Expect.check(!ctx.describe(topic).partitions().isEmpty(), "no partitions by default");
        });
        extend(cases, "describe_configs", ctx -> {
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, ctx.create(1));
            ConfigEntry retention = ctx.get(ctx.admin().describeConfigs(List.of(resource), new DescribeConfigsOptions()
                .includeDocumentation(true)).all()).get(resource).get("retention.ms");
            Expect.same(retention.type(), ConfigEntry.ConfigType.LONG, "type");
            String text = retention.documentation();
            Expect.check(text != null && text.length() > 20, "no documentation");
        });
        extend(cases, "describe_log_dirs", ctx -> {
            int node = ctx.node();
            var folders = ctx.get(ctx.admin().describeLogDirs(List.of(node)).allDescriptions()).get(node);
            Expect.check(folders.values().stream().allMatch(f -> f.error() == null), "errors of folders");
        });
        cases.put("alter_configs", ctx -> {
            String topic = ctx.create(1, "retention.ms", "5000");
            api.alter(ctx, topic, "max.message.bytes", "2000");
            ctx.until("the value", () -> ctx.config(topic, "max.message.bytes").value().equals("2000"));
            Expect.same(ctx.config(topic, "retention.ms").value(), "5000", "the other value");
            api.alter(ctx, topic, "retention.ms", null);
            ctx.until("the default", () -> ctx.config(topic, "retention.ms").isDefault());
            Modern.alter(ctx, topic, "cleanup.policy", "compact", OpType.APPEND);
            ctx.until("append", () -> ctx.config(topic, "cleanup.policy").value().equals("delete,compact"));
            Modern.alter(ctx, topic, "cleanup.policy", "delete", OpType.SUBTRACT);
            ctx.until("subtract", () -> ctx.config(topic, "cleanup.policy").value().equals("compact"));
        });
        cases.put("list_offsets", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            var client = ctx.producer();
            long start = System.currentTimeMillis() - 600_000;
            for (long n : List.of(0L, 1L, 5L, 3L, 4L)) {
                client.send(new ProducerRecord<>(where.topic(), 0, start + n * 1000, null, new byte[] {1}));
            }
            client.flush();
            Map<OffsetSpec, Long> asked = new HashMap<>(specs);
            asked.put(OffsetSpec.earliest(), 0L);
            asked.put(OffsetSpec.latest(), 5L);
            asked.put(OffsetSpec.forTimestamp(start + 1500), 2L);
            asked.put(OffsetSpec.forTimestamp(start + 1_000_000), -1L);
            for (var entry : asked.entrySet()) {
                for (IsolationLevel isolation : IsolationLevel.values()) {
                    var found = ctx.get(ctx.admin().listOffsets(Map.of(where, entry.getKey()),
                        new ListOffsetsOptions(isolation)).partitionResult(where));
                    Expect.same(found.offset(), entry.getValue(), entry.getKey().getClass().getSimpleName());
                }
            }
        });
        cases.put("describe_features", ctx -> ctx.get(ctx.admin().describeFeatures().featureMetadata()));
        extend(cases, "error_unknown_topic", ctx -> {
            String topic = ctx.topicName();
            var client = ctx.consumer(null, "allow.auto.create.topics", "false");
            var partitions = client.partitionsFor(topic);
            Expect.check(partitions == null || partitions.isEmpty(), "partitions of an unknown topic");
            Expect.check(!ctx.get(ctx.admin().listTopics().names()).contains(topic), "the topic was created");
        });
    }

    /** Let the case of this name do this as well. */
    static void extend(Cases cases, String name, Cases.Body more) {
        Cases.Body before = cases.bodies.get(name);
        cases.put(name, ctx -> {
            before.run(ctx);
            more.run(ctx);
        });
    }
}
