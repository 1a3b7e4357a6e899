import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.LongStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** A key and a value, compared byte for byte. */
record Rec(byte[] key, byte[] value) {
    static Rec of(String key, String value) {
        return new Rec(key == null ? null : key.getBytes(UTF_8), value == null ? null : value.getBytes(UTF_8));
    }

    @Override public boolean equals(Object o) {
        return o instanceof Rec r && Arrays.equals(key, r.key) && Arrays.equals(value, r.value);
    }

    @Override public int hashCode() { return Arrays.hashCode(key); }

    @Override public String toString() { return text(key) + "=" + text(value); }

    private static String text(byte[] bytes) {
        return bytes == null ? "null" : new String(bytes, 0, Math.min(bytes.length, 20), UTF_8);
    }

    /** Records "key-0", "key-1", …; half of a value is text, half noise. */
    static List<Rec> sample(int count, int size) {
        Random noise = new Random(7);
        List<Rec> records = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            byte[] value = new byte[size];
            noise.nextBytes(value);
            Arrays.fill(value, 0, size / 2, (byte) '.');
            records.add(new Rec(("key-" + n).getBytes(UTF_8), value));
        }
        return records;
    }

    static List<Rec> sample(int count) { return sample(count, 100); }

    static List<Rec> records(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(r -> new Rec(r.key(), r.value())).toList();
    }

    static List<Long> offsets(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(ConsumerRecord::offset).toList();
    }

    static List<Long> range(long from, long to) { return LongStream.range(from, to).boxed().toList(); }

    /** The n of "key-n". */
    static int number(ConsumerRecord<byte[], byte[]> record) {
        return Integer.parseInt(new String(record.key(), UTF_8).split("-")[1]);
    }
}
