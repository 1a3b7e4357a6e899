import java.util.Map;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;

/** What the cases need and versions of the client call differently. */
abstract class Api {
    abstract ConsumerRecords<byte[], byte[]> poll(Consumer<byte[], byte[]> client, long ms);

    abstract void close(Consumer<?, ?> client);

    abstract void close(Producer<?, ?> client);

    abstract void close(AdminClient client);

    /** Null where nothing was committed. */
    abstract OffsetAndMetadata committed(Consumer<?, ?> client, TopicPartition where);

    abstract KafkaFuture<Map<String, TopicDescription>> describe(AdminClient client, String topic);

    /** Null where the client knows of no ids. */
    abstract Object topicId(TopicDescription topic);

    /** Set one config of a topic; value null takes it back to its default. */
    abstract void alter(Ctx ctx, String topic, String name, String value) throws Exception;

    /** The sizes that DescribeLogDirs tells, replica by replica, of all folders that have it; null without the call. */
    abstract Map<TopicPartition, Long> sizes(Ctx ctx, int node) throws Exception;

    /** What the answer to CreateTopics tells of a topic, where the client reads it. */
    void checkCreated(Ctx ctx, CreateTopicsResult result, String topic, int partitions, Map<String, String> configs)
        throws Exception {}

    /** The error of a keyless record on a compacted topic. */
    abstract Class<? extends Throwable> invalidRecord();
}
