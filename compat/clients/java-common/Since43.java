import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.errors.GroupIdNotFoundException;

/** The calls of the newest client. */
class Since43 extends Modern {
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
