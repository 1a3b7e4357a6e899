import java.util.HashMap;
import java.util.Map;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;

/** Pulsar's producer with its defaults: batches of up to 1 ms. */
public final class PulsarBeside {
    public static void main(String[] arguments) {
        Beside.main(arguments, Pulsar::new);
    }

    private static final class Pulsar implements Beside.Sender {
        private final Map<String, Producer<byte[]>> producers = new HashMap<>();

        Pulsar(String address, String[] topics) throws Exception {
            PulsarClient client = PulsarClient.builder().serviceUrl(address).build();
            for (String topic : topics) {
                producers.put(topic, client.newProducer().topic(topic).create());
            }
        }

        @Override
        public void send(String topic, byte[] value, Beside.Done done) {
            producers.get(topic).sendAsync(value).whenComplete((id, error) -> done.with(error));
        }

        @Override
        public void flush() throws Exception {
            for (Producer<byte[]> producer : producers.values()) {
                producer.flush();
            }
        }
    }
}
