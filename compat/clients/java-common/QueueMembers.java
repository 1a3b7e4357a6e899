import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Section "Queue topics": members that die, come and go under load, and live through a restart. */
final class QueueMembers {
    static final int KEYS = 40;

    private QueueMembers() {}

    /**
     * A member in a process of its own, to be killed: it prints the lane, offset and value of each record. It commits behind
     * each, but when it meets the value that it dies of; -1 is of none, and then it commits nothing.
     */
    public static final class Dying {
        public static void main(String[] arguments) throws Exception {
            int deadly = Integer.parseInt(arguments[3]);
            Map<String, Object> settings = new HashMap<>(Ctx.pairs("bootstrap.servers", arguments[0],
                "group.id", arguments[1], "enable.auto.commit", "false", "session.timeout.ms", "3000",
                "heartbeat.interval.ms", "300", "auto.offset.reset", "earliest"));
            settings.putAll(Security.settings());
            var client = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            client.subscribe(List.of(arguments[2]));
            while (true) {
                for (var one : client.poll(Duration.ofMillis(200))) {
                    System.out.println(one.partition() + ":" + one.offset() + " " + QueueTopic.value(one));
                    if (QueueTopic.value(one) == deadly) Runtime.getRuntime().halt(1);
                    if (deadly >= 0) QueueTopic.commit(client, List.of(one), QueueTopic.NOTHING);
                }
            }
        }
    }

    private static Process dying(QueueTopic queue, int deadly) throws Exception {
        Process process = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx64m",
            "-cp", System.getProperty("java.class.path"), Dying.class.getName(), queue.ctx.bootstrap, queue.group, queue.name,
            "" + deadly).redirectError(new File("/dev/null")).start();
        queue.ctx.onClose(process::destroyForcibly);
        return process;
    }

    private static BufferedReader lines(Process process) {
        return new BufferedReader(new InputStreamReader(process.getInputStream(), UTF_8));
    }

    static void register(Cases cases) {
        cases.put("queue_poison", ctx -> {
            var queue = new QueueTopic(ctx, 1, "pulsar.max.redeliver.count", "2");
            queue.feed(0, 40, 10);
            Set<Integer> done = new HashSet<>();
            for (int deaths = 0; deaths < 3; deaths++) {
                var lines = lines(dying(queue, 31));
                int last = -1;
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    last = Integer.parseInt(line.split(" ")[1]);
                    if (last != 31) done.add(last);
                }
                Expect.same(last, 31, "what a member died of");
            }
            var after = queue.join();
            var rest = queue.work(after, "the rest", QueueTopic.NOTHING, all -> {
                all.forEach(one -> done.add(QueueTopic.value(one)));
                return done.size() >= 39;
            });
            Expect.check(!done.contains(31), "the poison came a fourth time");
            queue.letters(31);
            queue.nothingElse(after);
            ctx.detail = rest.size() + " of 40 came behind the poison";
        });
        cases.put("queue_crash", ctx -> {
            var queue = new QueueTopic(ctx, 2, "pulsar.max.redeliver.count", "1", "pulsar.nack.delay.ms", "0");
            queue.feed(0, 20, 5);
            Process first = dying(queue, -1);
            var lines = lines(first);
            Set<String> had = new HashSet<>();
            while (had.size() < 20) had.add(lines.readLine().split(" ")[0]);
            first.destroyForcibly();
            var second = queue.join();
            var found = queue.work(second, "all records",
                one -> QueueTopic.value(one) == 3 ? "n" : "",  // its second and last: the crash was the first
                all -> all.size() >= 20);
            queue.nothingElse(second);
            Expect.same(QueueTopic.values(found), QueueTopic.span(0, 20), "records");
            Expect.check(QueueTopic.places(found).stream().noneMatch(had::contains), "an offset is one delivery");
            queue.letters(3);
        });
        cases.put("queue_rebalance", ctx -> {
            String range = rebalance(ctx, "partition.assignment.strategy", RangeAssignor.class.getName());
            String cooperative =
                rebalance(ctx, "partition.assignment.strategy", CooperativeStickyAssignor.class.getName());
            ctx.detail = "range: " + range + "; cooperative: " + cooperative;
        });
        cases.put("queue_more_lanes", ctx -> {
            var queue = new QueueTopic(ctx, 2, "pulsar.subscription.type", "key_shared");
            Ledger ledger = new Ledger();
            var members = List.of(queue.join(), queue.join());
            Ctx.Condition turn = () -> {  // each polls; true when all have as many lanes
                for (var client : members) {
                    var some = ctx.api.poll(client, 100);
                    some.forEach(one -> ledger.take("a member", one));
                    tryCommit(client, some);
                }
                ledger.done();
                return members.get(0).assignment().size() == members.get(1).assignment().size();
            };
            ctx.until("a lane for each", () -> turn.test() && members.get(0).assignment().size() == 1);
            queue.feed(0, 400, KEYS);
            long begun = System.nanoTime();
            ctx.get(ctx.admin().createPartitions(Map.of(queue.name, NewPartitions.increaseTo(6))).all());
            ctx.until("three lanes for each", () -> turn.test() && members.get(0).assignment().size() == 3);
            ctx.detail = String.format("all members had their lanes %.1f s later", (System.nanoTime() - begun) / 1e9);
            queue.feed(400, 800, KEYS);
            ctx.until("all records", () -> {
                turn.test();
                return ledger.done() == 800;
            });
        });
        cases.put("restart_queue", ctx -> {
            var queue = new QueueTopic(ctx, 3, "pulsar.subscription.type", "key_shared");
            queue.feed(0, 300, 20);
            var client = queue.join("max.poll.records", "40");
            var done = queue.finish(client, 100);
            Map<Integer, Integer> seen = new HashMap<>();
            done.forEach(one -> seen.merge(QueueTopic.value(one), 1, Integer::sum));
            List<ConsumerRecord<byte[], byte[]>> held = new ArrayList<>();
            ctx.until("records in hand", () -> {
                ctx.api.poll(client, 200).forEach(held::add);
                return !held.isEmpty();
            });
            held.forEach(one -> seen.merge(QueueTopic.value(one), 1, Integer::sum));  // committed with the next
            ctx.restart();
            queue.feed(300, 400, 20);
            ctx.until("the others", () -> {
                var some = ctx.api.poll(client, 200);
                some.forEach(one -> seen.merge(QueueTopic.value(one), 1, Integer::sum));
                tryCommit(client, some);
                return seen.size() == 400;
            });
            for (var one : done) Expect.same(seen.get(QueueTopic.value(one)), 1, "deliveries of one that was committed");
        });
    }

    /** What members tell of their records: a key's are worked on in order; what was not committed may come again. */
    static final class Ledger {
        private final Map<String, Integer> next = new HashMap<>(), top = new HashMap<>();
        private int done, lives;
        int again;
        private Throwable wrong;

        synchronized void take(String member, ConsumerRecord<byte[], byte[]> one) {
            String key = new String(one.key(), UTF_8);
            int number = QueueTopic.value(one) / KEYS, due = next.getOrDefault(key, 0);
            if (number > due) {
                fail(new AssertionError(member + " got " + key + " " + number + " when " + due + " was due (lane "
                    + one.partition() + ", offset " + one.offset() + ")"));
            }
            next.put(key, number + 1);
            if (number < top.getOrDefault(key, 0)) again++;
            else {
                top.put(key, number + 1);
                done++;
            }
        }

        synchronized void fail(Throwable error) { if (wrong == null) wrong = error; }

        synchronized void lived() { lives++; }

        synchronized int lives() { return lives; }

        synchronized int done() {
            if (wrong != null) throw new AssertionError("a member: " + wrong.getMessage(), wrong);
            return done;
        }
    }

    /** Members come and go under load; what came of it in a few words. */
    private static String rebalance(Ctx ctx, String... conf) throws Exception {
        var queue = new QueueTopic(ctx, 8, "pulsar.subscription.type", "key_shared");
        Ledger ledger = new Ledger();
        boolean[] over = {false};
        List<Thread> threads = new ArrayList<>();
        for (int place = 0; place < 3; place++) {
            int at = place;
            threads.add(Runner.daemon(() -> {
                try {
                    for (int life = 1; !over[0] && ctx.left() > 0; life++) {
                        // one is static, and comes back under its name
                        String[] mine = at == 2 ? QueueCommits.with(conf, "group.instance.id", "static") : conf;
                        live(queue, ledger, "member " + at + "." + life, at == 0 ? Long.MAX_VALUE : at * 700L, over, mine);
                    }
                } catch (Throwable error) {
                    ledger.fail(error);
                }
            }));
        }
        threads.forEach(Thread::start);
        int[] written = {0};
        ctx.until("six members to have come and gone", () -> {
            if (ledger.lives() < 6 && written[0] - ledger.done() < KEYS * 10) {
                queue.feed(written[0], written[0] + KEYS * 10, KEYS);
                written[0] += KEYS * 10;
            }
            return ledger.lives() >= 6;
        });
        ctx.until("all of " + written[0] + " records", () -> ledger.done() == written[0]);
        over[0] = true;
        for (Thread thread : threads) thread.join(Math.max(1, ctx.left()));
        ledger.done();
        return written[0] + " records, " + ledger.again + " of them again";
    }

    private static void live(QueueTopic queue, Ledger ledger, String name, long ms, boolean[] over, String... conf) {
        var client = queue.join(conf);
        long end = Long.MAX_VALUE;
        while (!over[0] && queue.ctx.left() > 0 && System.nanoTime() / 1_000_000 < end) {
            var some = queue.ctx.api.poll(client, 100);
            some.forEach(one -> ledger.take(name, one));
            if (!some.isEmpty() && end == Long.MAX_VALUE && ms < end) end = System.nanoTime() / 1_000_000 + ms;
            tryCommit(client, some);
        }
        queue.ctx.api.close(client);
        ledger.lived();
    }

    /** A generation that is over takes no commit: its records come again to whoever has the lane then. */
    private static void tryCommit(KafkaConsumer<byte[], byte[]> client, Iterable<ConsumerRecord<byte[], byte[]>> some) {
        try {
            QueueTopic.commit(client, some, QueueTopic.NOTHING);
        } catch (CommitFailedException | RebalanceInProgressException late) {
            // see above
        }
    }
}
