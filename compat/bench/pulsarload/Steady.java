import java.time.Instant;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.TypedMessageBuilder;

/**
 * One producer publishes at the rate, one member takes the time of each delivery after the warm-up: from just before
 * the message is handed to the producer, or from its due time, until receive returns with it.
 */
final class Steady {
    private final Options o;
    private final boolean delayed;
    private final int skip;
    private final int total;
    // of each message, microseconds since 1970: when it was published, or is due
    private final long[] due;
    private final AtomicReference<Throwable> failed = new AtomicReference<>();

    Steady(Options o, boolean delayed) {
        this.o = o;
        this.delayed = delayed;
        skip = (int) (o.warmup.toSeconds() * o.rate);
        total = skip + (int) (o.duration.toSeconds() * o.rate);
        due = new long[total];
    }

    Map<String, Object> run() throws Exception {
        Topic.make(o);
        Consumer<byte[]> member = Topic.consumer(o, Topic.client(o)).subscribe();
        PulsarClient publishing = Topic.client(o);
        Producer<byte[]> producer = Topic.producer(o, publishing).create();
        Thread publisher = new Thread(() -> publish(producer));
        publisher.setDaemon(true);
        publisher.start();

        double[] samples = new double[total - skip];
        boolean[] seen = new boolean[total];
        int taken = 0;
        int early = 0;
        long deadline = System.nanoTime() + o.warmup.plus(o.duration).plus(o.limit).toNanos();
        for (int left = total; left > 0; ) {
            Message<byte[]> message = member.receive(1, TimeUnit.SECONDS);
            long now = micros();
            if (failed.get() != null) {
                throw new IllegalStateException("publishing failed", failed.get());
            }
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(left + " of " + total + " messages had not come in time");
            }
            if (message == null) {
                continue;
            }
            member.acknowledgeAsync(message);
            int number = Topic.number(message);
            if (seen[number]) {
                throw new IllegalStateException("message " + number + " came twice");
            }
            seen[number] = true;
            left--;
            double late = (now - due[number]) / 1e3;
            if (late < 0) {
                early++;
            }
            if (number >= skip) {
                samples[taken++] = late;
            }
        }
        Map<String, Object> figures = new LinkedHashMap<>();
        figures.put("latency_ms", percentiles(samples));
        figures.put("early", early);
        figures.put("early_percent", 100.0 * early / total);
        figures.put("records", taken);
        return figures;
    }

    private void publish(Producer<byte[]> producer) {
        try {
            long start = System.nanoTime();
            for (int i = 0; i < total; i++) {
                for (long wait; (wait = start + i * 1_000_000_000L / o.rate - System.nanoTime()) > 0; ) {
                    LockSupport.parkNanos(wait);
                }
                TypedMessageBuilder<byte[]> message = producer.newMessage().value(Topic.value(o, i));
                long now = micros();
                if (delayed) {
                    long at = now / 1000 + 500 + i * 7919L % 2000;
                    message.deliverAt(at);
                    now = at * 1000;
                }
                due[i] = now;
                message.sendAsync().exceptionally(error -> {
                    failed.compareAndSet(null, error);
                    return null;
                });
            }
        } catch (Throwable failure) {
            failed.compareAndSet(null, failure);
        }
    }

    private static long micros() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
    }

    private static Map<String, Double> percentiles(double[] samples) {
        Arrays.sort(samples);
        Map<String, Double> found = new LinkedHashMap<>();
        for (Map.Entry<String, Double> each :
                Map.of("min", 0.0, "p50", 0.5, "p90", 0.9, "p99", 0.99, "max", 1.0).entrySet()) {
            int rank = (int) Math.ceil(each.getValue() * samples.length) - 1;
            found.put(each.getKey(), samples[Math.max(rank, 0)]);
        }
        return found;
    }
}
