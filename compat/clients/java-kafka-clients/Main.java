import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;

/** The newest Java client; ../java-common has the cases. */
public final class Main extends Modern {
    public static void main(String[] arguments) throws Exception {
        Cases cases = Cases.all();
        Main api = new Main();
        Since39.register(cases, api);
        cases.put("list_config_resources", ctx -> {
            String topic = ctx.create(1);
            var found = ctx.get(ctx.admin().listConfigResources(
                Set.of(ConfigResource.Type.TOPIC, ConfigResource.Type.BROKER), new ListConfigResourcesOptions()).all());
            Expect.check(found.contains(new ConfigResource(ConfigResource.Type.TOPIC, topic)), "the topic is missing");
            Expect.check(found.stream().anyMatch(r -> r.type() == ConfigResource.Type.BROKER), "no broker");
        });
        Runner.main("java-kafka-clients", api, cases, arguments);
    }

    @Override KafkaFuture<Map<String, TopicDescription>> describe(AdminClient client, String topic) {
        return client.describeTopics(List.of(topic)).allTopicNames();
    }

    @Override void close(Consumer<?, ?> client) { client.close(CloseOptions.timeout(PATIENCE)); }

    @Override Set<String> stableGroups(Ctx ctx) throws Exception {
        var options = new ListGroupsOptions().inGroupStates(Set.of(GroupState.STABLE))
            .withTypes(Set.of(GroupType.CLASSIC));
        return ctx.get(ctx.admin().listGroups(options).all()).stream()
            .map(group -> group.groupId()).collect(Collectors.toSet());
    }

    @Override void checkUnknownGroup(Ctx ctx, String group) {
        Expect.failure(GroupIdNotFoundException.class,
            () -> ctx.get(ctx.admin().describeConsumerGroups(List.of(group)).all()));
    }
}
