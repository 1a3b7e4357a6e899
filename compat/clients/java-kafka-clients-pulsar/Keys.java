import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Key_Shared, its promise checked by the consumers themselves. */
final class Keys {
    private static final String TYPE = "pulsar.subscription.type", SHARED = "key_shared";

    private Keys() {}

    private static String key(ConsumerRecord<byte[], byte[]> record) { return new String(record.key(), UTF_8); }

    private static int number(ConsumerRecord<byte[], byte[]> record) {
        return Integer.parseInt(new String(record.value(), UTF_8));
    }

    /** What members tell of their records: a key is in one hand at a time, and its records come in order. */
    private static final class Ledger {
        private final Map<String, Integer> done = new HashMap<>();
        private final Map<String, String> hands = new HashMap<>();
        final Set<String> members = new HashSet<>();
        private String wrong;
        private int accepted;

        synchronized void take(String member, ConsumerRecord<byte[], byte[]> record) {
            members.add(member);
            String key = key(record), holder = hands.putIfAbsent(key, member);
            int last = done.getOrDefault(key, -1);
            if (holder != null && !holder.equals(member)) {
                wrong = member + " got " + key + " " + number(record) + " while " + holder + " holds the key";
            } else if (number(record) != last + 1) {
                wrong = member + " got " + key + " " + number(record) + " after " + last;
            }
        }

        /** Before it is sent: the next record may be given before the answer is back. */
        synchronized void accept(ConsumerRecord<byte[], byte[]> record) {
            done.put(key(record), number(record));
            hands.remove(key(record));
            accepted++;
        }

        synchronized void giveBack(ConsumerRecord<byte[], byte[]> record) { hands.remove(key(record)); }

        synchronized int accepted() {
            if (wrong != null) throw new AssertionError(wrong);
            return accepted;
        }
    }

    /**
     * Members that accept what comes, a little of it released first. When restless they leave after some polls, half
     * of the time with records in hand, and others take their places.
     */
    private static int work(Ctx ctx, Ledger ledger, int size, String group, String topic, int count, boolean restless)
            throws Exception {
        AtomicInteger lives = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        Throwable[] problem = {null};
        for (int n = 0; n < size; n++) {
            Random noise = new Random(n);
            threads.add(Runner.daemon(() -> {
                try {
                    while (ledger.accepted() < count && ctx.left() > 0) {
                        live(ctx, ledger, "member " + lives.incrementAndGet(), group, topic, count,
                            restless ? 5 + noise.nextInt(10) : Integer.MAX_VALUE, noise);
                    }
                } catch (Throwable error) {
                    problem[0] = error;
                }
            }));
        }
        threads.forEach(Thread::start);
        ctx.until(count + " records", () -> {
            if (problem[0] != null) throw new AssertionError(problem[0].toString(), problem[0]);
            return ledger.accepted() >= count;
        });
        for (Thread thread : threads) thread.join(Math.max(1, ctx.left()));
        Expect.same(ledger.accepted(), count, "accepted records");
        return lives.get();
    }

    private static void live(Ctx ctx, Ledger ledger, String name, String group, String topic, int count, int polls,
            Random noise) throws Exception {
        try (Sharer sharer = new Sharer(ctx, group, topic, "max.poll.records", "20", "fetch.max.wait.ms", "100")) {
            while (polls > 0 && ledger.accepted() < count && ctx.left() > 0) {
                var found = sharer.poll();
                if (found.isEmpty()) continue;
                polls--;
                for (var one : found) ledger.take(name, one);
                if (polls == 0 && noise.nextBoolean()) {
                    found.forEach(ledger::giveBack);
                    return;
                }
                for (var one : found) {
                    boolean again = noise.nextInt(20) == 0;
                    if (again) ledger.giveBack(one);
                    else ledger.accept(one);
                    sharer.client.acknowledge(one, again ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                }
                sharer.commit();
            }
        }
    }

    private static void feed(Ctx ctx, String topic, int keys, int from, int to) throws Exception {
        var producer = ctx.producer("linger.ms", "5", "batch.size", "4000");
        for (int n = from; n < to; n++) {
            for (int k = 0; k < keys; k++) {
                producer.send(new ProducerRecord<>(topic, 0, ("key-" + k).getBytes(UTF_8), ("" + n).getBytes(UTF_8)));
            }
        }
        producer.flush();
    }

    static void register(Cases cases) {
        cases.put("pulsar_key_shared", ctx -> {
            for (String mode : List.of("auto_split", "consistent_hashing")) {
                String topic = ctx.create(1);
                String group = Sharer.group(ctx, TYPE, SHARED, "pulsar.key.shared.mode", mode,
                    "pulsar.max.redeliver.count", "-1");
                feed(ctx, topic, 50, 0, 10);
                Ledger ledger = new Ledger();
                work(ctx, ledger, 4, group, topic, 500, false);
                new Sharer(ctx, group, topic).nothingElse(topic);
            }
        });
        cases.put("pulsar_key_shared_joining_and_leaving", ctx -> {
            String topic = ctx.create(1);
            String group = Sharer.group(ctx, TYPE, SHARED, "pulsar.max.redeliver.count", "-1");
            feed(ctx, topic, 100, 0, 30);
            int lives = work(ctx, new Ledger(), 20, group, topic, 3000, true);
            Expect.check(lives > 25, "lives: " + lives);
            new Sharer(ctx, group, topic).nothingElse(topic);
        });
        cases.put("pulsar_key_shared_strict", ctx -> {
            String topic = ctx.create(1);
            String group = Sharer.group(ctx, TYPE, SHARED, "pulsar.nack.delay.ms", "500",
                "pulsar.max.redeliver.count", "2");
            feed(ctx, topic, 2, 0, 3);
            Sharer member = new Sharer(ctx, group, topic);
            Map<String, List<Integer>> order = new HashMap<>();
            ctx.until("all records", () -> {
                for (var one : member.poll()) {
                    order.computeIfAbsent(key(one), k -> new ArrayList<>()).add(number(one));
                    boolean bad = key(one).equals("key-0") && number(one) == 0;
                    member.client.acknowledge(one, bad ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                }
                member.commit();
                return order.values().stream().mapToInt(List::size).sum() == 8;
            });
            Expect.same(order.get("key-1"), List.of(0, 1, 2), "a key that nobody refused");
            // The refused record is given three times before it is dead: until then the key's others wait.
            Expect.same(order.get("key-0"), List.of(0, 0, 0, 1, 2), "a key whose first record is refused");
            member.nothingElse(topic);
        });
        cases.put("pulsar_key_shared_sticky", ctx -> {
            String topic = ctx.create(1), left = ctx.unique("left"), right = ctx.unique("right");
            String group = Sharer.group(ctx, TYPE, SHARED, "pulsar.key.shared.mode", "sticky",
                "pulsar.key.shared.ranges", left + ":0-32767," + right + ":32768-65535");
            feed(ctx, topic, 40, 0, 2);
            Sharer one = new Sharer(ctx, group, topic, "client.id", left);
            Set<String> mine = new HashSet<>();
            ctx.until("the records of one half", () -> {
                var some = one.poll();
                if (!some.isEmpty()) one.acknowledge(some, AcknowledgeType.ACCEPT);
                some.forEach(record -> mine.add(key(record)));
                return some.isEmpty() && !mine.isEmpty();
            });
            Expect.check(mine.size() < 40, mine.size() + " of 40 keys lie in one half of the slots");
            Sharer other = new Sharer(ctx, group, topic, "client.id", right);
            for (var record : other.take(2 * (40 - mine.size()))) {
                Expect.check(!mine.contains(key(record)), "a key went to both members");
            }
        });
        cases.put("pulsar_key_shared_ordering_key", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx, TYPE, SHARED);
            var producer = ctx.producer("linger.ms", "20");
            for (int n = 0; n < 10; n++) {
                var record = new ProducerRecord<>(topic, ("key-" + n).getBytes(UTF_8), ("" + n).getBytes(UTF_8));
                record.headers().add("pulsar-ordering-key", "same".getBytes(UTF_8));
                producer.send(record);
            }
            producer.flush();
            Sharer member = new Sharer(ctx, group, topic);
            List<Integer> seen = new ArrayList<>();
            ctx.until("all records", () -> {
                var some = member.poll();
                Expect.check(some.size() <= 1, some.size() + " records of one ordering key at a time");
                if (!some.isEmpty()) member.acknowledge(some, AcknowledgeType.ACCEPT);
                some.forEach(record -> seen.add(number(record)));
                return seen.size() == 10;
            });
            Expect.same(seen, IntStream.range(0, 10).boxed().toList(), "order");
        });
        cases.put("restart_pulsar_key_shared", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx, TYPE, SHARED, "pulsar.max.redeliver.count", "-1");
            feed(ctx, topic, 20, 0, 5);
            Ledger ledger = new Ledger();
            // All of the first hundred: what one of several members has in hand at the end would be given again.
            work(ctx, ledger, 3, group, topic, 100, false);
            ctx.restart();
            feed(ctx, topic, 20, 5, 10);
            work(ctx, ledger, 3, group, topic, 200, false);
            new Sharer(ctx, group, topic).nothingElse(topic);
        });
    }
}
