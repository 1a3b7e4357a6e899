import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownServerException;

/** The Java client 1.1, of 2018; ../java-common has the cases. */
public final class Main extends Api {
    public static void main(String[] arguments) throws Exception {
        Cases cases = Cases.all();
        LegacyConfigs.register(cases);
        cases.remove("produce_zstd", "describe_log_dirs");
        Runner.main("java-kafka-clients-1.1", new Main(), cases, arguments);
    }

    @Override ConsumerRecords<byte[], byte[]> poll(Consumer<byte[], byte[]> client, long ms) { return client.poll(ms); }

    @Override void close(Consumer<?, ?> client) { client.close(3, TimeUnit.SECONDS); }

    @Override void close(Producer<?, ?> client) { client.close(3, TimeUnit.SECONDS); }

    @Override void close(AdminClient client) { client.close(3, TimeUnit.SECONDS); }

    @Override OffsetAndMetadata committed(Consumer<?, ?> client, TopicPartition where) {
        return client.committed(where);
    }

    @Override KafkaFuture<Map<String, TopicDescription>> describe(AdminClient client, String topic) {
        return client.describeTopics(List.of(topic)).all();
    }

    @Override Object topicId(TopicDescription topic) { return null; }

    @Override void alter(Ctx ctx, String topic, String name, String value) throws Exception {
        LegacyConfigs.set(ctx, topic, name, value);
    }

    /** It asks with a version of DescribeLogDirs that Apache Kafka 4 has no more. */
    @Override Map<TopicPartition, Long> sizes(Ctx ctx, int node) { return null; }

    /** It has no name for the error, which came later. */
    @Override Class<? extends Throwable> invalidRecord() { return UnknownServerException.class; }
}
