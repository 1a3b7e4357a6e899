/** KafkaShareConsumer of the newest Java client; ../java-common has the cases. */
public final class Main {
    public static void main(String[] arguments) throws Exception {
        Cases cases = new Cases();
        ShareAcknowledging.register(cases);
        ShareMembers.register(cases);
        ShareTopics.register(cases);
        Runner.main("java-kafka-clients-share", new Since43(), cases, arguments);
    }
}
