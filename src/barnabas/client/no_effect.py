"""The options of Kafka's own clients that have no effect here, each with the reason.

Code that sets one is told by a warning; in a file that was written for any client they are passed
over in silence. Some only mean something in Java, some belong to what is not supported yet.
"""

from __future__ import annotations

_JAVA_CLASS = "it names a Java class"
_KERBEROS = "Kerberos (GSSAPI) is not supported"
_TOKENS = "tokens come from sasl.oauth.token"
_PROVIDERS = "TLS is OpenSSL's"
_SHARE = "it belongs to share groups"
_TRANSACTIONS = "transactions are not supported yet"

NO_EFFECT: dict[str, str] = {
    "auto.include.jmx.reporter": "there is no JMX",
    "client.dns.lookup": "every address of a name is tried",
    "config.providers": _JAVA_CLASS,
    "enable.metrics.push": "metrics are not sent to brokers",
    "group.remote.assignor": "it belongs to group.protocol=consumer",
    "interceptor.classes": "it names Java classes; give objects as interceptors",
    "metric.reporters": _JAVA_CLASS,
    "metrics.recording.level": "every metric is always recorded",
    "partitioner.class": "it names a Java class; see partitioner",
    "sasl.client.callback.handler.class": _JAVA_CLASS,
    "sasl.login.callback.handler.class": _JAVA_CLASS,
    "sasl.login.class": _JAVA_CLASS,
    "security.providers": _JAVA_CLASS,
    "share.acknowledgement.mode": _SHARE,
    "share.acquire.mode": _SHARE,
    "ssl.engine.factory.class": "it names a Java class; see ssl_context",
    "ssl.keymanager.algorithm": _PROVIDERS,
    "ssl.keystore.password": "PEM files need none; see ssl.key.password",
    "ssl.protocol": "see ssl.enabled.protocols",
    "ssl.provider": _PROVIDERS,
    "ssl.secure.random.implementation": _PROVIDERS,
    "ssl.trustmanager.algorithm": _PROVIDERS,
    "ssl.truststore.password": "PEM files need none",
    "transaction.timeout.ms": _TRANSACTIONS,
    "transaction.two.phase.commit.enable": _TRANSACTIONS,
}
NO_EFFECT |= dict.fromkeys(
    (
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
    ),
    _KERBEROS,
)
NO_EFFECT |= dict.fromkeys(
    (
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.oauthbearer.assertion.algorithm",
        "sasl.oauthbearer.assertion.claim.aud",
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        "sasl.oauthbearer.assertion.claim.iss",
        "sasl.oauthbearer.assertion.claim.jti.include",
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        "sasl.oauthbearer.assertion.claim.sub",
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.template.file",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.jwt.validator.class",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.token.endpoint.url",
    ),
    _TOKENS,
)
