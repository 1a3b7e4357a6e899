import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InconsistentGroupProtocolException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Section "Errors shown well", as far as every version has it. */
final class Errors {
    private Errors() {}

    static void register(Cases cases) {
        cases.put("error_unknown_topic", ctx -> {
            String topic = ctx.topicName();
            Expect.failure(UnknownTopicOrPartitionException.class, () -> ctx.get(ctx.api.describe(ctx.admin(), topic)));
            Expect.failure(UnknownTopicOrPartitionException.class,
                () -> ctx.get(ctx.admin().deleteTopics(List.of(topic)).all()));
            Expect.failure(UnknownTopicOrPartitionException.class,
                () -> ctx.api.alter(ctx, topic, "retention.ms", "1"));
            Expect.check(!ctx.get(ctx.admin().listTopics().names()).contains(topic), "the topic was created");
        });
        cases.put("error_topic_exists", ctx -> {
            NewTopic again = new NewTopic(ctx.create(1), 1, (short) 1);
            Expect.failure(TopicExistsException.class, () -> ctx.create(again));
        });
        cases.put("error_invalid_topic_name", ctx -> {
            for (String name : List.of("not a name!", "x".repeat(250), "..")) {
                NewTopic topic = new NewTopic(name, 1, (short) 1);
                Expect.failure(InvalidTopicException.class, () -> ctx.create(topic));
            }
        });
        cases.put("error_invalid_partitions", ctx -> {
            NewTopic none = new NewTopic(ctx.topicName(), 0, (short) 1);
            Expect.failure(InvalidPartitionsException.class, () -> ctx.create(none));
            String topic = ctx.create(3);
            for (int count : List.of(2, 3)) {
                Expect.failure(InvalidPartitionsException.class, () -> ctx.get(
                    ctx.admin().createPartitions(Map.of(topic, NewPartitions.increaseTo(count))).all()));
            }
        });
        cases.put("error_invalid_replication", ctx -> {
            NewTopic topic = new NewTopic(ctx.topicName(), 1, (short) 3);
            Expect.failure(InvalidReplicationFactorException.class, () -> ctx.create(topic));
        });
        cases.put("error_bad_config_value", ctx -> {
            for (var bad : List.of(Map.of("retention.ms", "soon"), Map.of("no.such.config", "1"),
                    Map.of("cleanup.policy", "shred"))) {
                NewTopic topic = new NewTopic(ctx.topicName(), 1, (short) 1).configs(bad);
                String text = Expect.failure(InvalidConfigurationException.class, () -> ctx.create(topic)).getMessage();
                Expect.check(text.contains(bad.keySet().iterator().next()), "not named: " + text);
            }
            String topic = ctx.create(1);
            Expect.failure(InvalidConfigurationException.class,
                () -> ctx.api.alter(ctx, topic, "retention.ms", "soon"));
        });
        cases.put("error_message_too_large", ctx -> {
            String topic = ctx.create(1, "max.message.bytes", "2000");
            Expect.failure(RecordTooLargeException.class, () -> ctx.produce(topic, Rec.sample(1, 10_000)));
            ctx.produce(topic, Rec.sample(1, 1000));
        });
        cases.put("error_offset_out_of_range", ctx -> {
            TopicPartition where = new TopicPartition(ctx.create(1), 0);
            ctx.produce(where.topic(), Rec.sample(10));
            var client = ctx.consumer(null, "auto.offset.reset", "none");
            client.assign(List.of(where));
            client.seek(where, 1000);
            Expect.failure(OffsetOutOfRangeException.class, () -> ctx.take(client, 1));
        });
        cases.put("error_no_key_on_compacted", ctx -> {
            String topic = ctx.create(1, "cleanup.policy", "compact");
            Expect.failure(ctx.api.invalidRecord(), () -> ctx.produce(topic, List.of(Rec.of(null, "no key"))));
        });
        cases.put("error_timestamp_out_of_bounds", ctx -> {
            String topic = ctx.create(1, "message.timestamp.after.max.ms", "60000");
            long later = System.currentTimeMillis() + 3_600_000;
            Expect.failure(InvalidTimestampException.class,
                () -> ctx.producer().send(new ProducerRecord<>(topic, 0, later, null, new byte[] {1})).get());
        });
        cases.put("error_inconsistent_protocol", ctx -> {
            String topic = ctx.create(1), group = ctx.group();
            String strategy = "partition.assignment.strategy";
            Member.settle(ctx, List.of(new Member(ctx, topic, group, strategy, RangeAssignor.class.getName())), 1);
            Member other = new Member(ctx, topic, group, strategy, RoundRobinAssignor.class.getName());
            ctx.until("the refusal", () -> other.error != null);
            Expect.check(other.error instanceof InconsistentGroupProtocolException, "ended by " + other.error);
        });
        cases.put("transactions", ctx -> {
            String topic = ctx.create(1);
            var client = ctx.producer("transactional.id", ctx.unique("x"), "max.block.ms", "10000");
            try {
                client.initTransactions();
            } catch (org.apache.kafka.common.errors.TimeoutException error) {
                throw error;
            } catch (KafkaException error) {
                ctx.refused = error.getMessage();
                return;
            }
            for (int n = 0; n < 3; n++) {
                client.beginTransaction();
                client.send(new ProducerRecord<>(topic, new byte[] {(byte) n}));
                if (n == 1) client.abortTransaction();
                else client.commitTransaction();
            }
            var got = ctx.read(topic, 1, 2, "isolation.level", "read_committed");
            Expect.same(got.stream().map(r -> r.value()[0]).toList(), List.of((byte) 0, (byte) 2), "committed records");
        });
    }
}
