import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TypedMessageBuilder;

/** The topic of a load: made with its subscription, filled, subscribed to. */
final class Topic {
    private Topic() {}

    static PulsarClient client(Options o) throws Exception {
        return PulsarClient.builder().serviceUrl(o.broker).build();
    }

    /** The topic, and the subscription at its start: without one Pulsar keeps nothing. */
    static void make(Options o) throws Exception {
        try (PulsarAdmin admin = PulsarAdmin.builder().serviceHttpUrl(o.admin).build()) {
            if (o.partitions > 1) {
                admin.topics().createPartitionedTopic(o.topic, o.partitions);
            } else {
                admin.topics().createNonPartitionedTopic(o.topic);
            }
            admin.topics().createSubscription(o.topic, o.subscription, MessageId.earliest);
        }
    }

    static ConsumerBuilder<byte[]> consumer(Options o, PulsarClient client) {
        return client.newConsumer()
                .topic(o.topic)
                .subscriptionName(o.subscription)
                .subscriptionType(o.ordered ? SubscriptionType.Key_Shared : SubscriptionType.Shared);
    }

    static ProducerBuilder<byte[]> producer(Options o, PulsarClient client) {
        ProducerBuilder<byte[]> builder = client.newProducer().topic(o.topic).blockIfQueueFull(true);
        // what Pulsar's documentation asks for with Key_Shared: else a batch goes by the key of its first message
        return o.ordered ? builder.batcherBuilder(BatcherBuilder.KEY_BASED) : builder;
    }

    /** The preparation alone, for what other programs measure. */
    static Map<String, Object> filled(Options o) throws Exception {
        make(o);
        return Map.of("fill_seconds", fill(o));
    }

    /** Writes the messages; number i is in the first eight bytes of its value. Returns seconds. */
    static double fill(Options o) throws Exception {
        long begin = System.nanoTime();
        AtomicReference<Throwable> failed = new AtomicReference<>();
        try (PulsarClient client = client(o); Producer<byte[]> producer = producer(o, client).create()) {
            for (int i = 0; i < o.records && failed.get() == null; i++) {
                TypedMessageBuilder<byte[]> message = producer.newMessage().value(value(o, i));
                if (o.keys > 0) {
                    // a stride that is prime to the number of keys: neighbours have different keys
                    message.key("key-" + i * 7919L % o.keys);
                }
                message.sendAsync().exceptionally(error -> {
                    failed.compareAndSet(null, error);
                    return null;
                });
            }
            producer.flush();
        }
        if (failed.get() != null) {
            throw new IllegalStateException("a message was not taken", failed.get());
        }
        return (System.nanoTime() - begin) / 1e9;
    }

    static byte[] value(Options o, int number) {
        byte[] value = new byte[Math.max(o.size, 8)];
        ByteBuffer.wrap(value).putLong(number);
        for (int i = 8; i < value.length; i++) {
            value[i] = (byte) (i * 7919 % 251);
        }
        return value;
    }

    static int number(Message<byte[]> message) {
        return (int) ByteBuffer.wrap(message.getValue()).getLong();
    }
}
