import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/**
 * Gives a client its token (sasl.login.callback.handler.class), as users of 2.0 and newer write it. The class that comes with
 * the client since 3.1 wants jars that the client does not bring.
 */
public final class TokenFromFile implements AuthenticateCallbackHandler {
    private Path file;

    @Override public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
        file = Path.of((String) entries.get(0).getOptions().get("file"));
    }

    @Override public void close() {}

    /** What else is asked for, such as extensions, there is none of. */
    @Override public void handle(Callback[] callbacks) {
        for (Callback one : callbacks) {
            if (one instanceof OAuthBearerTokenCallback) ((OAuthBearerTokenCallback) one).token(read());
        }
    }

    private OAuthBearerToken read() {
        try {
            String text = Files.readString(file);
            String claims = new String(Base64.getUrlDecoder().decode(text.split("\\.")[1]));
            String subject = find("\"sub\": *\"([^\"]+)\"", claims);
            long end = 1000 * Long.parseLong(find("\"exp\": *(\\d+)", claims));
            return new Token(text, subject, end);
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    private static String find(String pattern, String claims) {
        Matcher found = Pattern.compile(pattern).matcher(claims);
        if (!found.find()) throw new IllegalArgumentException("the token has no claim " + pattern);
        return found.group(1);
    }

    private record Token(String value, String principalName, long lifetimeMs) implements OAuthBearerToken {
        @Override public Set<String> scope() { return Set.of(); }

        @Override public Long startTimeMs() { return null; }
    }
}
