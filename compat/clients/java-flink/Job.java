import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * One job in a cluster of its own, in this process: what a topic gets goes to another, exactly once, with checkpoints
 * in the folder. A file `fail` there makes a task fail, once.
 *
 * Arguments: bootstrap, source topic, sink topic, group, folder, TransactionNamingStrategy, parallelism, and the
 * checkpoint to go on from, if any.
 */
final class Job {
    private Job() {}

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], from = arguments[1], to = arguments[2], group = arguments[3];
        String folder = arguments[4];
        Configuration settings = new Configuration();
        settings.set(CheckpointingOptions.CHECKPOINT_STORAGE, "filesystem");
        settings.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, Path.of(folder, "checkpoints").toUri().toString());
        settings.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(300));
        settings.set(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
            ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        settings.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        settings.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 100);
        settings.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(200));
        settings.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, MemorySize.ofMebiBytes(8));
        settings.set(TaskManagerOptions.NETWORK_MEMORY_MIN, MemorySize.ofMebiBytes(16));
        settings.set(TaskManagerOptions.NETWORK_MEMORY_MAX, MemorySize.ofMebiBytes(16));
        if (arguments.length > 7) settings.set(StateRecoveryOptions.SAVEPOINT_PATH, arguments[7]);

        StreamExecutionEnvironment job = StreamExecutionEnvironment.createLocalEnvironment(settings);
        job.setParallelism(Integer.parseInt(arguments[6]));
        job.disableOperatorChaining(); // so that a commit that is held holds up no writer
        Properties secured = new Properties();
        secured.putAll(Security.settings());
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setProperties(secured).setBootstrapServers(bootstrap).setTopics(from).setGroupId(group).setClientIdPrefix(group)
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
            .setKafkaProducerConfig(secured).setBootstrapServers(bootstrap)
            .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                .setTopic(to).setValueSerializationSchema(new SimpleStringSchema()).build())
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(group)
            .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(arguments[5]))
            .setProperty("transaction.timeout.ms", "300000")
            .build();
        job.fromSource(source, WatermarkStrategy.noWatermarks(), "source").uid("source")
            .map(value -> failing(Path.of(folder, "fail"), value)).returns(String.class).uid("map")
            .sinkTo(new HeldSink(sink, folder)).uid("sink");
        job.execute("compat");
    }

    private static String failing(Path file, String value) throws Exception {
        if (Files.deleteIfExists(file)) throw new IllegalStateException("a task that was told to fail");
        return value;
    }
}
