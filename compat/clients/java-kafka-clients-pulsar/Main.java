/** Pulsar's subscriptions with KafkaShareConsumer of the newest Java client; ../java-common has what it shares. */
public final class Main {
    public static void main(String[] arguments) throws Exception {
        Cases cases = new Cases();
        Times.register(cases);
        Letters.register(cases);
        Keys.register(cases);
        Exclusive.register(cases);
        Transactions.register(cases);
        Runner.main("java-kafka-clients-pulsar", new Since43(), cases, arguments);
    }
}
