import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.errors.GroupMaxSizeReachedException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Groups of type exclusive and failover: who is refused, and who has which partition. */
final class Exclusive {
    private static final String TYPE = "pulsar.subscription.type";
    private static final String ASSIGNOR = "partition.assignment.strategy", PROTOCOL = "group.protocol";

    private Exclusive() {}

    private static KafkaConsumer<byte[], byte[]> member(Ctx ctx, String group, String topic, String... conf) {
        Map<String, Object> settings = new HashMap<>(Ctx.pairs("bootstrap.servers", ctx.bootstrap, "group.id", group,
            "auto.offset.reset", "earliest"));
        settings.putAll(Security.settings());
        settings.putAll(Ctx.pairs(conf));
        if (!settings.containsKey(PROTOCOL)) settings.put("heartbeat.interval.ms", "200");
        var client = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        ctx.onClose(() -> client.close());
        client.subscribe(List.of(topic));
        return client;
    }

    /** The partitions that it has now. */
    private static Set<Integer> has(KafkaConsumer<byte[], byte[]> client) {
        client.poll(Duration.ofMillis(50));
        Set<Integer> found = new TreeSet<>();
        client.assignment().forEach(each -> found.add(each.partition()));
        return found;
    }

    static void register(Cases cases) {
        cases.put("pulsar_exclusive", ctx -> {
            String topic = ctx.create(2);
            for (String protocol : List.of("classic", "consumer")) {
                String group = Sharer.group(ctx, TYPE, "exclusive");
                var first = member(ctx, group, topic, PROTOCOL, protocol);
                ctx.until("all partitions", () -> has(first).size() == 2);
                for (String other : List.of("classic", "consumer")) {
                    var second = member(ctx, group, topic, PROTOCOL, other);
                    Expect.failure(GroupMaxSizeReachedException.class, () -> ctx.until("it to be refused", () -> {
                        has(second);
                        return false;
                    }));
                }
                Expect.same(has(first).size(), 2, "partitions of the first");
            }
            String group = Sharer.group(ctx, TYPE, "exclusive");
            var first = new Sharer(ctx, group, topic);
            ctx.until("it to be a member", () -> {
                first.poll();
                var found = ctx.admin().describeShareGroups(List.of(group)).all().get().get(group);
                return found.members().size() == 1;
            });
            var second = new Sharer(ctx, group, topic);
            Expect.failure(GroupMaxSizeReachedException.class, () -> ctx.until("it to be refused", () -> {
                second.poll();
                return false;
            }));
        });
        cases.put("pulsar_failover", ctx -> {
            String topic = ctx.create(3);
            for (String[] conf : new String[][] {{ASSIGNOR, RangeAssignor.class.getName()},
                    {ASSIGNOR, CooperativeStickyAssignor.class.getName()}, {PROTOCOL, "consumer"}}) {
                String group = Sharer.group(ctx, TYPE, "failover");
                var b = member(ctx, group, topic, "client.id", "b", conf[0], conf[1]);
                ctx.until("all partitions", () -> has(b).size() == 3);
                var a = member(ctx, group, topic, "client.id", "a", conf[0], conf[1]);
                ctx.until("its partitions", () -> has(b).equals(Set.of(1)) & has(a).equals(Set.of(0, 2)));
                a.close();
                ctx.until("those of who is gone", () -> has(b).size() == 3);
            }
        });
    }
}
