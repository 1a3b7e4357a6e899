import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.pulsar.admin.cli.PulsarAdminSupplier;
import org.apache.pulsar.admin.cli.PulsarAdminTool;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import picocli.CommandLine;

/**
 * Runs one pulsar-admin command after another in one JVM. The argument of the program is the URL of the admin API. A line
 * on standard input is a JSON object, and so is the line that answers it:
 *
 * <p>{"run": [argument, …]} runs a command: {"code", "out", "err", "ms"}; with "fresh": true by an HTTP client of its own,
 * which says who it is. {"model": true} asks for the tool's own list of commands. {"produce": topic, "service": "pulsar://…", "first": i, "count": n} sends the messages "m-i" to "m-(i+n-1)".
 */
final class AdminRunner {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** The tool as its main method makes it, once for each command; what is protected there is reached from here. */
    private static final class Tool extends PulsarAdminTool {
        Tool(Properties properties) throws Exception {
            super(properties);
        }

        boolean does(String[] arguments) {
            return run(arguments);
        }

        CommandLine commands() {
            return commander;
        }

        PulsarAdminSupplier clients() {
            return pulsarAdminSupplier;
        }
    }

    private final Properties properties = new Properties();
    /** The HTTP client, made by the first command; to make one takes longer than most commands. */
    private PulsarAdmin client;

    private PulsarClient producers;

    private AdminRunner(String url) {
        properties.setProperty("webServiceUrl", url);
    }

    public static void main(String[] arguments) throws Exception {
        AdminRunner runner = new AdminRunner(arguments[0]);
        InputStream in = System.in;
        PrintStream out = System.out;
        // nobody is there to answer questions
        System.setIn(new ByteArrayInputStream(new byte[0]));
        BufferedReader lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(JSON.writeValueAsString(runner.answer(JSON.readTree(line))));
            out.flush();
        }
        System.exit(0);
    }

    private Object answer(JsonNode asked) throws Exception {
        if (asked.has("model")) {
            return model();
        }
        if (asked.has("produce")) {
            return produce(asked);
        }
        return run(JSON.treeToValue(asked.get("run"), String[].class), asked.path("fresh").asBoolean());
    }

    private Map<String, Object> run(String[] arguments, boolean fresh) {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        PrintStream out = System.out;
        PrintStream err = System.err;
        long began = System.nanoTime();
        boolean good;
        System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
        try {
            Tool tool = new Tool(properties);
            Field kept = PulsarAdminSupplier.class.getDeclaredField("admin");
            kept.setAccessible(true);
            kept.set(tool.clients(), fresh ? null : client);
            good = tool.does(arguments);
            PulsarAdmin used = (PulsarAdmin) kept.get(tool.clients());
            if (!fresh) {
                client = used;
            } else if (used != null) {
                used.close();
            }
        } catch (Exception failed) {
            failed.printStackTrace();
            good = false;
        } finally {
            System.out.flush();
            System.err.flush();
            System.setOut(out);
            System.setErr(err);
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("code", good ? 0 : 1);
        answer.put("out", said.toString(StandardCharsets.UTF_8));
        answer.put("err", complained.toString(StandardCharsets.UTF_8));
        answer.put("ms", (System.nanoTime() - began) / 1_000_000);
        return answer;
    }

    /** Noun -> {"hidden", "verbs": verb -> hidden}. */
    private Map<String, Object> model() throws Exception {
        Map<String, Object> nouns = new LinkedHashMap<>();
        Set<CommandLine> seen = new HashSet<>();
        for (Map.Entry<String, CommandLine> noun : new Tool(properties).commands().getSubcommands().entrySet()) {
            if (!seen.add(noun.getValue())) {
                continue; // an alias
            }
            Map<String, Boolean> verbs = new LinkedHashMap<>();
            for (Map.Entry<String, CommandLine> verb : noun.getValue().getSubcommands().entrySet()) {
                if (seen.add(verb.getValue())) {
                    verbs.put(verb.getKey(), hidden(verb.getValue()));
                }
            }
            nouns.put(noun.getKey(), Map.of("hidden", hidden(noun.getValue()), "verbs", verbs));
        }
        return nouns;
    }

    private static boolean hidden(CommandLine command) {
        return command.getCommandSpec().usageMessage().hidden();
    }

    private Map<String, Object> produce(JsonNode asked) throws Exception {
        if (producers == null) {
            producers = PulsarClient.builder().serviceUrl(asked.get("service").asText()).build();
        }
        int first = asked.get("first").asInt();
        int count = asked.get("count").asInt();
        // a batch of one, as the other servers get them
        try (Producer<String> producer = producers
                .newProducer(Schema.STRING)
                .topic(asked.get("produce").asText())
                .enableBatching(false)
                .create()) {
            for (int number = first; number < first + count; number++) {
                producer.newMessage().key("k-" + number).value("m-" + number).property("n", "" + number).send();
            }
        }
        return Map.of("sent", count);
    }
}
