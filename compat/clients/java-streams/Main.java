/** Kafka Streams on topics as Kafka has them, by its default protocol. ../java-common has what it shares. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        Cases cases = new Cases();
        Counting.register(cases);
        ExactlyOnce.register(cases);
        State.register(cases);
        Windows.register(cases);
        Joins.register(cases);
        Runner.main("java-streams", new Since43(), cases, arguments);
    }
}
