import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Kafka's producer, which waits for no more records (linger 0). Its other settings are its defaults. */
public final class KafkaBeside {
    public static void main(String[] arguments) {
        Beside.main(arguments, (address, topics) -> new Kafka(address));
    }

    private static final class Kafka implements Beside.Sender {
        private final KafkaProducer<byte[], byte[]> producer;

        Kafka(String address) {
            producer = new KafkaProducer<>(
                    Map.of("bootstrap.servers", address, "linger.ms", "0"),
                    new ByteArraySerializer(),
                    new ByteArraySerializer());
        }

        @Override
        public void send(String topic, byte[] value, Beside.Done done) {
            producer.send(new ProducerRecord<>(topic, value), (metadata, error) -> done.with(error));
        }

        @Override
        public void flush() {
            producer.flush();
        }
    }
}
