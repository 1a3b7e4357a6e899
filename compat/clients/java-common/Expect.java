import java.util.Objects;
import java.util.concurrent.ExecutionException;

/** Assertions that say what was found. */
final class Expect {
    interface Action { void run() throws Exception; }

    private Expect() {}

    static void check(boolean condition, String what) {
        if (!condition) throw new AssertionError(what);
    }

    static void same(Object actual, Object expected, String what) {
        if (!Objects.equals(actual, expected)) {
            String text = String.valueOf(actual);
            if (text.length() > 300) text = text.substring(0, 300) + "…";
            throw new AssertionError(what + ": got " + text + ", expected " + expected);
        }
    }

    /** The error of this kind that an action raises; fails when there is none. */
    static Throwable failure(Class<? extends Throwable> kind, Action action) {
        try {
            action.run();
        } catch (Throwable error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            if (kind.isInstance(cause)) return cause;
            throw new AssertionError("expected " + kind.getSimpleName() + ", got " + cause);
        }
        throw new AssertionError("expected " + kind.getSimpleName() + ", got no error");
    }
}
