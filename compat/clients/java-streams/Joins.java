import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TableJoined;

/** Joins of streams and tables; what must come out follows from times and keys alone. */
final class Joins {
    private static final int KEYS = 10, COUNT = 200;
    private static final long SECOND = 1000;

    private Joins() {}

    static void register(Cases cases) {
        cases.put("streams_stream_join", Joins::streams);
        cases.put("streams_table_join", Joins::table);
        cases.put("streams_global_table_join", Joins::global);
        cases.put("streams_foreign_key_join", Joins::foreign);
    }

    /** A record of each key every minute on the left; on the right five seconds later, but for every third. */
    private static void streams(Ctx ctx) throws Exception {
        App app = new App(ctx, ExactlyOnce.GUARANTEE, "max.task.idle.ms", "200");
        String left = ctx.create(2), right = ctx.create(2);
        String inner = ctx.create(1), outer = ctx.create(1);
        var window = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(10));
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> ones = builder.stream(left), others = builder.stream(right);
        ones.join(others, (one, other) -> one + "&" + other, window).to(inner);
        ones.outerJoin(others, (one, other) -> one + "&" + other, window).to(outer);
        List<App.Line> lefts = new ArrayList<>(), rights = new ArrayList<>();
        List<String> both = new ArrayList<>(), all = new ArrayList<>();
        long begin = System.currentTimeMillis() - 6 * 3_600_000;
        for (int n = 0; n < COUNT; n++) {
            String key = "key-" + n % KEYS;
            long time = begin + n / KEYS * 60 * SECOND + n % KEYS;
            lefts.add(new App.Line(key, "l" + n, time));
            if (n % 3 != 0) rights.add(new App.Line(key, "r" + n, time + 5 * SECOND));
            (n % 3 != 0 ? both : all).add(key + "=l" + n + "&" + (n % 3 != 0 ? "r" + n : "null"));
            if (n % 3 == 0) {
                rights.add(new App.Line(key, "r" + n, time + 25 * SECOND));
                all.add(key + "=null&r" + n);
            }
        }
        all.addAll(both);
        rights.sort(Comparator.comparingLong(App.Line::time));
        app.feed(left, lefts);
        app.feed(right, rights);
        try (var one = app.start(builder.build())) {
            long[] late = {begin + 5 * 3_600 * SECOND};
            app.until("the inner join", () -> app.read(inner).size() >= both.size());
            app.until("the outer join", () -> {
                // records of other keys move the time on; who is alone is looked for once a second only
                late[0] += SECOND;
                for (String topic : List.of(left, right)) {
                    app.feed(topic, IntStream.range(0, 50).mapToObj(n -> new App.Line("end-" + n, "", late[0])).toList());
                }
                return ordinary(app, outer).size() >= all.size();
            });
        }
        App.same(ordinary(app, inner), both, "inner join");
        App.same(ordinary(app, outer), all, "outer join");
    }

    /** All but what moved the time on. */
    private static List<String> ordinary(App app, String topic) throws Exception {
        return App.sorted(app.read(topic).stream().filter(one -> !one.key().startsWith("end-")).toList());
    }

    /** Each record meets the value that its key had at its time: the table changes every minute. */
    private static void table(Ctx ctx) throws Exception {
        App app = new App(ctx, ExactlyOnce.GUARANTEE, "max.task.idle.ms", "200");
        String stream = ctx.create(2), table = ctx.create(2, "cleanup.policy", "compact"), out = ctx.create(1);
        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, String> prices = builder.table(table);
        builder.<String, String>stream(stream).leftJoin(prices, (one, price) -> one + "&" + price).to(out);
        List<App.Line> changes = new ArrayList<>(), records = new ArrayList<>();
        List<String> expected = new ArrayList<>();
        long begin = System.currentTimeMillis() - 6 * 3_600_000;
        for (int n = 0; n < COUNT; n++) {
            String key = "key-" + n % KEYS;
            int minute = n / KEYS;
            long time = begin + minute * 60 * SECOND;
            // every fifth change takes the value away
            String price = minute % 5 == 4 ? null : "p" + minute;
            changes.add(new App.Line(key, price, time));
            records.add(new App.Line(key, "s" + n, time + 30 * SECOND));
            expected.add(key + "=s" + n + "&" + price);
        }
        app.feed(table, changes);
        app.feed(stream, records);
        try (var one = app.start(builder.build())) {
            app.until("the join", () -> app.read(out).size() >= COUNT);
        }
        App.same(App.sorted(app.read(out)), expected, "each with the value of its time");
    }

    /** A table that every instance has as a whole, by a key from the value. */
    private static void global(Ctx ctx) throws Exception {
        App app = new App(ctx, ExactlyOnce.GUARANTEE);
        String stream = ctx.create(3), table = ctx.create(2, "cleanup.policy", "compact"), out = ctx.create(1);
        StreamsBuilder builder = new StreamsBuilder();
        var regions = builder.<String, String>globalTable(table);
        builder.<String, String>stream(stream).join(regions, (key, region) -> region, (region, name) -> region + "&" + name).to(out);
        List<App.Line> names = new ArrayList<>(), records = new ArrayList<>();
        List<String> expected = new ArrayList<>();
        for (int n = 0; n < KEYS; n++) names.add(App.Line.of("region-" + n, "old"));
        for (int n = 0; n < KEYS; n++) names.add(App.Line.of("region-" + n, "name-" + n));
        for (int n = 0; n < COUNT; n++) {
            records.add(App.Line.of("user-" + n, "region-" + n % (KEYS + 1)));
            // the last region is nowhere
            if (n % (KEYS + 1) < KEYS) expected.add("user-" + n + "=region-" + n % (KEYS + 1) + "&name-" + n % (KEYS + 1));
        }
        app.feed(table, names);
        app.feed(stream, records);
        for (int round = 0; round < 2; round++) {
            try (var one = app.start(builder.build())) {
                app.until("the join", () -> app.read(out).size() >= expected.size());
            }
        }
        App.same(App.sorted(app.read(out)), expected, "joined, once, over two instances");
    }

    /** Orders name their customer; both change, and in the end each order has its customer's last name. */
    private static void foreign(Ctx ctx) throws Exception {
        App app = new App(ctx, ExactlyOnce.GUARANTEE);
        String orders = ctx.create(3, "cleanup.policy", "compact"), customers = ctx.create(2, "cleanup.policy", "compact");
        String out = ctx.create(1, "cleanup.policy", "compact");
        Map<String, String> whose = new TreeMap<>(), names = new TreeMap<>();
        var first = app.start(foreign(orders, customers, out));
        for (int round = 0; round < 4; round++) {
            List<App.Line> changed = new ArrayList<>();
            for (int n = 0; n < KEYS; n++) {
                String name = (n + round) % 5 == 0 ? null : "name-" + n + "-" + round;
                change(names, changed, "customer-" + n, name);
            }
            app.feed(customers, changed);
            changed.clear();
            for (int n = 0; n < COUNT; n++) {
                if (n % 4 > round) continue;
                change(whose, changed, "order-" + n, (n + round) % 11 == 0 ? null : "customer-" + (n + round) % (KEYS + 1));
            }
            app.feed(orders, changed);
            Map<String, String> expected = new TreeMap<>();
            whose.forEach((order, customer) -> {
                if (names.containsKey(customer)) expected.put(order, customer + "&" + names.get(customer));
            });
            app.until("the join of round " + round, () -> App.last(app.read(out)).equals(expected));
            if (round == 1) {
                first.close();
                first = app.start(foreign(orders, customers, out));
            }
        }
        first.close();
    }

    private static void change(Map<String, String> all, List<App.Line> changed, String key, String value) {
        changed.add(App.Line.of(key, value));
        if (value == null) all.remove(key);
        else all.put(key, value);
    }

    private static Topology foreign(String orders, String customers, String out) {
        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, String> names = builder.table(customers);
        builder.<String, String>table(orders).join(names, customer -> customer,
            (customer, name) -> customer + "&" + name, TableJoined.as("whose"),
            Materialized.with(Serdes.String(), Serdes.String())).toStream().to(out);
        return builder.build();
    }
}
