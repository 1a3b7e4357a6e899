import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** The program of docs/QUEUE-CLIENTS.md. */
final class QueueWorker {
    private QueueWorker() {}

    // page: begin
    interface Handler { void handle(ConsumerRecord<byte[], byte[]> record) throws Exception; }

    /** Work on what a poll gave, then say in one commit what became of it. */
    static void work(Consumer<byte[], byte[]> consumer, ConsumerRecords<byte[], byte[]> records, Handler handler) {
        Map<TopicPartition, OffsetAndMetadata> commits = new HashMap<>();
        for (TopicPartition lane : records.partitions()) {
            StringBuilder names = new StringBuilder();
            long end = 0;
            for (var record : records.records(lane)) {
                end = record.offset() + 1;
                try {
                    handler.handle(record);
                } catch (IllegalArgumentException hopeless) {
                    names.append(";d=").append(record.offset());  // a dead letter now
                } catch (Exception failed) {
                    names.append(";n:1000=").append(record.offset());  // again in a second
                }
            }
            commits.put(lane, new OffsetAndMetadata(end, names.isEmpty() ? "" : "ack1" + names));
        }
        if (!commits.isEmpty()) consumer.commitSync(commits);  // enable.auto.commit=false
    }
    // page: end
}
