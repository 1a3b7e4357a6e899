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
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.InconsistentGroupProtocolException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Section "Share groups": members that share, come, leave, crash, and live through a restart. */
final class ShareMembers {
    private ShareMembers() {}

    /** Members that accept what comes, each in a thread of its own. */
    static final class Crowd implements AutoCloseable {
        private final List<Thread> threads = new ArrayList<>();
        private volatile boolean ended;
        private volatile Throwable error;
        final CountDownLatch pause = new CountDownLatch(1);
        final List<List<Integer>> seen = new ArrayList<>();

        /** With `pausing` they keep their first records in hand until `pause` is counted down. */
        Crowd(Ctx ctx, int size, String group, String topic, boolean pausing) {
            if (!pausing) pause.countDown();
            for (int n = 0; n < size; n++) {
                Sharer sharer = new Sharer(ctx, group, topic, "max.poll.records", "10");
                List<Integer> mine = java.util.Collections.synchronizedList(new ArrayList<>());
                seen.add(mine);
                threads.add(Runner.daemon(() -> work(sharer, mine)));
            }
            ctx.onClose(this);
            threads.forEach(Thread::start);
        }

        private void work(Sharer sharer, List<Integer> mine) {
            try {
                while (!ended) {
                    var found = sharer.poll();
                    if (found.isEmpty()) continue;
                    found.forEach(one -> mine.add(Rec.number(one)));
                    pause.await();
                    sharer.acknowledge(found, AcknowledgeType.ACCEPT);
                }
                sharer.close();
            } catch (Throwable problem) {
                error = problem;
            }
        }

        /** Everybody holds something. */
        void everybody(Ctx ctx) throws Exception {
            ctx.until("all members to hold records of the one partition",
                () -> alive() && seen.stream().noneMatch(List::isEmpty));
        }

        /** Every record was seen, and once. */
        void finish(Ctx ctx, int count) throws Exception {
            ctx.until(count + " records", () -> alive() && seen.stream().mapToInt(List::size).sum() >= count);
            Set<Integer> different = new HashSet<>();
            for (var one : seen) different.addAll(List.copyOf(one));
            Expect.same(different.size(), count, "different records");
            Expect.same(seen.stream().mapToInt(List::size).sum(), count, "deliveries");
        }

        private boolean alive() {
            if (error != null) throw new AssertionError("a member ended: " + error, error);
            return true;
        }

        @Override public void close() throws InterruptedException {
            pause.countDown();
            ended = true;
            for (Thread thread : threads) thread.join(5000);
        }
    }

    /** In a JVM of its own: holds records until it is killed. Arguments: bootstrap, group, topic. */
    public static final class Holder {
        public static void main(String[] arguments) throws Exception {
            Map<String, Object> settings = new HashMap<>(Ctx.pairs("bootstrap.servers", arguments[0],
                "group.id", arguments[1], "share.acknowledgement.mode", "explicit"));
            settings.putAll(Security.settings());
            var client = new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            client.subscribe(List.of(arguments[2]));
            int found = 0;
            while (found == 0) found = client.poll(Duration.ofMillis(200)).count();
            System.out.println("holds " + found);
            Thread.sleep(600_000);
        }
    }

    static void register(Cases cases) {
        cases.put("share_two_members", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            Crowd both = new Crowd(ctx, 2, group, topic, true);
            Sharer.spread(ctx, topic, 0, 200);
            both.everybody(ctx);
            both.pause.countDown();
            both.finish(ctx, 200);
        });
        cases.put("share_fifty_members", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            Sharer.spread(ctx, topic, 0, 1500);
            Crowd crowd = new Crowd(ctx, 50, group, topic, true);
            crowd.everybody(ctx);
            crowd.pause.countDown();
            crowd.finish(ctx, 1500);
        });
        cases.put("share_two_groups", ctx -> {
            String topic = ctx.create(3);
            for (int p = 0; p < 3; p++) ctx.produce(topic, p, Rec.sample(20));
            for (String group : List.of(Sharer.group(ctx), Sharer.group(ctx))) {
                var counts = new Sharer(ctx, group, topic).take(60).stream()
                    .collect(Collectors.groupingBy(ConsumerRecord::partition, Collectors.counting()));
                Expect.same(counts, Map.of(0, 20L, 1, 20L, 2, 20L), "records by partition");
            }
        });
        cases.put("share_crash_while_holding", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            ctx.produce(topic, Rec.sample(10));
            Process holder = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx64m",
                "-cp", System.getProperty("java.class.path"), Holder.class.getName(), ctx.bootstrap, group, topic)
                .redirectError(new File("/dev/null")).start();
            ctx.onClose(holder::destroyForcibly);
            var lines = new BufferedReader(new InputStreamReader(holder.getInputStream(), UTF_8));
            Expect.same(lines.readLine(), "holds 10", "the other process");
            Sharer second = new Sharer(ctx, group, topic);
            for (int n = 0; n < 5; n++) Expect.same(second.poll().size(), 0, "records that another member holds");
            holder.destroyForcibly();
            var again = second.take(10);  // long before its lock of 30 s or its session of 45 s runs out
            Expect.same(Rec.offsets(again), Rec.range(0, 10), "offsets");
            Expect.same(Sharer.counts(again), Sharer.all(10, 2), "delivery counts");
            second.nothingElse(topic);
        });
        cases.put("share_close_while_holding", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            ctx.produce(topic, Rec.sample(10));
            Sharer first = new Sharer(ctx, group, topic);
            var held = first.hold(10);
            Sharer second = new Sharer(ctx, group, topic);
            Expect.same(second.poll().size(), 0, "records that another member holds");
            for (var one : held.subList(0, 4)) first.client.acknowledge(one);
            first.close();  // sends what was acknowledged, and gives back the rest
            var again = second.take(6);
            Expect.same(Rec.offsets(again), Rec.range(4, 10), "records that were not acknowledged");
            // Kafka counts it as a delivery, Pulsar does not.
            Expect.check(Set.of(1, 2).containsAll(Sharer.counts(again)), "delivery counts " + Sharer.counts(again));
            second.nothingElse(topic);
        });
        cases.put("share_unsubscribe", ctx -> {
            String one = ctx.create(1), other = ctx.create(1), group = Sharer.group(ctx);
            ctx.produce(one, Rec.sample(3));
            Sharer member = new Sharer(ctx, group, one);
            member.take(3);
            member.client.subscribe(List.of(other));
            ctx.produce(other, Rec.sample(4));
            Expect.same(topics(member.take(4)), Set.of(other), "topics after the change");
            ctx.produce(one, Rec.sample(2));
            member.nothingElse(other);
            member.client.unsubscribe();
            Expect.same(member.client.subscription(), Set.of(), "subscription");
            ctx.until("the member to have left", () -> ShareTopics.describe(ctx, group).members().isEmpty());
            member.client.subscribe(List.of(one, other));
            Expect.same(topics(member.take(2)), Set.of(one), "topics after it came back");
        });
        cases.put("share_group_id_taken", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            ctx.produce(topic, Rec.sample(2));
            Sharer member = new Sharer(ctx, group, topic);
            member.take(2);
            var classic = ctx.consumer(group);
            classic.subscribe(List.of(topic));
            Expect.failure(InconsistentGroupProtocolException.class,
                () -> ctx.until("a refusal", () -> ctx.api.poll(classic, 200).count() > 0));
            String other = ctx.group();
            var consumer = ctx.consumer(other);
            consumer.subscribe(List.of(topic));
            ctx.take(consumer, 2);
            Sharer refused = new Sharer(ctx, other, topic);
            Expect.failure(GroupIdNotFoundException.class,
                () -> ctx.until("a refusal", () -> !refused.poll().isEmpty()));
        });
        cases.put("restart_share_acknowledgements", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            ctx.produce(topic, Rec.sample(30));
            Sharer first = new Sharer(ctx, group, topic);
            AcknowledgeType[] types = {AcknowledgeType.RELEASE, AcknowledgeType.ACCEPT, AcknowledgeType.REJECT};
            for (var one : first.hold(30)) first.client.acknowledge(one, types[(int) one.offset() % 3]);
            first.close();  // with what was said; after a commit the client may fetch once more, which is a delivery
            ctx.restart();
            Sharer second = new Sharer(ctx, group, topic);
            var again = second.take(10);
            Expect.same(Rec.offsets(again), Rec.range(0, 10).stream().map(n -> n * 3).toList(), "released records");
            Expect.same(Sharer.counts(again), Sharer.all(10, 2), "delivery counts");
            second.nothingElse(topic);
        });
        cases.put("restart_share_in_hand", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            ctx.produce(topic, Rec.sample(10));
            Sharer first = new Sharer(ctx, group, topic);
            var held = first.hold(10);
            ctx.restart();
            for (var one : held) first.client.acknowledge(one);
            if (!first.commitErrors().isEmpty()) {
                Expect.same(Rec.offsets(first.take(10)), Rec.range(0, 10), "records after the restart");
            }
            first.nothingElse(topic);
        });
        cases.put("restart_share_live", ctx -> {
            String topic = ctx.create(1), group = Sharer.group(ctx);
            Crowd both = new Crowd(ctx, 2, group, topic, false);
            Sharer.spread(ctx, topic, 0, 100);
            both.finish(ctx, 100);
            ctx.restart();
            Sharer.spread(ctx, topic, 100, 200);
            both.finish(ctx, 200);
        });
    }

    private static Set<String> topics(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(ConsumerRecord::topic).collect(Collectors.toSet());
    }
}
