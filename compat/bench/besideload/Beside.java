import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;

/**
 * Publishes at a steady rate until its input ends, and writes down when each message was handed to the producer (µs
 * since 1970) and how long its acknowledgement took (µs). A second topic may get messages at a rate of its own, which
 * are not written down. Says "ready" with the first acknowledgement. Any message that is refused fails it.
 */
final class Beside {
    private static final int MOST = 1_000_000;
    private static final int SIZE = 100;

    /** A stock producer. */
    interface Sender {
        /** Tells `done` of the acknowledgement, with what went wrong or null. */
        void send(String topic, byte[] value, Done done) throws Exception;

        void flush() throws Exception;
    }

    interface Done {
        void with(Throwable error);
    }

    interface Opener {
        Sender open(String address, String[] topics) throws Exception;
    }

    private final Sender sender;
    private final long[] sent = new long[MOST];
    private final long[] took = new long[MOST];
    private final AtomicInteger acknowledged = new AtomicInteger();
    private final AtomicReference<Throwable> failed = new AtomicReference<>();
    private volatile boolean ended;

    private Beside(Sender sender) {
        this.sender = sender;
    }

    /** ADDRESS FILE TOPIC RATE, and perhaps TOPIC RATE of the second one. */
    static void main(String[] arguments, Opener opener) {
        try {
            String[] topics = arguments.length > 4 ? new String[] {arguments[2], arguments[4]} : new String[] {arguments[2]};
            Beside beside = new Beside(opener.open(arguments[0], topics));
            Thread waiting = new Thread(beside::untilInputEnds);
            waiting.setDaemon(true);
            waiting.start();
            if (topics.length > 1) {
                Thread other = new Thread(() -> beside.trickle(topics[1], Integer.parseInt(arguments[5])));
                other.setDaemon(true);
                other.start();
            }
            int count = beside.publish(topics[0], Integer.parseInt(arguments[3]));
            beside.write(Path.of(arguments[1]), count);
            Runtime.getRuntime().halt(0);
        } catch (Throwable failure) {
            String why = failure.getCause() == null ? "" : ": " + failure.getCause();
            System.err.println("Beside: " + failure + why);
            Runtime.getRuntime().halt(1);
        }
    }

    private void untilInputEnds() {
        try {
            while (System.in.read() >= 0) {}
        } catch (IOException gone) {
            // as good as its end
        }
        ended = true;
    }

    private int publish(String topic, int rate) throws Exception {
        long wall = Instant.now().getEpochSecond() * 1_000_000 + Instant.now().getNano() / 1000;
        long start = System.nanoTime();
        int number = 0;
        for (; !ended && number < MOST; number++) {
            check();
            until(start + number * 1_000_000_000L / rate);
            int at = number;
            long now = System.nanoTime();
            sent[at] = wall + (now - start) / 1000;
            sender.send(topic, value(number), error -> {
                took[at] = (System.nanoTime() - now) / 1000;
                if (error != null) {
                    failed.compareAndSet(null, error);
                } else if (acknowledged.incrementAndGet() == 1) {
                    System.out.println("ready");
                    System.out.flush();
                }
            });
        }
        sender.flush();
        check();
        if (acknowledged.get() != number) {
            throw new IllegalStateException(number - acknowledged.get() + " messages were not acknowledged");
        }
        return number;
    }

    private void trickle(String topic, int rate) {
        try {
            long start = System.nanoTime();
            for (int number = 0; !ended; number++) {
                until(start + number * 1_000_000_000L / rate);
                sender.send(topic, value(number), error -> {
                    if (error != null) {
                        failed.compareAndSet(null, error);
                    }
                });
            }
        } catch (Throwable failure) {
            failed.compareAndSet(null, failure);
        }
    }

    private void check() throws Exception {
        if (failed.get() != null) {
            throw new IllegalStateException("a message was refused", failed.get());
        }
    }

    private static void until(long due) {
        for (long wait; (wait = due - System.nanoTime()) > 0; ) {
            LockSupport.parkNanos(wait);
        }
    }

    private static byte[] value(int number) {
        byte[] value = new byte[SIZE];
        ByteBuffer.wrap(value).putLong(number);
        return value;
    }

    private void write(Path file, int count) throws IOException {
        try (BufferedWriter out = Files.newBufferedWriter(file)) {
            for (int i = 0; i < count; i++) {
                out.write(sent[i] + " " + took[i] + "\n");
            }
        }
    }
}
