import java.util.List;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;

/** What takes a transactional id from a producer that has it: another producer, and an administrator. */
final class Fencing {
    private Fencing() {}

    static void register(Cases cases) {
        var before = cases.bodies.get("transactions");
        cases.put("transactions", ctx -> {
            before.run(ctx);
            if (ctx.refused.isEmpty()) fenced(ctx);
        });
    }

    private static void fenced(Ctx ctx) throws Exception {
        String topic = ctx.create(1), id = ctx.unique("x");
        var first = ctx.producer("transactional.id", id);
        first.initTransactions();
        write(first, topic, 0);
        first.flush();
        var second = ctx.producer("transactional.id", id);
        second.initTransactions();
        write(second, topic, 1);
        second.commitTransaction();
        isFenced(first::commitTransaction);

        write(second, topic, 2);
        second.flush();
        ctx.get(ctx.admin().fenceProducers(List.of(id)).all());
        isFenced(second::commitTransaction);
        var third = ctx.producer("transactional.id", id);
        third.initTransactions();
        write(third, topic, 3);
        third.commitTransaction();

        var got = ctx.read(topic, 1, 2, "isolation.level", "read_committed");
        Expect.same(got.stream().map(r -> r.value()[0]).toList(), List.of((byte) 1, (byte) 3), "committed records");
    }

    private static void write(Producer<byte[], byte[]> client, String topic, int value) {
        client.beginTransaction();
        client.send(new ProducerRecord<>(topic, new byte[] {(byte) value}));
    }

    /** The client knows two words for it, one for each protocol. */
    private static void isFenced(Expect.Action action) throws Exception {
        try {
            action.run();
        } catch (ProducerFencedException | InvalidProducerEpochException error) {
            return;
        }
        throw new AssertionError("the producer is not fenced");
    }
}
