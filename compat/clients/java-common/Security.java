import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.utils.AppInfoParser;

/** What a program is told of TLS and logins (COMPAT_SECURITY, ../README.md), as properties of a client. */
final class Security {
    private static final String PACKAGE = "org.apache.kafka.common.security.";
    private static final Map<String, String> SETTINGS = settings(told());

    private Security() {}

    /** Empty where clients connect in the clear. */
    static Map<String, String> settings() { return SETTINGS; }

    /** The variable is an object of texts without escapes. */
    private static Map<String, String> told() {
        Map<String, String> found = new HashMap<>();
        String text = System.getenv().getOrDefault("COMPAT_SECURITY", "");
        Matcher pair = Pattern.compile("\"(\\w+)\": *\"([^\"\\\\]*)\"").matcher(text);
        while (pair.find()) found.put(pair.group(1), pair.group(2));
        return found;
    }

    private static Map<String, String> settings(Map<String, String> told) {
        Map<String, String> found = new LinkedHashMap<>();
        if (told.isEmpty()) return found;
        found.put("security.protocol", told.get("protocol"));
        store(found, "truststore", told.get("ca"), told);
        if (told.containsKey("keystore")) store(found, "keystore", told.get("key"), told);
        String mechanism = told.get("mechanism");
        if (mechanism == null) return found;
        found.put("sasl.mechanism", mechanism);
        if (mechanism.equals("OAUTHBEARER")) {
            found.put("sasl.jaas.config", PACKAGE + "oauthbearer.OAuthBearerLoginModule required file=\""
                + told.get("token_file") + "\";");
            // by its name: with 1.1 it does not compile
            found.put("sasl.login.callback.handler.class", "TokenFromFile");
        } else {
            String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            found.put("sasl.jaas.config", PACKAGE + module + " required username=\"" + told.get("user")
                + "\" password=\"" + told.get("password") + "\";");
        }
        return found;
    }

    /** As PEM from 3.0 on: 1.1 knows none, and 2.8 none for a key without a password. */
    private static void store(Map<String, String> found, String kind, String pem, Map<String, String> told) {
        String[] version = AppInfoParser.getVersion().split("\\.");
        boolean old = Integer.parseInt(version[0]) * 100 + Integer.parseInt(version[1]) < 300;
        found.put("ssl." + kind + ".type", old ? "PKCS12" : "PEM");
        found.put("ssl." + kind + ".location", old ? told.get(kind) : pem);
        if (old) found.put("ssl." + kind + ".password", told.get("store_password"));
        if (old && kind.equals("keystore")) found.put("ssl.key.password", told.get("store_password"));
    }
}
