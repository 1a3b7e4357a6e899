"""Settings of security: what listeners speak, who may come in, and whether rights are asked for.

Kafka's names and meanings. Where there is no setting of Kafka's, the name is librdkafka's (`ssl.ca.location`), Pulsar's
in Kafka's spelling (`token.secret.key`), or our own (`tenancy.unbound`).
"""

from __future__ import annotations

from gateway.config.listeners import PROTOCOLS, plain
from gateway.config.schema import INT_MAX, LONG_MAX, Kind, Setting, Value, at_least, between, each_of, one_of
from semantics.names import Namespace, NamingError

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""By which a client may say who it is over SASL."""

LISTENER, REFUSE = "listener", "refuse"
"""Of tenancy.unbound: the namespace of the listener; nobody without a home gets in."""


def _protocols(value: Value) -> str | None:
    assert isinstance(value, str)
    said = [each.partition(":") for each in map(str.strip, value.split(",")) if each]
    for name, colon, protocol in said:
        if not colon or not name or protocol not in PROTOCOLS:
            return f"must hold NAME:PROTOCOL, of which the protocol is {', '.join(PROTOCOLS[:-1])} or {PROTOCOLS[-1]}"
    names = [plain(name) for name, _, _ in said]
    return "must name each listener once" if len(set(names)) < len(names) else None


def _unbound(value: Value) -> str | None:
    if value in (LISTENER, REFUSE):
        return None
    try:
        Namespace.parse(str(value))
    except NamingError:
        return f"must be {LISTENER}, {REFUSE} or tenant/namespace"
    return None


def _super_users(value: Value) -> str | None:
    assert isinstance(value, str)
    for each in filter(None, map(str.strip, value.split(";"))):
        kind, colon, name = each.partition(":")
        if kind != "User" or not colon or not name or ",User:" in name.replace(" ", ""):
            return "must hold principals such as User:ada, with semicolons between them"
    return None


def _store_type(value: Value) -> str | None:
    if value in ("PEM", "PKCS12"):
        return None
    made = (
        "; keytool -importkeystore -srckeystore OLD.jks -destkeystore NEW.p12 -deststoretype PKCS12 makes one"
    )
    return f"must be PEM or PKCS12{made if value == 'JKS' else ''}"


SECURITY = [
    Setting(
        "listener.security.protocol.map",
        Kind.STRING,
        "",
        "What listeners speak, as NAME:PROTOCOL: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. A listener that is not "
        "named here speaks what it is called, if that is one of these, and else PLAINTEXT.",
        _protocols,
    ),
    Setting(
        "ssl.certificate.location",
        Kind.STRING,
        None,
        "The certificate that this gateway shows, in PEM, with those that lead to its CA behind it. It is read again "
        "when it changes, as all files of certificates and keys are.",
        flag="--tls-cert",
    ),
    Setting(
        "ssl.key.location",
        Kind.STRING,
        None,
        "The private key of that certificate, in PEM.",
        flag="--tls-key",
    ),
    Setting(
        "ssl.ca.location",
        Kind.STRING,
        None,
        "The CAs, in PEM, whose clients are known by their certificates (ssl.client.auth).",
        flag="--tls-ca",
    ),
    Setting(
        "ssl.keystore.type",
        Kind.STRING,
        "PEM",
        "What ssl.keystore.location holds: PEM, or PKCS12. Kafka's default is JKS, which is Java's own: keytool makes "
        "PKCS12 of it.",
        _store_type,
    ),
    Setting(
        "ssl.keystore.location",
        Kind.STRING,
        None,
        "The private key and its certificates in one file, as Kafka has it. Beside ssl.certificate.location and "
        "ssl.key.location it is one too many.",
    ),
    Setting(
        "ssl.keystore.password",
        Kind.PASSWORD,
        None,
        "What ssl.keystore.location is locked with.",
        sensitive=True,
    ),
    Setting("ssl.key.password", Kind.PASSWORD, None, "What the private key is locked with.", sensitive=True),
    Setting(
        "ssl.truststore.type",
        Kind.STRING,
        "PEM",
        "What ssl.truststore.location holds: PEM, or PKCS12.",
        _store_type,
    ),
    Setting(
        "ssl.truststore.location",
        Kind.STRING,
        None,
        "The CAs of clients, as Kafka has it. Beside ssl.ca.location it is one too many.",
    ),
    Setting(
        "ssl.truststore.password",
        Kind.PASSWORD,
        None,
        "What ssl.truststore.location is locked with.",
        sensitive=True,
    ),
    Setting(
        "ssl.client.auth",
        Kind.STRING,
        "none",
        "Whether clients show a certificate: none, they are not asked; requested, they may; required, they must.",
        one_of("none", "requested", "required"),
    ),
    Setting(
        "ssl.enabled.protocols",
        Kind.LIST,
        ("TLSv1.2", "TLSv1.3"),
        "Versions of TLS.",
        each_of("TLSv1.2", "TLSv1.3"),
    ),
    Setting(
        "ssl.cipher.suites",
        Kind.LIST,
        (),
        "Ciphers of TLS 1.2, in OpenSSL's names. Empty: OpenSSL's own choice of those that are good.",
    ),
    Setting(
        "ssl.principal.mapping.rules",
        Kind.STRING,
        "DEFAULT",
        "What a client is called by the subject of its certificate: rules as RULE:pattern/replacement/[LU], of which "
        "the first that fits counts. DEFAULT is the whole subject.",
    ),
    Setting(
        "ssl.handshakes.per.second",
        Kind.INT,
        500,
        "Handshakes of TLS that are begun in a second, over all addresses. More wait, in the system's queue. One costs "
        "the gateway 0.35 to 0.7 ms.",
        at_least(1),
    ),
    Setting(
        "ssl.handshakes.per.ip.per.second",
        Kind.INT,
        100,
        "Those that are begun in a second from one address: a fifth at once, so that others' requests do not wait "
        "behind all of them. More wait for their turn, up to two seconds; what is beyond that is closed.",
        at_least(1),
    ),
    Setting(
        "ssl.handshake.timeout.ms",
        Kind.INT,
        10_000,
        "How long a client may take for its handshake.",
        between(100, 600_000),
    ),
    Setting(
        "sasl.enabled.mechanisms",
        Kind.LIST,
        ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"),
        "By which clients of SASL listeners may say who they are. PLAIN is offered over TLS only, unless "
        "sasl.plain.insecure says otherwise.",
        each_of(*MECHANISMS),
    ),
    Setting(
        "sasl.plain.insecure",
        Kind.BOOLEAN,
        False,
        "Offer PLAIN on listeners without TLS, where others can read the passwords.",
    ),
    Setting(
        "sasl.server.max.receive.size",
        Kind.INT,
        65_536,
        "Bytes of what a client may send before it has said who it is. Kafka's default is 524288.",
        between(1024, 1_048_576),
    ),
    Setting(
        "sasl.login.timeout.ms",
        Kind.INT,
        10_000,
        "How long a client may take until it has said who it is.",
        between(100, 600_000),
    ),
    Setting(
        "connections.max.reauth.ms",
        Kind.LONG,
        0,
        "How long a login over SASL lasts; the client then logs in again on the same connection (KIP-368), or is cut "
        "off. 0: as long as its connection, or its token.",
        between(0, LONG_MAX),
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        Kind.STRING,
        None,
        "Where the public keys of who issues tokens are, as a JWKS: a file:// or https:// address. One that is no file "
        "must stand in sasl.oauthbearer.allowed.urls.",
    ),
    Setting(
        "sasl.oauthbearer.allowed.urls",
        Kind.LIST,
        (),
        "Addresses that keys of tokens may be read from. Kafka has it as a property of Java's.",
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        Kind.LONG,
        3_600_000,
        "How often the keys are read again. Those that are known stay while they cannot be had.",
        at_least(1000),
    ),
    Setting("sasl.oauthbearer.expected.issuer", Kind.STRING, None, "Who tokens must be issued by (iss)."),
    Setting(
        "sasl.oauthbearer.expected.audience", Kind.LIST, (), "Whom tokens must be for (aud): one of these."
    ),
    Setting(
        "sasl.oauthbearer.sub.claim.name",
        Kind.STRING,
        "sub",
        "The claim of a token that names its principal.",
    ),
    Setting(
        "sasl.oauthbearer.home.claim.name",
        Kind.STRING,
        None,
        "The claim of a token that names its principal's home, as tenant/namespace.",
    ),
    Setting(
        "sasl.oauthbearer.clock.skew.seconds",
        Kind.INT,
        30,
        "By how much clocks of issuers may differ.",
        between(0, 3600),
    ),
    Setting(
        "token.secret.key",
        Kind.PASSWORD,
        None,
        "The key that Pulsar's tokens are signed with (HS256): in base64, or a file:// address. Pulsar's "
        "tokenSecretKey. `magnetar tokens create` signs with it.",
        sensitive=True,
    ),
    Setting(
        "token.public.key",
        Kind.STRING,
        None,
        "The public key of Pulsar's tokens (RS256, ES256): a file:// address, PEM. Pulsar's tokenPublicKey.",
    ),
    Setting("token.auth.claim", Kind.STRING, "sub", "The claim of Pulsar's tokens that names the role."),
    Setting(
        "super.users",
        Kind.STRING,
        "",
        "Principals that may do everything, with semicolons between them: User:ada;User:CN=ops.",
        _super_users,
    ),
    Setting(
        "authorization",
        Kind.STRING,
        "auto",
        "Whether rights are asked for: auto, where a listener asks its clients who they are; true, false. Kafka's "
        "authorizer.class.name.",
        one_of("auto", "true", "false"),
    ),
    Setting(
        "allow.everyone.if.no.acl.found",
        Kind.BOOLEAN,
        False,
        "Whether everybody may use what no right was given for, in the namespace that it is at home in.",
    ),
    Setting(
        "tenancy.unbound",
        Kind.STRING,
        LISTENER,
        "Where a principal is at home that is not bound to a namespace: listener, in that of the listener it comes in "
        "by; tenant/namespace; refuse, nowhere, and it does not get in.",
        _unbound,
    ),
    Setting(
        "users.file",
        Kind.STRING,
        None,
        "A file with one name:password a line, for the first start: its users are made while there are none.",
        flag="--users-file",
    ),
    Setting(
        "admin.security.protocol",
        Kind.STRING,
        "auto",
        "Whether HTTP is over TLS: PLAINTEXT, SSL; auto: SSL where other machines can reach admin.listen and there is "
        "a certificate.",
        one_of("auto", "PLAINTEXT", "SSL"),
    ),
    Setting(
        "admin.authentication",
        Kind.STRING,
        "auto",
        "Whether clients of HTTP must say who they are: auto, where rights are asked for; true, false. /health never "
        "asks.",
        one_of("auto", "true", "false"),
    ),
    Setting(
        "audit.max.per.second",
        Kind.INT,
        10,
        "Lines of audit (of changes, refusals, logins each) that are logged in a second for a tenant, or user of none. "
        "For all of them ten times as many are. What is beyond that is counted.",
        between(1, INT_MAX),
    ),
    Setting(
        "audit.topic",
        Kind.BOOLEAN,
        False,
        "Whether changes that are made by HTTP are kept in the topic magnetar-audit of public/default, for a year.",
    ),
    Setting(
        "quota.window.num",
        Kind.INT,
        11,
        "Samples that client quotas look back over; all but one of them may be used up at once.",
        between(2, 1000),
    ),
    Setting("quota.window.size.seconds", Kind.INT, 1, "How long such a sample is.", between(1, 3600)),
]
"""In the order in which they are shown."""
