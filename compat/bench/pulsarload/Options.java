import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/** The command line: a load, then flags with a value each and switches without one. */
final class Options {
    private static final Set<String> SWITCHES = Set.of("all", "ordered");

    final String load;
    final String broker;
    final String admin;
    final String topic;
    final String subscription;
    final int partitions;
    final int records;
    final int size;
    final int keys;
    final int members;
    final boolean ordered;
    final boolean all;
    final Duration warmup;
    final Duration duration;
    final Duration limit;
    final int atLeast;
    final int nackEvery;
    final Duration nackDelay;
    final int maxRedeliverCount;
    final int rate;
    final long pid;
    final Path file;

    Options(String[] arguments) {
        load = arguments.length == 0 ? "" : arguments[0];
        Map<String, String> given = new HashMap<>();
        for (int i = 1; i < arguments.length; i++) {
            String name = arguments[i].replaceFirst("^-+", "");
            if (SWITCHES.contains(name)) {
                given.put(name, "true");
            } else if (i + 1 < arguments.length) {
                given.put(name, arguments[++i]);
            } else {
                throw new IllegalArgumentException(arguments[i] + " needs a value");
            }
        }
        broker = text(given, "broker", "pulsar://127.0.0.1:6650");
        admin = text(given, "admin", "http://127.0.0.1:8080");
        topic = "persistent://public/default/" + text(given, "topic", "bench-share");
        subscription = text(given, "subscription", "bench-share");
        partitions = number(given, "partitions", 4);
        records = number(given, "records", 100_000);
        size = number(given, "size", 100);
        keys = number(given, "keys", 0);
        members = number(given, "members", 4);
        ordered = given.remove("ordered") != null;
        all = given.remove("all") != null;
        warmup = seconds(given, "warmup", 2);
        duration = seconds(given, "duration", 10);
        limit = seconds(given, "limit", 120);
        atLeast = number(given, "at-least", 0);
        nackEvery = number(given, "nack-every", 0);
        nackDelay = Duration.ofMillis(number(given, "nack-delay-ms", 60_000));
        maxRedeliverCount = number(given, "max-redeliver-count", 0);
        rate = number(given, "rate", 5_000);
        pid = number(given, "pid", 0);
        file = Path.of(text(given, "file", "confirmed.txt"));
        if (!given.isEmpty()) {
            throw new IllegalArgumentException("unknown: " + given.keySet());
        }
    }

    private static String text(Map<String, String> given, String name, String otherwise) {
        String value = given.remove(name);
        return value == null ? otherwise : value;
    }

    private static int number(Map<String, String> given, String name, int otherwise) {
        return Integer.parseInt(text(given, name, Integer.toString(otherwise)));
    }

    private static Duration seconds(Map<String, String> given, String name, int otherwise) {
        return Duration.ofSeconds(number(given, name, otherwise));
    }
}
