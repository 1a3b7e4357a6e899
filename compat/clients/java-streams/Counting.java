import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Repartitioned;

/** Words of lines, counted over a repartition topic: every count there ever was comes out, so 1, 2, 3 … of each word. */
final class Counting {
    static final int WORDS = 40;
    static final String WORK = "words-repartition", STATE = "counts-changelog";

    private Counting() {}

    static void register(Cases cases) {
        cases.put("streams_word_count", ctx -> {
            App app = new App(ctx, "at_least_once");
            String in = ctx.create(4), out = ctx.create(1);
            app.feed(in, lines(0, 300));
            try (var one = app.start(topology(in, out, Map.of()))) {
                counted(app, out, 300);
                app.feed(in, lines(300, 400));
                counted(app, out, 400);
            }
            Expect.same(App.byKey(app.read(out)), counts(400), "counts after the end");
        });
        cases.put("streams_internal_topics", ctx -> {
            App app = new App(ctx, "at_least_once", "repartition.purge.interval.ms", "200");
            String in = ctx.create(2), out = ctx.create(1);
            try (var one = app.start(topology(in, out, Map.of("min.cleanable.dirty.ratio", "0.3")))) {
                app.feed(in, lines(0, 100));
                counted(app, out, 100);
                String work = app.internal(WORK), state = app.internal(STATE);
                Expect.same(ctx.describe(work).partitions().size(), 3, "partitions of the repartition topic");
                Expect.same(ctx.config(work, "cleanup.policy").value(), "delete", "cleanup.policy of " + work);
                Expect.same(ctx.config(work, "retention.ms").value(), "-1", "retention.ms of " + work);
                Expect.same(ctx.describe(state).partitions().size(), 3, "partitions of the changelog");
                Expect.same(ctx.config(state, "cleanup.policy").value(), "compact", "cleanup.policy of " + state);
                Expect.same(ctx.config(state, "min.cleanable.dirty.ratio").value(), "0.3", "its own config");
                app.until("the repartition topic to be purged", () -> {
                    long gone = 0;
                    for (int n = 0; n < 3; n++) {
                        var place = new TopicPartition(work, n);
                        var asked = ctx.admin().listOffsets(Map.of(place, OffsetSpec.earliest()));
                        gone += ctx.get(asked.partitionResult(place)).offset();
                    }
                    return gone == 200;
                });
            }
        });
    }

    /** Lines of two words each: every word comes as often as every other one when there are twenty lines. */
    static List<App.Line> lines(int from, int to) {
        return IntStream.range(from, to).mapToObj(n -> App.Line.of("line-" + n, word(2 * n) + " " + word(2 * n + 1))).toList();
    }

    private static String word(int n) { return "word-" + n % WORDS; }

    static Topology topology(String in, String out, Map<String, String> changelog) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(in)
            .flatMap((key, line) -> List.of(line.split(" ")).stream()
                .map(word -> org.apache.kafka.streams.KeyValue.pair(word, "")).toList())
            .repartition(Repartitioned.<String, String>as("words").withNumberOfPartitions(3))
            .groupByKey(Grouped.as("by-word"))
            .count(Materialized.<String, Long, org.apache.kafka.streams.state.KeyValueStore<
                org.apache.kafka.common.utils.Bytes, byte[]>>as("counts")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()).withLoggingEnabled(changelog))
            .toStream().mapValues(count -> "" + count).to(out);
        return builder.build();
    }

    /** What comes out of so many lines. */
    static Map<String, List<String>> counts(int lines) {
        Map<String, List<String>> found = new HashMap<>();
        for (int n = 0; n < 2 * lines; n++) {
            var values = found.computeIfAbsent(word(n), key -> new ArrayList<>());
            values.add("" + (values.size() + 1));
        }
        return found;
    }

    /** Until all of so many lines are counted: each word exactly, in order. */
    static void counted(App app, String out, int lines) throws Exception {
        List<App.Line> found = new ArrayList<>();
        app.until(2 * lines + " counts in " + out, () -> {
            found.clear();
            found.addAll(app.read(out));
            return found.size() >= 2 * lines;
        });
        Expect.same(App.byKey(found), counts(lines), "counts of " + lines + " lines");
    }
}
