import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** The program of docs/QUEUE-CLIENTS.md. */
final class QueueWorker {
    private QueueWorker() {}

    // page: begin
    interface Handler { void handle(ConsumerRecord<byte[], byte[]> record) throws Exception; }

    /** Neighbours of one fate. 80 are sure to fit into the 4,096 characters of a commit's metadata. */
    record Span(String verb, long first, long last) {}

    /** Work on what a poll gave, then say in one commit what became of it. */
    static void work(Consumer<byte[], byte[]> consumer, ConsumerRecords<byte[], byte[]> records, Handler handler) {
        Map<TopicPartition, OffsetAndMetadata> commits = new HashMap<>();
        try {
            for (TopicPartition lane : records.partitions()) {
                var spans = new ArrayDeque<Span>();
                long end = 0;
                for (var record : records.records(lane)) {
                    end = record.offset() + 1;
                    try {
                        handler.handle(record);
                    } catch (IllegalArgumentException hopeless) {
                        name(spans, "d", record.offset());  // a dead letter now
                    } catch (Exception failed) {
                        name(spans, "n:1000", record.offset());  // again in a second
                    }
                    if (spans.size() == 80) {
                        consumer.seek(lane, end);  // the rest comes with the next poll
                        break;
                    }
                }
                String names = "";
                for (Span one : spans) names += ";" + one.verb + "=" + one.first + "-" + one.last;
                commits.put(lane, new OffsetAndMetadata(end, names.isEmpty() ? "" : "ack1" + names));
            }
            if (!commits.isEmpty()) consumer.commitSync(commits);  // enable.auto.commit=false
        } catch (KafkaException failed) {  // nothing was said: the next commit must not acknowledge it
            for (TopicPartition lane : records.partitions())
                if (consumer.assignment().contains(lane)) consumer.seek(lane, records.records(lane).get(0).offset());
            throw failed;
        }
    }

    private static void name(Deque<Span> spans, String verb, long offset) {
        Span last = spans.peekLast();
        boolean next = last != null && last.verb.equals(verb) && last.last == offset - 1;
        if (next) spans.removeLast();
        spans.add(new Span(verb, next ? last.first : offset, offset));
    }
    // page: end
}
