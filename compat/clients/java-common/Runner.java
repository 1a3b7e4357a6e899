import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Runs the cases in threads, with time limits, and prints one JSON line for each: the command line and the lines
 * that ../README.md describes.
 */
final class Runner {
    /** Where the cases that need a restart of the server wait for it. */
    static final class Barrier {
        final CountDownLatch released = new CountDownLatch(1);
        final Semaphore events = new Semaphore(0);
        volatile String bootstrap;
    }

    private final Api api;
    private final Cases cases;
    private long limit = 30_000;

    private Runner(Api api, Cases cases) {
        this.api = api;
        this.cases = cases;
    }

    /** Ends the JVM: cases past their time may hang. */
    static void main(String client, Api api, Cases cases, String[] arguments) throws Exception {
        boolean ok = new Runner(api, cases).work(client, arguments);
        System.out.flush();
        Runtime.getRuntime().halt(ok ? 0 : 1);
    }

    private boolean work(String client, String[] arguments) throws Exception {
        String bootstrap = null;
        List<String> names = new ArrayList<>();
        boolean list = false, skipRestart = false;
        int parallel = 4;
        for (int i = 0; i < arguments.length; i++) {
            switch (arguments[i]) {
                case "--bootstrap" -> bootstrap = arguments[++i];
                case "--case" -> names.add(arguments[++i]);
                case "--limit" -> limit = (long) (Double.parseDouble(arguments[++i]) * 1000);
                case "--parallel" -> parallel = Integer.parseInt(arguments[++i]);
                case "--list" -> list = true;
                case "--skip-restart" -> skipRestart = true;
                default -> throw new IllegalArgumentException("unknown argument " + arguments[i]);
            }
        }
        String head = "{\"client\": " + quote(client) + ", \"version\": " + quote(AppInfoParser.getVersion());
        if (list) {
            List<String> all = cases.bodies.keySet().stream().map(Runner::quote).toList();
            System.out.println(head + ", \"cases\": " + all + "}");
            return true;
        }
        if (names.isEmpty()) names.addAll(cases.bodies.keySet());
        if (!cases.bodies.keySet().containsAll(names)) throw new IllegalArgumentException("no such case in " + names);
        System.out.println(head + "}");
        ExecutorService pool = Executors.newFixedThreadPool(parallel, Runner::daemon);
        List<Future<Boolean>> running = new ArrayList<>();
        for (String name : names) {
            String server = bootstrap;
            if (!name.startsWith("restart_")) running.add(pool.submit(() -> run(name, server, null)));
        }
        boolean ok = true;
        for (Future<Boolean> each : running) ok &= each.get();
        List<String> restarts = names.stream().filter(n -> n.startsWith("restart_")).toList();
        if (!restarts.isEmpty() && !skipRestart) ok &= runRestarts(restarts, bootstrap);
        return ok;
    }

    static Thread daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    /** All at once up to the restart, tell the harness, wait for its line, go on. */
    private boolean runRestarts(List<String> names, String bootstrap) throws Exception {
        Barrier barrier = new Barrier();
        List<FutureTask<Boolean>> tasks = new ArrayList<>();
        for (String name : names) {
            FutureTask<Boolean> task = new FutureTask<>(() -> {
                boolean ok = run(name, bootstrap, barrier);
                barrier.events.release();
                return ok;
            });
            tasks.add(task);
            daemon(task).start();
        }
        barrier.events.tryAcquire(names.size(), limit + 10_000, TimeUnit.MILLISECONDS);
        System.out.println("{\"waiting\": \"restart\"}");
        String[] line = new Scanner(System.in).nextLine().split(" ");
        barrier.bootstrap = line.length > 1 ? line[1] : bootstrap;
        barrier.released.countDown();
        boolean ok = true;
        for (FutureTask<Boolean> task : tasks) ok &= task.get();
        return ok;
    }

    /** Run one case, in a thread of its own so that it can be given up. */
    private boolean run(String name, String bootstrap, Barrier barrier) throws InterruptedException {
        Ctx ctx = new Ctx(api, name, bootstrap, barrier, limit);
        long start = System.nanoTime();
        Throwable[] problem = {null};
        Thread body = daemon(() -> {
            try {
                cases.bodies.get(name).run(ctx);
            } catch (Throwable error) {
                problem[0] = error;
            } finally {
                ctx.close();
            }
        });
        body.start();
        while (body.isAlive() && ctx.left() > -10_000) body.join(50);
        if (body.isAlive()) problem[0] = new AssertionError("no end after " + (limit / 1000 + 10) + " s");
        Throwable error = problem[0] instanceof ExecutionException e ? e.getCause() : problem[0];
        String detail = error == null ? ctx.detail : error + at(problem[0]);
        String line = "{\"case\": " + quote(name) + ", \"ok\": " + (error == null) + ", \"detail\": " + quote(detail)
            + (ctx.refused.isEmpty() ? "" : ", \"refused\": " + quote(ctx.refused))
            + ", \"ms\": " + (System.nanoTime() - start) / 1_000_000 + "}";
        synchronized (System.out) {
            System.out.println(line);
        }
        return error == null;
    }

    /** The line of the case that an error came from. */
    private static String at(Throwable error) {
        return Arrays.stream(error.getStackTrace())
            .filter(f -> !f.getClassName().contains(".") && !f.getClassName().matches("Ctx.*|Expect|Runner.*|Member"))
            .findFirst().map(f -> " (" + f.getFileName() + ":" + f.getLineNumber() + ")").orElse("");
    }

    static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < 32) out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        return out.append('"').toString();
    }
}
