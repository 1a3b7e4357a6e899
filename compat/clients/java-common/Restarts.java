import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** Section "Restart of the server". */
final class Restarts {
    private Restarts() {}

    static void register(Cases cases) {
        cases.put("restart_resume_group", ctx -> {
            String topic = ctx.create(1), group = ctx.group();
            List<Rec> sent = Rec.sample(100);
            ctx.produce(topic, sent, "compression.type", "lz4");
            var first = ctx.consumer(group, "max.poll.records", "40");
            first.subscribe(List.of(topic));
            ctx.take(first, 40);
            first.commitSync();
            first.close();
            ctx.restart();
            var second = ctx.consumer(group);
            second.subscribe(List.of(topic));
            Expect.same(Rec.offsets(ctx.take(second, 60)), Rec.range(40, 100), "offsets after the restart");
            Expect.same(Rec.records(ctx.read(topic, 1, 100)), sent, "records from the beginning");
        });
        cases.put("restart_live_clients", ctx -> {
            String topic = ctx.create(2);
            var writer = ctx.producer("reconnect.backoff.max.ms", "500");
            Member reader = new Member(ctx, topic, ctx.group(), "reconnect.backoff.max.ms", "500");
            for (Rec r : Rec.sample(50)) writer.send(new ProducerRecord<>(topic, r.key(), r.value())).get();
            ctx.until("the records before", () -> reader.seen.size() == 50);
            reader.ask(client -> client.commitSync());
            ctx.restart();
            for (Rec r : Rec.sample(100).subList(50, 100)) {
                writer.send(new ProducerRecord<>(topic, r.key(), r.value())).get();
            }
            ctx.until("the records after", () -> reader.seen.size() == 100);
        });
        cases.put("restart_idempotent", ctx -> {
            String topic = ctx.create(1);
            var client = ctx.producer("reconnect.backoff.max.ms", "500", "enable.idempotence", "true");
            List<Rec> sent = Rec.sample(200);
            for (Rec r : sent.subList(0, 100)) client.send(new ProducerRecord<>(topic, r.key(), r.value()));
            client.flush();
            ctx.restart();
            List<Future<RecordMetadata>> futures = new ArrayList<>();
            for (Rec r : sent.subList(100, 200)) {
                futures.add(client.send(new ProducerRecord<>(topic, r.key(), r.value())));
            }
            client.flush();
            for (var future : futures) future.get();
            Expect.same(Rec.records(ctx.read(topic, 1, 200)), sent, "records");
        });
        cases.put("restart_topic_settings", ctx -> {
            String topic = ctx.create(3, "retention.ms", "123456789");
            Object id = ctx.api.topicId(ctx.describe(topic));
            ctx.restart();
            Expect.same(ctx.api.topicId(ctx.describe(topic)), id, "topic id");
            Expect.same(ctx.describe(topic).partitions().size(), 3, "partitions");
            Expect.same(ctx.config(topic, "retention.ms").value(), "123456789", "config");
        });
    }
}
