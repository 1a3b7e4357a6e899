import java.io.File;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/** processing.guarantee=exactly_once_v2, whatever happens to an instance; and the protocol of KIP-1071. */
final class ExactlyOnce {
    static final String GUARANTEE = "exactly_once_v2";

    private ExactlyOnce() {}

    static void register(Cases cases) {
        cases.put("streams_exactly_once", ctx -> {
            App app = new App(ctx, GUARANTEE);
            String in = ctx.create(4), out = ctx.create(1);
            app.feed(in, Counting.lines(0, 100));
            var first = app.start(Counting.topology(in, out, Map.of()));
            Counting.counted(app, out, 100);
            try (var second = app.start(Counting.topology(in, out, Map.of()))) {
                app.feed(in, Counting.lines(100, 200));
                app.until("tasks for both", () -> first.tasks() > 0 && second.tasks() > 0);
                app.feed(in, Counting.lines(200, 300));
                Counting.counted(app, out, 300);
                first.close();
                app.feed(in, Counting.lines(300, 400));
                Counting.counted(app, out, 400);
            }
            Expect.same(App.byKey(app.read(out)), Counting.counts(400), "counts after the end");
        });
        cases.put("streams_aborted", ctx -> {
            App app = new App(ctx, GUARANTEE, "commit.interval.ms", "30000", "producer.transaction.timeout.ms", "60000",
                "producer.linger.ms", "0");
            String in = ctx.create(1), middle = ctx.create(1), out = ctx.create(1);
            var fails = new AtomicBoolean(true);
            var seen = new CountDownLatch(1);
            StreamsBuilder builder = new StreamsBuilder();
            builder.<String, String>stream(in).to(middle);
            builder.<String, String>stream(in).mapValues(value -> {
                if (value.equals("49") && fails.getAndSet(false)) {
                    await(seen);
                    throw new IllegalStateException("as the case wants it");
                }
                return value;
            }).to(out);
            var lines = java.util.stream.IntStream.range(0, 50).mapToObj(n -> App.Line.of("key", "" + n)).toList();
            app.feed(in, lines);
            try (var one = app.start(builder.build(), streams -> streams.setUncaughtExceptionHandler(
                    error -> StreamThreadExceptionResponse.REPLACE_THREAD))) {
                app.until("records of an open transaction", () ->
                    app.read(middle, IsolationLevel.READ_UNCOMMITTED).size() == 50 && app.read(middle).isEmpty());
                seen.countDown();
                app.until("the records again", () -> app.read(middle, IsolationLevel.READ_UNCOMMITTED).size() == 100);
            }
            for (String topic : new String[] {middle, out}) {
                Expect.same(App.byKey(app.read(topic)), App.byKey(lines), "records of " + topic);
            }
            ctx.detail = app.read(out, IsolationLevel.READ_UNCOMMITTED).size() + " records, and 50 of them committed";
        });
        cases.put("streams_killed", ctx -> {
            App app = new App(ctx, GUARANTEE, "producer.transaction.timeout.ms", "60000");
            String in = ctx.create(2), out = ctx.create(1);
            Path folder = app.folder();
            Process first = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx128m",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", System.getProperty("java.class.path"),
                Dying.class.getName(), ctx.bootstrap, app.id, folder.toString(), in, out)
                .redirectError(new File("/dev/null")).redirectOutput(new File("/dev/null")).start();
            ctx.onClose(first::destroyForcibly);
            app.feed(in, Counting.lines(0, 100));
            String work = app.internal(Counting.WORK);
            app.until("its topics", () -> ctx.get(ctx.admin().listTopics().names()).contains(work));
            app.until("words of an open transaction", () -> app.read(work, IsolationLevel.READ_UNCOMMITTED).size() == 200);
            first.destroyForcibly().waitFor();
            Expect.same(app.read(work).size(), 0, "committed words of the killed one");
            try (var second = app.start(Counting.topology(in, out, Map.of()), folder)) {
                Counting.counted(app, out, 100);
            }
            Expect.same(App.byKey(app.read(out)), Counting.counts(100), "counts after the end");
        });
        cases.put("streams_protocol", ctx -> {
            App app = new App(ctx, "at_least_once", "group.protocol", "streams");
            String in = ctx.create(2), out = ctx.create(1);
            app.feed(in, Counting.lines(0, 20));
            try (var one = app.begin(Counting.topology(in, out, Map.of()))) {
                ctx.until("it to run or to end", () -> one.streams.state() == KafkaStreams.State.RUNNING || one.failure != null);
                if (one.failure == null) {
                    Counting.counted(app, out, 20);
                } else {
                    Throwable why = one.failure;
                    while (why.getCause() != null && !(why instanceof UnsupportedVersionException)) why = why.getCause();
                    Expect.check(why instanceof UnsupportedVersionException, "ended with " + one.failure);
                    ctx.refused = why.getMessage();
                }
            }
        });
        cases.put("restart_streams", ctx -> {
            App app = new App(ctx, GUARANTEE);
            String in = ctx.create(4), out = ctx.create(1);
            try (var one = app.start(Counting.topology(in, out, Map.of()));
                    var two = app.start(Counting.topology(in, out, Map.of()))) {
                app.feed(in, Counting.lines(0, 200));
                Counting.counted(app, out, 200);
                ctx.restart();
                app.feed(in, Counting.lines(200, 400));
                Counting.counted(app, out, 400);
            }
            Expect.same(App.byKey(app.read(out)), Counting.counts(400), "counts after the end");
        });
    }

    /** An instance in a process of its own, which never commits within its time, and is to be killed. */
    public static final class Dying {
        public static void main(String[] arguments) throws Exception {
            var settings = App.settings(arguments[0], arguments[1], Path.of(arguments[2]), Map.of(
                "processing.guarantee", GUARANTEE, "commit.interval.ms", "50000", "producer.transaction.timeout.ms", "60000",
                "producer.linger.ms", "0"));
            new KafkaStreams(Counting.topology(arguments[3], arguments[4], Map.of()), settings).start();
            Thread.sleep(600_000);
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await(60, TimeUnit.SECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
