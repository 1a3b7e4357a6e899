import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.BooleanSupplier;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.PulsarClient;

/**
 * Members of one subscription read a filled topic, each with a client and a connection of its own. They subscribe
 * paused, so that all are there before the first message is sent.
 */
final class Backlog {
    private final Options o;
    private final List<Consumer<byte[]>> members = new ArrayList<>();
    private final Bits accepted;
    private final Bits nacked;
    private final AtomicIntegerArray keys;
    private final LongAdder count = new LongAdder();
    private final LongAdder again = new LongAdder();
    private final LongAdder released = new LongAdder();
    private final AtomicReference<Throwable> failed = new AtomicReference<>();
    private final List<Long> series = new ArrayList<>();
    private final Map<String, Object> figures = new LinkedHashMap<>();

    Backlog(Options o) {
        this.o = o;
        accepted = new Bits(o.records);
        nacked = new Bits(o.records);
        keys = new AtomicIntegerArray(Math.max(o.keys, 1));
    }

    /** A rate: the window begins after the warm-up; with -all it is everything until the last message is acknowledged. */
    Map<String, Object> read() throws Exception {
        Topic.make(o);
        figures.put("fill_seconds", Topic.fill(o));
        // once only, and never again: that a message is nacked does not depend on what the server counts
        long everyone = start(number -> nacked.add(number));
        until(() -> o.all || since(everyone) >= seconds(o.warmup) || count.sum() >= o.records / 3, everyone);
        long start = System.nanoTime();
        long before = o.all ? 0 : count.sum();
        long cpu = cpuNanos();
        until(() -> {
            long done = count.sum();
            boolean enough = since(start) >= seconds(o.duration) && done - before >= o.atLeast;
            return done >= o.records || !o.all && (enough || since(start) >= seconds(o.limit));
        }, everyone);
        double lasted = o.all ? since(everyone) : since(start);
        long records = count.sum() - before;
        if (!o.all && lasted < seconds(o.duration)) {
            throw new IllegalStateException(o.records + " messages lasted only " + lasted + " s: more -records");
        }
        figures.put("records", records);
        figures.put("seconds", lasted);
        figures.put("records_per_second", records / lasted);
        figures.put("released", released.sum());
        // with nacks a whole batch may come again: Pulsar gives out what the client has not acknowledged in time
        figures.put("came_again", again.sum());
        figures.put("generator_cpu_seconds", (cpuNanos() - cpu) / 1e9);
        figures.put("series", series);
        if (o.nackEvery == 0 && again.sum() > 0) {
            throw new IllegalStateException(again.sum() + " messages came again after they had been acknowledged");
        }
        return figures;
    }

    /** Nacks every n-th message at each delivery until all of them are in the dead letter topic. */
    Map<String, Object> dead() throws Exception {
        Topic.make(o);
        figures.put("fill_seconds", Topic.fill(o));
        int wanted = (o.records + o.nackEvery - 1) / o.nackEvery;
        Bits dead = new Bits(o.records);
        LongAdder buried = new LongAdder();
        LongAdder letters = new LongAdder();
        PulsarClient watching = Topic.client(o);
        Consumer<byte[]> watcher = watching.newConsumer().topic(deadLetters()).subscriptionName("count").subscribe();
        run(() -> {
            Message<byte[]> letter = watcher.receive();
            letters.increment();
            if (dead.add(Topic.number(letter))) {
                buried.increment();
            }
            watcher.acknowledgeAsync(letter);
        });
        long begin = start(number -> true);
        until(() -> buried.sum() >= wanted && count.sum() >= o.records - wanted, begin);
        figures.put("seconds", since(begin));
        Thread.sleep(1000);
        figures.put("dead", buried.sum());
        figures.put("dead_letters", letters.sum());
        figures.put("came_again", again.sum());
        if (buried.sum() != wanted) {
            throw new IllegalStateException(buried.sum() + " are dead, and " + wanted + " were given up");
        }
        return figures;
    }

    private String deadLetters() {
        return o.topic + "-" + o.subscription + "-DLQ";
    }

    private interface Judge {
        /** Whether the n-th message, of those that are due for it, is nacked at this delivery. */
        boolean nack(int number);
    }

    /** Subscribes all members, lets them loose and returns when each has had a message (in -all and dead: at once). */
    private long start(Judge judge) throws Exception {
        Bits joined = new Bits(o.members);
        LongAdder some = new LongAdder();
        for (int i = 0; i < o.members; i++) {
            ConsumerBuilder<byte[]> builder = Topic.consumer(o, Topic.client(o)).startPaused(true);
            if (o.nackEvery > 0) {
                builder.negativeAckRedeliveryDelay(o.nackDelay.toMillis(), TimeUnit.MILLISECONDS);
            }
            if (o.maxRedeliverCount > 0) {
                builder.deadLetterPolicy(DeadLetterPolicy.builder()
                        .maxRedeliverCount(o.maxRedeliverCount)
                        .deadLetterTopic(deadLetters())
                        .build());
            }
            members.add(builder.subscribe());
        }
        for (int i = 0; i < o.members; i++) {
            int index = i;
            Consumer<byte[]> member = members.get(i);
            run(() -> {
                Message<byte[]> message = member.receive();
                settle(member, message, judge);
                if (!joined.has(index) && joined.add(index)) {
                    some.increment();
                }
            });
        }
        long begin = System.nanoTime();
        members.forEach(Consumer::resume);
        if (!o.all && o.maxRedeliverCount == 0) {
            until(() -> some.sum() == o.members, begin);
            begin = System.nanoTime();
        }
        series.clear();
        return begin;
    }

    private void settle(Consumer<byte[]> member, Message<byte[]> message, Judge judge) {
        int number = Topic.number(message);
        if (o.ordered) {
            int key = Integer.parseInt(message.getKey().substring(4));
            if (keys.getAndSet(key, number + 1) > number) {
                throw new IllegalStateException("a later message of " + message.getKey() + " came before " + number);
            }
        }
        if (o.nackEvery > 0 && number % o.nackEvery == 0 && judge.nack(number)) {
            released.increment();
            member.negativeAcknowledge(message);
            return;
        }
        if (accepted.add(number)) {
            count.increment();
        } else {
            again.increment();
        }
        member.acknowledgeAsync(message);
    }

    private interface Step {
        void run() throws Exception;
    }

    private void run(Step step) {
        Thread thread = new Thread(() -> {
            try {
                while (failed.get() == null) {
                    step.run();
                }
            } catch (Throwable failure) {
                failed.compareAndSet(null, failure);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    /** Looks every few milliseconds, counts each second, and fails after twice the limit. */
    private void until(BooleanSupplier met, long everyone) throws Exception {
        long begin = System.nanoTime();
        long seen = 0;
        for (long each : series) {
            seen += each;
        }
        while (!met.getAsBoolean()) {
            if (failed.get() != null) {
                throw new IllegalStateException("a member failed: " + failed.get(), failed.get());
            }
            if (since(begin) > 2 * seconds(o.limit)) {
                throw new IllegalStateException(count.sum() + " of " + o.records + " were acknowledged in time");
            }
            Thread.sleep(2);
            if ((int) since(everyone) > series.size()) {
                series.add(count.sum() - seen);
                seen = count.sum();
            }
        }
    }

    private static double since(long begin) {
        return (System.nanoTime() - begin) / 1e9;
    }

    private static double seconds(Duration duration) {
        return duration.toMillis() / 1e3;
    }

    private static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }
}
