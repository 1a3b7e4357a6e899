import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;

/** Acknowledgements that the server has confirmed, and what is left of them after it was killed. */
final class Kill {
    private Kill() {}

    /**
     * Acknowledges what has come and waits for the broker's receipts, again and again; kills the server's process as soon
     * as the receipts are there with which half of the messages are confirmed.
     */
    static Map<String, Object> confirm(Options o) throws Exception {
        Topic.make(o);
        Topic.fill(o);
        // without this option the client knows nothing of what became of an acknowledgement
        Consumer<byte[]> member = Topic.consumer(o, Topic.client(o)).isAckReceiptEnabled(true).subscribe();
        List<String> known = new ArrayList<>();
        long deadline = System.nanoTime() + o.limit.toNanos();
        while (known.size() < o.records / 2) {
            List<String> numbers = new ArrayList<>();
            List<CompletableFuture<Void>> receipts = new ArrayList<>();
            for (Message<byte[]> message : member.batchReceive()) {
                numbers.add(Integer.toString(Topic.number(message)));
                receipts.add(member.acknowledgeAsync(message));
            }
            CompletableFuture.allOf(receipts.toArray(CompletableFuture[]::new)).get(o.limit.toSeconds(), TimeUnit.SECONDS);
            if (known.size() + numbers.size() >= o.records / 2) {
                ProcessHandle.of(o.pid).orElseThrow().destroyForcibly();
            }
            known.addAll(numbers);
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("not confirmed in time");
            }
        }
        Files.write(o.file, known);
        return Map.of("confirmed", known.size());
    }

    /** Reads everything that comes: each message that was not confirmed must, those that were should not. */
    static Map<String, Object> again(Options o) throws Exception {
        Bits confirmed = new Bits(o.records);
        int was = 0;
        for (String number : Files.readAllLines(o.file)) {
            if (confirmed.add(Integer.parseInt(number))) {
                was++;
            }
        }
        Consumer<byte[]> member = Topic.consumer(o, Topic.client(o)).subscribe();
        Bits came = new Bits(o.records);
        int missing = o.records - was;
        int lost = 0;
        long deadline = System.nanoTime() + o.limit.toNanos();
        // and a while longer, for confirmed ones that may come last
        long quiet = 0;
        while (missing > 0 || System.nanoTime() < quiet) {
            Message<byte[]> message = member.receive(100, TimeUnit.MILLISECONDS);
            if (message != null) {
                member.acknowledgeAsync(message);
                int number = Topic.number(message);
                if (came.add(number)) {
                    if (confirmed.has(number)) {
                        lost++;
                    } else {
                        missing--;
                    }
                }
            }
            if (missing == 0 && quiet == 0) {
                quiet = System.nanoTime() + 3_000_000_000L;
            }
            if (missing > 0 && System.nanoTime() > deadline) {
                throw new IllegalStateException(missing + " messages that nobody had acknowledged did not come");
            }
        }
        return Map.of("lost", lost, "lost_percent", 100.0 * lost / Math.max(was, 1), "confirmed", was);
    }
}
