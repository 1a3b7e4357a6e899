import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;

/** Sums of windows by the times of the records, of which suppress lets one come out when the window is closed. */
final class Windows {
    private static final int KEYS = 7, MINUTES = 60, PARTITIONS = 2;
    private static final long MINUTE = 60_000;

    private Windows() {}

    interface Windowing { KTable<Windowed<String>, Long> of(KGroupedStream<String, String> grouped); }

    static void register(Cases cases) {
        cases.put("streams_windows", ctx -> closed(new App(ctx, ExactlyOnce.GUARANTEE), grouped ->
            grouped.windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(5), Duration.ofMinutes(1))).count(longs()), 5));
        cases.put("streams_hopping_windows", ctx -> closed(new App(ctx, "at_least_once"), grouped ->
            grouped.windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(10), Duration.ofMinutes(1))
                .advanceBy(Duration.ofMinutes(5))).count(longs()), 10));
        cases.put("streams_sessions", ctx -> {
            // a pause of more than two minutes after each ten: a session of ten records for each key
            App app = new App(ctx, ExactlyOnce.GUARANTEE);
            String in = ctx.create(PARTITIONS), out = ctx.create(1);
            long begin = begin();
            List<App.Line> lines = new ArrayList<>();
            for (int minute = 0; minute < MINUTES; minute++) {
                long time = begin + (minute + 5L * (minute / 10)) * MINUTE;
                for (int key = 0; key < KEYS; key++) lines.add(new App.Line("key-" + key, "1", time));
            }
            var topology = topology(in, out, grouped -> grouped.windowedBy(
                SessionWindows.ofInactivityGapAndGrace(Duration.ofMinutes(2), Duration.ofMinutes(1))).count(longs()));
            inTwo(app, topology, in, out, lines, MINUTES / 10 * KEYS);
            Map<String, List<String>> expected = new TreeMap<>();
            for (int key = 0; key < KEYS; key++) {
                for (int round = 0; round < MINUTES / 10; round++) {
                    long start = begin + 15 * round * MINUTE;
                    expected.put("key-" + key + "@" + start + "-" + (start + 9 * MINUTE), List.of("10"));
                }
            }
            same(App.byKey(app.read(out)), expected);
        });
    }

    private static <S extends StateStore> Materialized<String, Long, S> longs() {
        return Materialized.with(Serdes.String(), Serdes.Long());
    }

    /** Whole minutes, and so long ago that all of it is over and nothing is old. */
    private static long begin() { return (System.currentTimeMillis() - 6 * 60 * MINUTE) / (10 * MINUTE) * 10 * MINUTE; }

    private static void closed(App app, Windowing windowing, int size) throws Exception {
        Ctx ctx = app.ctx;
        String in = ctx.create(PARTITIONS), out = ctx.create(1);
        long begin = begin();
        List<App.Line> lines = new ArrayList<>();
        Map<String, Integer> sums = new TreeMap<>();
        for (int minute = 0; minute < MINUTES; minute++) {
            for (int key = 0; key < KEYS; key++) {
                long time = begin + minute * MINUTE + 1000 * key;
                for (int n = 0; n <= (minute + key) % 3; n++) {
                    lines.add(new App.Line("key-" + key, "1", time));
                    for (long start = begin + minute / 5 * 5 * MINUTE; start > time - size * MINUTE; start -= 5 * MINUTE) {
                        sums.merge("key-" + key + "@" + start + "-" + (start + size * MINUTE), 1, Integer::sum);
                    }
                }
            }
        }
        inTwo(app, topology(in, out, windowing), in, out, lines, sums.size());
        Map<String, List<String>> expected = new TreeMap<>();
        sums.forEach((window, sum) -> expected.put(window, List.of("" + sum)));
        same(App.byKey(app.read(out)), expected);
    }

    /** One instance for half of the lines, and one without its state for the others and what closes all windows. */
    private static void inTwo(App app, Topology topology, String in, String out, List<App.Line> lines, int results)
            throws Exception {
        int half = lines.size() / 2;
        try (var one = app.start(topology)) {
            app.feed(in, lines.subList(0, half));
            app.until("some windows to close", () -> app.read(out).size() >= results / 4);
        }
        int early = app.read(out).size();
        Expect.check(early < results, "half of the lines closed all windows");
        try (var one = app.start(topology)) {
            app.feed(in, lines.subList(half, lines.size()));
            long late = lines.get(lines.size() - 1).time() + 120 * MINUTE;
            List<App.Line> ends = new ArrayList<>();
            // keys of their own, so many that each partition has some; their windows stay open
            for (int n = 0; n < 50; n++) ends.add(new App.Line("end-" + n, "1", late));
            app.feed(in, ends);
            app.until("all windows to close", () -> app.read(out).size() >= results);
        }
        app.ctx.detail = early + " of " + results + " windows closed before the state was lost";
    }

    private static Topology topology(String in, String out, Windowing windowing) {
        StreamsBuilder builder = new StreamsBuilder();
        windowing.of(builder.<String, String>stream(in).groupByKey())
            .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()))
            .toStream((where, count) -> where.key() + "@" + where.window().start() + "-" + where.window().end())
            .mapValues(count -> "" + count).to(out);
        return builder.build();
    }

    private static void same(Map<String, List<String>> found, Map<String, List<String>> expected) {
        for (var one : expected.entrySet()) Expect.same(found.get(one.getKey()), one.getValue(), "results of " + one.getKey());
        Expect.same(found.size(), expected.size(), "windows");
    }
}
