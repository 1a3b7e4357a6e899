// Runs the main methods of Kafka's console tools inside one JVM, several at a time.
//
// A request is a line on standard input, a response a line on standard output; the fields are separated by U+001F:
//   request:  id, main class, standard input (base64), argument, argument, ...
//   response: id, exit code, standard output (base64), standard error (base64)
// A tool sees its own System.in, out and err, and its exit ends only its own thread.

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.*;
import java.util.*;
import org.apache.kafka.common.utils.Exit;

public class ToolHost {
    static class Ended extends Error {}

    static class Call {
        final ByteArrayOutputStream out = new ByteArrayOutputStream(), err = new ByteArrayOutputStream();
        InputStream in = InputStream.nullInputStream();
        Integer code;
        final List<Runnable> hooks = new ArrayList<>();
    }

    // Threads that a tool starts inherit its call.
    static final InheritableThreadLocal<Call> CALL = new InheritableThreadLocal<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out, complaints = System.err;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        System.setOut(new PrintStream(new Routed(false, complaints), true, UTF_8));
        System.setErr(new PrintStream(new Routed(true, complaints), true, UTF_8));
        System.setIn(new InputStream() {
            @Override public int read() throws IOException { return CALL.get().in.read(); }
            @Override public int read(byte[] b, int from, int length) throws IOException {
                return CALL.get().in.read(b, from, length);
            }
        });
        Exit.Procedure end = (code, message) -> {
            if (CALL.get().code == null) CALL.get().code = code;
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((name, hook) -> CALL.get().hooks.add(hook));
        for (String line; (line = requests.readLine()) != null; ) {
            String[] fields = line.split("\u001f", -1);
            new Thread(() -> answer(fields, answers)).start();
        }
        Runtime.getRuntime().halt(0);
    }

    static void answer(String[] fields, PrintStream answers) {
        Call call = new Call();
        CALL.set(call);
        call.in = new ByteArrayInputStream(Base64.getDecoder().decode(fields[2]));
        String[] arguments = Arrays.copyOfRange(fields, 3, fields.length);
        try {
            Class<?> tool = Class.forName(fields[1]);
            synchronized (tool) {  // tools count in static fields
                tool.getMethod("main", String[].class).invoke(null, (Object) arguments);
            }
        } catch (Throwable error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            if (!(cause instanceof Ended)) {
                cause.printStackTrace();
                if (call.code == null) call.code = 1;
            }
        }
        for (Runnable hook : call.hooks) {
            try {
                hook.run();
            } catch (Throwable error) {
                // What a hook cannot close any more is closed already.
            }
        }
        Base64.Encoder base64 = Base64.getEncoder();
        synchronized (answers) {
            answers.println(fields[0] + "\u001f" + (call.code == null ? 0 : call.code)
                + "\u001f" + base64.encodeToString(call.out.toByteArray())
                + "\u001f" + base64.encodeToString(call.err.toByteArray()));
        }
    }

    // Bytes go to the call of the thread that writes them.
    static class Routed extends OutputStream {
        final boolean error;
        final PrintStream fallback;

        Routed(boolean error, PrintStream fallback) {
            this.error = error;
            this.fallback = fallback;
        }

        OutputStream target() {
            Call call = CALL.get();
            return call == null ? fallback : error ? call.err : call.out;
        }

        @Override public void write(int b) throws IOException { target().write(b); }
        @Override public void write(byte[] b, int from, int length) throws IOException {
            target().write(b, from, length);
        }
    }
}
