import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import org.apache.flink.api.connector.sink2.Committer;
import org.apache.flink.api.connector.sink2.CommitterInitContext;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.connector.kafka.sink.KafkaCommittable;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.KafkaWriterState;
import org.apache.flink.connector.kafka.sink.TwoPhaseCommittingStatefulSink;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.streaming.api.connector.sink2.CommittableMessage;
import org.apache.flink.streaming.api.connector.sink2.SupportsPostCommitTopology;
import org.apache.flink.streaming.api.datastream.DataStream;

/**
 * Flink's KafkaSink as it is, but for this: while there is a file `hold` in the folder, who would commit says so by a
 * file `held`, and waits. That is the moment between pre-commit and commit: the checkpoint is complete, and names the
 * transactions; they are open.
 */
final class HeldSink
        implements TwoPhaseCommittingStatefulSink<String, KafkaWriterState, KafkaCommittable>,
            SupportsPostCommitTopology<KafkaCommittable> {
    private final KafkaSink<String> sink;
    private final String folder;

    HeldSink(KafkaSink<String> sink, String folder) {
        this.sink = sink;
        this.folder = folder;
    }

    @Override
    public PrecommittingStatefulSinkWriter<String, KafkaWriterState, KafkaCommittable> createWriter(
            WriterInitContext context) throws IOException {
        return sink.createWriter(context);
    }

    @Override
    public PrecommittingStatefulSinkWriter<String, KafkaWriterState, KafkaCommittable> restoreWriter(
            WriterInitContext context, Collection<KafkaWriterState> states) throws IOException {
        return sink.restoreWriter(context, states);
    }

    @Override
    public SimpleVersionedSerializer<KafkaWriterState> getWriterStateSerializer() {
        return sink.getWriterStateSerializer();
    }

    @Override
    public SimpleVersionedSerializer<KafkaCommittable> getCommittableSerializer() {
        return sink.getCommittableSerializer();
    }

    @Override
    public void addPostCommitTopology(DataStream<CommittableMessage<KafkaCommittable>> committables) {
        sink.addPostCommitTopology(committables);
    }

    @Override
    public Committer<KafkaCommittable> createCommitter(CommitterInitContext context) throws IOException {
        Committer<KafkaCommittable> committer = sink.createCommitter(context);
        Path hold = Path.of(folder, "hold");
        return new Committer<>() {
            @Override
            public void commit(Collection<CommitRequest<KafkaCommittable>> requests)
                    throws IOException, InterruptedException {
                while (!requests.isEmpty() && Files.exists(hold)) {
                    Files.writeString(Path.of(folder, "held"), "");
                    Thread.sleep(10);
                }
                committer.commit(requests);
            }

            @Override
            public void close() throws Exception { committer.close(); }
        };
    }
}
