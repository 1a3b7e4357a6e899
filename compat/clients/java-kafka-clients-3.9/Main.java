import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaFuture;

/** The Java client 3.9; ../java-common has the cases. */
public final class Main extends Modern {
    public static void main(String[] arguments) throws Exception {
        Cases cases = Cases.all();
        Main api = new Main();
        Since39.register(cases, api);
        LegacyConfigs.register(cases);
        Runner.main("java-kafka-clients-3.9", api, cases, arguments);
    }

    @Override KafkaFuture<Map<String, TopicDescription>> describe(AdminClient client, String topic) {
        return client.describeTopics(List.of(topic)).allTopicNames();
    }
}
