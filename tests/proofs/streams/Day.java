import java.io.FileInputStream;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * A day's sales, as day.py makes them: sums of each shop by the quarter of an hour, running counts of each region,
 * and each sale with its payment. Its argument is a file of settings. It ends when it is killed, or by itself with 1.
 */
public final class Day {
    /** So that changelogs are compacted within minutes. */
    private static final Map<String, String> SOON = Map.of("segment.ms", "5000", "min.cleanable.dirty.ratio", "0.1",
        "max.compaction.lag.ms", "5000", "delete.retention.ms", "0");

    private Day() {}

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (var file = new FileInputStream(arguments[0])) {
            settings.load(file);
        }
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> sales = builder.stream("sales"), payments = builder.stream("payments");
        KTable<String, String> shops = builder.table("shops");

        sales.mapValues(sale -> Long.parseLong(sale.split(" ")[1])).groupByKey()
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(15), Duration.ofMinutes(1)))
            .aggregate(() -> 0L, (shop, cents, sum) -> sum + cents, Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("sums")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()))
            .toStream((window, sum) -> window.key() + "@" + window.window().start()).mapValues(sum -> "" + sum).to("quarters");

        sales.join(shops, (sale, region) -> KeyValue.pair(region, sale.split(" ")[1]))
            .map((shop, found) -> KeyValue.pair(found.key, found.value))
            .repartition(Repartitioned.<String, String>as("regions").withNumberOfPartitions(2))
            .groupByKey()
            .aggregate(() -> "0 0", (region, cents, before) -> {
                String[] parts = before.split(" ");
                return (Long.parseLong(parts[0]) + 1) + " " + (Long.parseLong(parts[1]) + Long.parseLong(cents));
            }, Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("totals").withLoggingEnabled(SOON))
            .toStream().to("regions");

        // nothing is too late within the day: after a kill one topic may be hours ahead of the other
        sales.join(payments, (sale, payment) -> sale.split(" ")[0] + " " + payment,
                JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMinutes(20), Duration.ofHours(25)))
            .filter((shop, both) -> both.split(" ")[0].equals(both.split(" ")[1])).to("paid");

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.ERROR) Runtime.getRuntime().halt(1);
        });
        streams.start();
        Thread.sleep(Long.MAX_VALUE);
    }
}
