import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.IntPredicate;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Section "Queue topics": what commits do. */
final class QueueCommits {
    /** Milliseconds by which two clocks of one machine may differ. */
    private static final long EARLY = 2;

    private QueueCommits() {}

    static void register(Cases cases) {
        cases.put("queue_auto_commit", ctx -> {
            String[] own = {"enable.auto.commit", "true", "auto.commit.interval.ms", "100"};
            var queue = new QueueTopic(ctx, 4);
            queue.feed(0, 500, 20);
            var first = queue.join(own);
            var seen = ctx.take(first, 500);
            ctx.until("the automatic commits", () -> {
                ctx.api.poll(first, 100).forEach(seen::add);
                return queue.settled(first) == 500;
            });
            queue.feed(500, 600, 20);
            seen.addAll(ctx.take(first, 100));
            ctx.api.close(first);  // commits what it has polled
            var second = queue.join(own);
            queue.feed(600, 610, 20);
            seen.addAll(ctx.take(second, 10));
            ctx.api.poll(second, 300).forEach(seen::add);
            Expect.same(QueueTopic.values(seen), QueueTopic.span(0, 610), "records, each once");
        });
        cases.put("queue_manual_commit", ctx -> {
            resume(ctx);
            resume(ctx, "group.instance.id", "one");  // a static member that is away for a moment
        });
        cases.put("queue_nack", ctx -> {
            var queue = new QueueTopic(ctx, 1);
            queue.feed(0, 20, 5);
            var client = queue.join();
            List<ConsumerRecord<byte[], byte[]>> bad = new ArrayList<>();
            long[] begun = {0};
            var first = queue.work(client, "the records", one -> {
                if (QueueTopic.value(one) != 7) return "";
                bad.add(one);
                begun[0] = System.nanoTime() / 1_000_000;
                return "n:900";
            }, all -> all.size() == 20);
            Expect.same(QueueTopic.values(first), QueueTopic.span(0, 20), "records: the others go on");
            var again = queue.finish(client, 1).get(0);
            long waited = System.nanoTime() / 1_000_000 - begun[0];
            Expect.check(waited >= 900 - EARLY, "the nacked record came after " + waited + " ms");
            Expect.same(QueueTopic.value(again), 7, "the record that came again");
            Expect.check(again.offset() > bad.get(0).offset(), "it came as " + again.offset());
            Expect.same(queue.settled(client), 21L, "deliveries that are settled");
            queue.nothingElse(client);
        });
        cases.put("queue_example", QueueCommits::example);
        cases.put("queue_dead_letter", ctx -> {
            var queue = new QueueTopic(ctx, 2, "pulsar.max.redeliver.count", "2", "pulsar.nack.delay.ms", "0");
            queue.feed(0, 40, 8);
            var client = queue.join();
            Map<Integer, Integer> counts = new HashMap<>();
            queue.work(client, "three deliveries of one", one -> {
                counts.merge(QueueTopic.value(one), 1, Integer::sum);
                return QueueTopic.value(one) == 7 ? "n" : QueueTopic.value(one) == 11 ? "d" : "";
            }, all -> all.size() >= 42);
            queue.nothingElse(client);
            for (int n = 0; n < 40; n++) Expect.same(counts.get(n), n == 7 ? 3 : 1, "deliveries of " + n);
            queue.letters(7, 11);
        });
        cases.put("queue_malformed", ctx -> {
            var queue = new QueueTopic(ctx, 1);
            queue.feed(0, 10, 5);
            var first = queue.join();
            ctx.take(first, 10);
            var lane = new TopicPartition(queue.name, 0);
            Throwable error = null;
            try {
                first.commitSync(Map.of(lane, new OffsetAndMetadata(10, "ack1;n:soon=3")));
            } catch (Exception raised) {  // the client wraps what it does not expect of a commit
                error = raised;
            }
            Expect.check(error != null, "the commit was not refused");
            String text = error.getMessage() + " " + error.getCause();  // in the client's words
            Expect.check(text.contains("request being malformed"), "what the client says: " + text);
            ctx.api.close(first);
            var second = queue.join();
            Expect.same(QueueTopic.values(queue.finish(second, 10)), QueueTopic.span(0, 10), "what comes again");
            queue.nothingElse(second);
        });
        cases.put("queue_other_group", ctx -> {
            var queue = new QueueTopic(ctx, 1);
            queue.feed(0, 10, 5);
            var audit = ctx.consumer(ctx.group());
            audit.subscribe(List.of(queue.name));
            QueueTopic.commit(audit, ctx.take(audit, 10), QueueTopic.NOTHING);
            ctx.api.close(audit);
            var own = queue.join();
            Expect.same(QueueTopic.values(queue.finish(own, 10)), QueueTopic.span(0, 10), "records of its own group");
            queue.nothingElse(own);
        });
        cases.put("queue_pattern", ctx -> {
            var queue = new QueueTopic(ctx, 1);
            queue.feed(0, 10, 5);
            var client = ctx.consumer(ctx.group());
            client.subscribe(java.util.regex.Pattern.compile(java.util.regex.Pattern.quote(queue.topic) + ".*"));
            var found = ctx.take(client, 10);
            ctx.api.poll(client, 300).forEach(found::add);
            Set<String> topics = new HashSet<>();
            found.forEach(one -> topics.add(one.topic()));
            Expect.same(topics, Set.of(queue.topic), "topics of the pattern");
        });
        cases.put("queue_delayed_and_retry", ctx -> {
            var queue = new QueueTopic(ctx, 2, "pulsar.subscription.type", "key_shared");
            String retries = queue.topic + "-" + queue.group + "-RETRY";
            ctx.create(new NewTopic(retries, 2, (short) 1));
            ctx.describe(retries);
            var client = queue.join();
            long begun = System.currentTimeMillis();
            Map<Integer, Long> wait = Map.of(0, 0L, 1, 1500L, 2, 900L, 3, 1200L);
            try (var producer = ctx.producer()) {
                for (var one : List.of(List.of(queue.topic, "1", "pulsar-deliver-at", "" + (begun + 1500)),
                        List.of(queue.topic, "2", "pulsar-deliver-after", "900"),
                        List.of(retries, "3", "DELAY_TIME", "1200"), List.of(queue.topic, "0", "own", "x"))) {
                    var record = new ProducerRecord<>(one.get(0), 0, "key-1".getBytes(UTF_8), one.get(1).getBytes(UTF_8));
                    record.headers().add(one.get(2), one.get(3).getBytes(UTF_8));
                    producer.send(record);
                }
                producer.flush();
            }
            var found = queue.work(client, "four records", one -> {
                long waited = System.currentTimeMillis() - begun;
                Expect.check(waited >= wait.get(QueueTopic.value(one)) - EARLY,
                    "record " + QueueTopic.value(one) + " came after " + waited + " ms");
                return "";
            }, all -> all.size() >= 4);
            Expect.same(QueueTopic.values(found), QueueTopic.span(0, 4), "records");
            queue.nothingElse(client);
        });
        cases.put("queue_foreign_metadata", ctx -> {
            var queue = new QueueTopic(ctx, 1);
            queue.feed(0, 10, 5);
            String text = "{\"framework\": \"käse\", \"n\": [1, 2]} x;ack1;n=3";
            var client = queue.join();
            queue.finish(client, 10);
            var lane = new TopicPartition(queue.name, 0);
            client.commitSync(Map.of(lane, new OffsetAndMetadata(10, text)));
            Expect.same(queue.committed(client).get(0), new OffsetAndMetadata(10, text), "what comes back");
            queue.feed(10, 20, 5);
            queue.finish(client, 10);
            Expect.same(queue.committed(client).get(0).metadata(), "", "metadata of another offset");
            queue.nothingElse(client);
        });
    }

    /** The program of docs/QUEUE-CLIENTS.md: one record is hopeless, and of those after 200, when windows have grown, more
     * fail once than a commit could name singly, or by 80 spans. */
    private static void example(Ctx ctx) throws Exception {
        var queue = new QueueTopic(ctx, 1);
        queue.feed(0, 1400, 5);
        IntPredicate fails = n -> n >= 200 && n % 4 != 0;
        var client = queue.join();
        Map<Integer, Integer> counts = new HashMap<>();
        ctx.until("the page's program to be done", () -> {
            QueueWorker.work(client, ctx.api.poll(client, 200), record -> {
                int value = QueueTopic.value(record), count = counts.merge(value, 1, Integer::sum);
                if (value == 7) throw new IllegalArgumentException("hopeless");
                if (fails.test(value) && count == 1) throw new IllegalStateException("not now");
            });
            return queue.settled(client) == 2300;
        });
        for (int n = 0; n < 1400; n++) Expect.same(counts.get(n), fails.test(n) ? 2 : 1, "deliveries of " + n);
        queue.letters(7);
    }

    /** A member commits a part and goes; the one after it gets the rest, what was in hand under its own offsets. */
    private static void resume(Ctx ctx, String... conf) throws Exception {
        var queue = new QueueTopic(ctx, 3);
        queue.feed(0, 500, 50);
        var first = queue.join(with(conf, "max.poll.records", "40"));
        var done = queue.finish(first, 300);
        List<ConsumerRecord<byte[], byte[]>> held = new ArrayList<>();
        ctx.until("records that are not committed", () -> {
            ctx.api.poll(first, 200).forEach(held::add);
            return !held.isEmpty();
        });
        ctx.api.close(first);
        var second = queue.join(conf);
        var rest = queue.finish(second, 500 - done.size());
        Expect.check(QueueTopic.places(rest).containsAll(QueueTopic.places(held)), "what was in hand has other offsets");
        done.addAll(rest);
        Expect.same(QueueTopic.values(done), QueueTopic.span(0, 500), "records, each once but those in hand");
        queue.nothingElse(second);
    }

    static String[] with(String[] conf, String... more) {
        List<String> all = new ArrayList<>(List.of(conf));
        all.addAll(List.of(more));
        return all.toArray(String[]::new);
    }
}
