import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/**
 * A member of a group that polls in a thread of its own, as consumers do: the poll of old clients comes back only when
 * the rebalance is over, so members that took turns in one thread would wait for one another.
 */
final class Member implements ConsumerRebalanceListener {
    interface Action { void run(KafkaConsumer<byte[], byte[]> client) throws Exception; }

    private final Ctx ctx;
    private final KafkaConsumer<byte[], byte[]> client;
    private final Thread thread;
    private volatile boolean polling = true;
    private volatile FutureTask<Void> asked;

    /** The numbers of the records it got. */
    final Set<Integer> seen = ConcurrentHashMap.newKeySet();
    /** How often partitions were given or taken. */
    final AtomicInteger changes = new AtomicInteger();
    volatile Set<Integer> partitions = Set.of();
    /** What ended its polling. */
    volatile Throwable error;

    Member(Ctx ctx, String topic, String group, String... conf) {
        this.ctx = ctx;
        client = ctx.consumer(group, conf);
        ctx.onClose(this::stop);
        client.subscribe(List.of(topic), this);
        thread = Runner.daemon(this::work);
        thread.start();
    }

    private void work() {
        try {
            while (polling) {
                try {
                    ctx.api.poll(client, 100).forEach(r -> seen.add(Rec.number(r)));
                    partitions = client.assignment().stream().map(p -> p.partition()).collect(Collectors.toSet());
                } catch (WakeupException wakeup) {
                    // stop() or ask() wants the thread
                }
                if (asked != null) {
                    asked.run();
                    asked = null;
                }
            }
        } catch (Throwable reason) {
            error = reason;
        }
    }

    @Override public void onPartitionsAssigned(Collection<TopicPartition> given) { changes.incrementAndGet(); }

    @Override public void onPartitionsRevoked(Collection<TopicPartition> taken) { changes.incrementAndGet(); }

    /** Run this in the thread that polls. */
    void ask(Action action) throws Exception {
        FutureTask<Void> task = new FutureTask<>(() -> {
            action.run(client);
            return null;
        });
        asked = task;
        client.wakeup();
        task.get();
    }

    /** Poll no more, without a word to the server. */
    void stop() throws InterruptedException {
        polling = false;
        while (thread.isAlive()) {
            client.wakeup();
            thread.join(100);
        }
    }

    /** Poll no more and leave the group. */
    void close() throws InterruptedException {
        stop();
        ctx.api.close(client);
    }

    /** Wait until the members have so many partitions, all of them apart. */
    static void settle(Ctx ctx, List<Member> members, Integer... counts) throws Exception {
        int sum = Arrays.stream(counts).mapToInt(n -> n).sum();
        ctx.until("shares of " + Arrays.toString(counts), () -> {
            Set<Integer> all = new HashSet<>();
            for (Member member : members) {
                if (member.error != null) throw new AssertionError("a member ended: " + member.error, member.error);
                all.addAll(member.partitions);
            }
            return all.size() == sum && members.stream().map(m -> m.partitions.size()).sorted().toList()
                .equals(Arrays.stream(counts).sorted().toList());
        });
    }
}
