import java.util.LinkedHashMap;
import java.util.Map;

/** The cases by name, in the order of their registration. A later registration of a name replaces the earlier one. */
final class Cases {
    interface Body { void run(Ctx ctx) throws Exception; }

    final Map<String, Body> bodies = new LinkedHashMap<>();

    void put(String name, Body body) { bodies.put(name, body); }

    void remove(String... names) {
        for (String name : names) bodies.remove(name);
    }

    /** What every version can do. */
    static Cases all() {
        Cases cases = new Cases();
        Records.register(cases);
        Consuming.register(cases);
        Groups.register(cases);
        Restarts.register(cases);
        Administration.register(cases);
        Errors.register(cases);
        return cases;
    }
}
