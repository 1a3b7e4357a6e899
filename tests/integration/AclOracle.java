// Kafka's own authorizer, asked one question after the other.
//
// A line on standard input is a case; its fields are separated by tabs:
//   everyone (true, false), principal, host, type of resource, name, rows
// A row is type|pattern|name|principal|host|operation|permission, by Kafka's names; rows are separated by U+001F.
// The answer is a line with two numbers: which operations may be done to the resource, as bits by Kafka's codes, and for
// which of them authorizeByResourceType says that there is some resource.

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.*;
import java.net.InetAddress;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.security.auth.*;
import org.apache.kafka.metadata.authorizer.*;
import org.apache.kafka.server.authorizer.*;

public class AclOracle {
    record Asks(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "X"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return "x"; }
        public int correlationId() { return 0; }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, UTF_8);
        Map<String, StandardAuthorizer> authorizers = new HashMap<>();
        for (String line; (line = in.readLine()) != null; ) {
            String[] fields = line.split("\t", -1);
            StandardAuthorizer authorizer = authorizers.computeIfAbsent(fields[0], AclOracle::made);
            Map<Uuid, StandardAcl> rows = new HashMap<>();
            for (String row : fields[5].isEmpty() ? new String[0] : fields[5].split("\u001f", -1)) {
                String[] each = row.split("\\|", -1);
                rows.put(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.fromString(each[0]), each[2], PatternType.valueOf(each[1]), each[3], each[4],
                    AclOperation.fromString(each[5]), AclPermissionType.fromString(each[6])));
            }
            authorizer.loadSnapshot(rows);
            String[] principal = fields[1].split(":", 2);
            Asks asks = new Asks(new KafkaPrincipal(principal[0], principal[1]), InetAddress.getByName(fields[2]));
            ResourceType type = ResourceType.fromString(fields[3]);
            long may = 0, some = 0;
            for (AclOperation operation : AclOperation.values()) {
                if (operation.code() < AclOperation.READ.code()) continue;
                Action action = new Action(operation, new ResourcePattern(type, fields[4], PatternType.LITERAL), 1, false, false);
                if (authorizer.authorize(asks, List.of(action)).get(0) == AuthorizationResult.ALLOWED) may |= 1L << operation.code();
                if (authorizer.authorizeByResourceType(asks, operation, type) == AuthorizationResult.ALLOWED) some |= 1L << operation.code();
            }
            out.println(may + " " + some);
        }
    }

    static StandardAuthorizer made(String everyone) {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of("super.users", "User:root", "allow.everyone.if.no.acl.found", everyone));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
        return authorizer;
    }
}
