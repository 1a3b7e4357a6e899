import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactions of one record, one after another, with Kafka's own producer; prints figures as JSON.
 *
 * <p>Arguments: ADDRESS TOPIC WARM-UP DURATION (seconds). At the end a reader of committed records counts.
 */
public final class OneByOne {
    private static final long PATIENCE = 30_000_000_000L;

    private OneByOne() {}

    public static void main(String[] arguments) {
        String address = arguments[0];
        String topic = arguments[1];
        long warmup = Long.parseLong(arguments[2]) * 1_000_000_000L;
        long duration = Long.parseLong(arguments[3]) * 1_000_000_000L;
        long[] took = new long[1 << 20];
        int committed = 0;
        int measured = 0;
        double seconds;
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", address, "transactional.id", "bench-" + topic, "linger.ms", "0");
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            for (long end = System.nanoTime() + warmup; System.nanoTime() < end; committed++) {
                once(producer, topic);
            }
            long begin = System.nanoTime();
            long now = begin;
            while (now - begin < duration && measured < took.length) {
                once(producer, topic);
                long then = now;
                now = System.nanoTime();
                took[measured++] = now - then;
            }
            seconds = (now - begin) / 1e9;
        }
        count(address, topic, committed + measured);
        Arrays.sort(took, 0, measured);
        System.out.printf(
                "{\"transactions_per_second\": %.1f, \"latency_ms.p50\": %.3f, \"latency_ms.p99\": %.3f}%n",
                measured / seconds, took[measured / 2] / 1e6, took[(int) (measured * 0.99)] / 1e6);
    }

    private static void once(KafkaProducer<byte[], byte[]> producer, String topic) {
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(topic, 0, null, new byte[100]));
        producer.commitTransaction();
    }

    private static void count(String address, String topic, int wanted) {
        Map<String, Object> settings = Map.of("bootstrap.servers", address, "isolation.level", "read_committed");
        var partition = new TopicPartition(topic, 0);
        int seen = 0;
        try (var consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            for (long last = System.nanoTime(); seen < wanted && System.nanoTime() - last < PATIENCE; ) {
                int found = consumer.poll(Duration.ofSeconds(1)).count();
                seen += found;
                last = found > 0 ? System.nanoTime() : last;
            }
        }
        if (seen != wanted) {
            throw new IllegalStateException(seen + " of " + wanted + " committed records came");
        }
    }
}
