import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.processor.StateRestoreListener;

/** State that comes back from its compacted changelog, to an instance that has none. */
final class State {
    /** So that the log is compacted while the case looks on. */
    private static final Map<String, String> SOON = Map.of("segment.ms", "200", "min.cleanable.dirty.ratio", "0.01",
        "max.compaction.lag.ms", "1", "delete.retention.ms", "0");

    private State() {}

    static void register(Cases cases) {
        for (String guarantee : List.of("at_least_once", ExactlyOnce.GUARANTEE)) {
            String name = guarantee.equals(ExactlyOnce.GUARANTEE) ? "streams_restored_exactly_once" : "streams_restored";
            cases.put(name, ctx -> restored(new App(ctx, guarantee), false));
        }
        cases.put("restart_streams_restored", ctx -> restored(new App(ctx, ExactlyOnce.GUARANTEE), true));
        cases.put("streams_standby", ctx -> {
            App app = new App(ctx, ExactlyOnce.GUARANTEE, "num.standby.replicas", "1");
            String in = ctx.create(2), out = ctx.create(1);
            var first = app.start(Counting.topology(in, out, Map.of()));
            try (var second = app.start(Counting.topology(in, out, Map.of()))) {
                app.feed(in, Counting.lines(0, 100));
                Counting.counted(app, out, 100);
                app.until("standby tasks", () -> second.streams.metadataForLocalThreads().stream()
                    .anyMatch(thread -> !thread.standbyTasks().isEmpty()));
                first.close();
                app.feed(in, Counting.lines(100, 200));
                Counting.counted(app, out, 200);
            }
        });
    }

    /** Counted until its changelog is compacted; the state is gone, and with `restart` the server was away. */
    private static void restored(App app, boolean restart) throws Exception {
        Ctx ctx = app.ctx;
        String in = ctx.create(2), out = ctx.create(1), changelog = app.internal(Counting.STATE);
        int[] lines = {0};
        try (var one = app.start(Counting.topology(in, out, SOON))) {
            more(app, in, lines, 200);
            Counting.counted(app, out, lines[0]);
            // what comes later stays for a while
            app.until("the changelog to be compacted", () -> {
                more(app, in, lines, 20);
                Counting.counted(app, out, lines[0]);
                return app.read(changelog).size() <= 2 * lines[0] - 300;
            });
        }
        int left = app.read(changelog).size();
        if (restart) ctx.restart();
        var counter = new Restoring();
        try (var one = app.start(Counting.topology(in, out, SOON), streams -> streams.setGlobalStateRestoreListener(counter))) {
            more(app, in, lines, 100);
            Counting.counted(app, out, lines[0]);
            long came = counter.records.get();
            // fewer, if one more pass came in between
            Expect.check(came >= Counting.WORDS && came <= left, came + " records came from a changelog of " + left);
            ctx.detail = "of " + 2 * lines[0] + " changes the log had " + left + ", of which came " + came;
        }
    }

    private static void more(App app, String in, int[] lines, int count) throws Exception {
        app.feed(in, Counting.lines(lines[0], lines[0] + count));
        lines[0] += count;
    }

    /** How much came from changelogs. */
    static final class Restoring implements StateRestoreListener {
        final AtomicLong records = new AtomicLong();

        @Override public void onRestoreStart(TopicPartition place, String store, long from, long to) {}

        @Override public void onBatchRestored(TopicPartition place, String store, long end, long count) {
            records.addAndGet(count);
        }

        @Override public void onRestoreEnd(TopicPartition place, String store, long total) {}
    }
}
