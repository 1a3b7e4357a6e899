import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.config.ConfigResource;

/** AlterConfigs, which replaces the whole set: until 3.9. */
final class LegacyConfigs {
    private LegacyConfigs() {}

    static void register(Cases cases) {
        cases.put("alter_configs_legacy", ctx -> {
            String topic = ctx.create(1, "retention.ms", "5000");
            replace(ctx, topic, Map.of("max.message.bytes", "2000"));
            ctx.until("the value", () -> ctx.config(topic, "max.message.bytes").value().equals("2000"));
            Expect.check(ctx.config(topic, "retention.ms").isDefault(), "the other value is still set");
        });
    }

    /** Give the topic these configs and take all others back to their defaults. */
    static void replace(Ctx ctx, String topic, Map<String, String> configs) throws Exception {
        List<ConfigEntry> entries = configs.entrySet().stream()
            .map(config -> new ConfigEntry(config.getKey(), config.getValue())).toList();
        ctx.get(ctx.admin().alterConfigs(
            Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic), new Config(entries))).all());
    }

    /** Set one config and leave the others; value null takes it back to its default. */
    static void set(Ctx ctx, String topic, String name, String value) throws Exception {
        Map<String, String> configs = new HashMap<>();
        for (ConfigEntry entry : ctx.config(ConfigResource.Type.TOPIC, topic).entries()) {
            if (entry.source().name().equals("DYNAMIC_TOPIC_CONFIG")) configs.put(entry.name(), entry.value());
        }
        configs.put(name, value);
        if (value == null) configs.remove(name);
        replace(ctx, topic, configs);
    }
}
