import com.google.gson.Gson;

/**
 * Drives a subscription of Pulsar with its Java client and prints what it saw as JSON: what shareload does with a share
 * group. See the README of compat/bench. The client's settings are its defaults unless a load says otherwise.
 */
public final class PulsarLoad {
    private static final String USAGE = """
            usage: PulsarLoad LOAD [flags]

            loads:
              backlog    fills a topic, then members read it together; each message is acknowledged by itself
              dead       fills a topic, nacks a part of it for ever, waits until that part is in the dead letter topic
              latency    from publishing to delivery at a steady rate
              delayed    messages that are due later: how late they come, and how many come early
              confirm    acknowledges half of a topic, waits for the receipts, and kills the server's process at once
              again      after confirm and a restart: reads what is left and counts what had been confirmed
              fill       fills a topic with a subscription, and that is all

            The flags are the fields of Options.java (-records 100000, -warmup 12, …). Exit code 1: the load failed, or a
            message came that must not or did not come.
            """;

    public static void main(String[] arguments) throws Exception {
        try {
            Options o = new Options(arguments);
            Object figures = switch (o.load) {
                case "backlog" -> new Backlog(o).read();
                case "dead" -> new Backlog(o).dead();
                case "latency" -> new Steady(o, false).run();
                case "delayed" -> new Steady(o, true).run();
                case "confirm" -> Kill.confirm(o);
                case "again" -> Kill.again(o);
                case "fill" -> Topic.filled(o);
                default -> throw new IllegalArgumentException(USAGE);
            };
            System.out.println(new Gson().toJson(figures));
            System.out.flush();
            // no goodbye to a server that may be dead
            Runtime.getRuntime().halt(0);
        } catch (IllegalArgumentException wrong) {
            System.err.println(wrong.getMessage());
            Runtime.getRuntime().halt(2);
        } catch (Throwable failure) {
            System.err.println("PulsarLoad: " + failure);
            Runtime.getRuntime().halt(1);
        }
    }
}
