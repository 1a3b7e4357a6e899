import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedOutputStream;
import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.PrintStream;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member in Java: a whole consumer of a queue topic. Arguments and lines as in ../worker.py and ../events.py. */
public final class Worker {
    private static final PrintStream OUT =
        new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16), false);
    private static volatile boolean over;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], group = arguments[1], topic = arguments[2], name = arguments[3];
        long ms = Long.parseLong(arguments[4]);
        Thread end = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException closed) {
                // that is the end, too
            }
            over = true;
        });
        end.setDaemon(true);
        end.start();
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", bootstrap, "group.id", group, "client.id", name,
            "enable.auto.commit", "false", "auto.offset.reset", "earliest", "max.poll.records", "50",
            "partition.assignment.strategy", RangeAssignor.class.getName(), "session.timeout.ms", "3000",
            "heartbeat.interval.ms", "500"));
        settings.put("reconnect.backoff.max.ms", "500");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                @Override public void onPartitionsAssigned(Collection<TopicPartition> places) {
                    holds(places.stream().map(place -> "" + place.partition()).collect(Collectors.joining(",")));
                }

                @Override public void onPartitionsRevoked(Collection<TopicPartition> places) { holds(""); }
            });
            while (!over) work(consumer, consumer.poll(Duration.ofMillis(200)), ms);
        }
    }

    /** Do what one poll gave, and say what became of it in one commit. */
    private static void work(KafkaConsumer<String, String> consumer, Iterable<ConsumerRecord<String, String>> records, long ms)
            throws InterruptedException {
        Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
        Set<TopicPartition> nacked = new HashSet<>();
        for (var record : records) {
            var lane = new TopicPartition(record.topic(), record.partition());
            if (nacked.contains(lane)) continue;
            long began = now();
            Thread.sleep(ms);
            String[] value = record.value().split(" ");
            String said = "";
            if (value.length > 1 && value[1].equals("poison")) {
                // a nack, and "s": the rest of this lane is left for now, so that nothing of the key is done before it
                said = "ack1;s;n=" + record.offset();
                nacked.add(lane);
            }
            var failed = record.headers().lastHeader("pulsar-redelivery-count");
            OUT.println("took " + began + " " + now() + " " + record.partition() + " " + record.offset() + " " + record.key() + " "
                + value[0] + " " + (failed == null ? "0" : new String(failed.value(), UTF_8)) + (said.isEmpty() ? " done" : " nack"));
            OUT.flush(); // at once: who is killed in the next moment has said what it did
            done.put(lane, new OffsetAndMetadata(record.offset() + 1, said));
        }
        if (!done.isEmpty() && commit(consumer, done)) {
            done.forEach((lane, place) -> {
                OUT.println("acked " + now() + " " + lane.partition() + " " + place.offset());
                if (nacked.contains(lane)) consumer.seek(lane, place.offset());
            });
        }
        OUT.flush();
    }

    /** Until it is answered: the gateway may be away for a while. False when the lanes are another's. */
    private static boolean commit(KafkaConsumer<String, String> consumer, Map<TopicPartition, OffsetAndMetadata> done) {
        while (true) {
            try {
                consumer.commitSync(done);
                return true;
            } catch (CommitFailedException | RebalanceInProgressException late) {
                return false; // what is not committed comes again there
            } catch (TimeoutException away) {
                if (over) return false;
            }
        }
    }

    private static void holds(String lanes) {
        OUT.println("holds " + now() + " " + (lanes.isEmpty() ? "-" : lanes));
        OUT.flush();
    }

    /** Microseconds since 1970. */
    private static long now() { return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now()); }
}
