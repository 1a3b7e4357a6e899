import java.util.concurrent.atomic.AtomicIntegerArray;

/** A set of numbers that several threads fill. */
final class Bits {
    private final AtomicIntegerArray words;

    Bits(int size) {
        words = new AtomicIntegerArray(size / 32 + 1);
    }

    /** Puts the number in; false if it was there. */
    boolean add(int number) {
        int bit = 1 << (number & 31);
        return (words.getAndUpdate(number >> 5, word -> word | bit) & bit) == 0;
    }

    boolean has(int number) {
        return (words.get(number >> 5) & 1 << (number & 31)) != 0;
    }
}
