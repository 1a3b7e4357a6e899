import java.util.Set;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.common.config.ConfigResource;

/** The newest Java client; ../java-common has the cases. */
public final class Main {
    public static void main(String[] arguments) throws Exception {
        Cases cases = Cases.all();
        Since43 api = new Since43();
        Since39.register(cases, api);
        NewProtocol.register(cases);
        Fencing.register(cases);
        cases.put("list_config_resources", ctx -> {
            String topic = ctx.create(1);
            var found = ctx.get(ctx.admin().listConfigResources(
                Set.of(ConfigResource.Type.TOPIC, ConfigResource.Type.BROKER), new ListConfigResourcesOptions()).all());
            Expect.check(found.contains(new ConfigResource(ConfigResource.Type.TOPIC, topic)), "the topic is missing");
            Expect.check(found.stream().anyMatch(r -> r.type() == ConfigResource.Type.BROKER), "no broker");
        });
        Runner.main("java-kafka-clients", api, cases, arguments);
    }
}
