/** Queue topics with KafkaConsumer of the newest Java client; ../java-common has the cases. */
public final class Main {
    public static void main(String[] arguments) throws Exception {
        Cases cases = new Cases();
        QueueCommits.register(cases);
        QueueMembers.register(cases);
        Protocol.register(cases);
        Transactions.register(cases);
        Runner.main("java-kafka-clients-queue", new Since43(), cases, arguments);
    }
}
