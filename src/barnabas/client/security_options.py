"""The options of TLS and SASL, which all clients share, and what fits together among them.

Certificates and keys are PEM: in files (`ssl.ca.location`, `ssl.certificate.location`,
`ssl.key.location`, as librdkafka names them, or a truststore and keystore of type PEM, as Java does)
or inline (`ssl.truststore.certificates`, `ssl.keystore.certificate.chain`, `ssl.keystore.key`). A
Java keystore is refused with the command that converts it. Who has an `ssl.SSLContext` already gives
that (`ssl_context=`), and the other ssl options are then in its hands.

A user and a password are given as `sasl.username` and `sasl.password`, or inside `sasl.jaas.config`
as Java clients have them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from barnabas.client.errors import OptionError
from barnabas.client.options import change, option

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TLS_VERSIONS = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
_JAVA_STORES = (".jks", ".p12", ".pfx", ".keystore", ".truststore")
_JAAS_OPTION = re.compile(r'([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    security_protocol: str = option(
        "PLAINTEXT",
        "How brokers are spoken to: TLS with SSL and SASL_SSL, authentication with SASL_PLAINTEXT "
        "and SASL_SSL.",
        choices=PROTOCOLS,
    )
    ssl_context: Any = option(
        None, "An `ssl.SSLContext` to use instead of one made from the other ssl options."
    )
    ssl_ca_location: str | None = option(
        None,
        "A PEM file, or a directory of them, with the authorities whose signature on a broker's "
        "certificate is trusted. Without it, those the operating system trusts.",
    )
    ssl_certificate_location: str | None = option(
        None, "A PEM file with this client's certificate (and those between it and its authority)."
    )
    ssl_key_location: str | None = option(
        None, "A PEM file with the private key of this client's certificate."
    )
    ssl_key_password: str | None = option(
        None, "What the private key is encrypted with.", secret=True
    )
    ssl_endpoint_identification_algorithm: str = option(
        "https",
        "https checks that a broker's certificate is for the host name connected to; empty does "
        "not.",
        choices=("https", ""),
    )
    ssl_enabled_protocols: tuple[str, ...] = option(
        ("TLSv1.2", "TLSv1.3"), "The versions of TLS that may be used."
    )
    ssl_cipher_suites: tuple[str, ...] = option(
        (), "The ciphers that may be used up to TLS 1.2, by OpenSSL's names. Empty: its default."
    )
    ssl_truststore_type: str | None = option(
        None, "PEM. A Java keystore must be converted.", choices=("PEM", "JKS", "PKCS12")
    )
    ssl_truststore_location: str | None = option(None, "Java's name for `ssl.ca.location`.")
    ssl_truststore_certificates: str | None = option(
        None, "The trusted authorities themselves, as PEM text.", secret=True
    )
    ssl_keystore_type: str | None = option(
        None, "PEM. A Java keystore must be converted.", choices=("PEM", "JKS", "PKCS12")
    )
    ssl_keystore_location: str | None = option(
        None, "A PEM file with this client's certificate and its private key."
    )
    ssl_keystore_certificate_chain: str | None = option(
        None, "This client's certificate itself, as PEM text.", secret=True
    )
    ssl_keystore_key: str | None = option(None, "The private key itself, as PEM text.", secret=True)
    sasl_mechanism: str | None = option(
        None,
        "How to authenticate: " + ", ".join(MECHANISMS) + ".",
        choices=(*MECHANISMS, "GSSAPI"),
    )
    sasl_username: str | None = option(None, "The user, for PLAIN and SCRAM.", secret=True)
    sasl_password: str | None = option(None, "The password, for PLAIN and SCRAM.", secret=True)
    sasl_jaas_config: str | None = option(
        None,
        'Java\'s way to write user and password: a login module with username="…" and '
        'password="…".',
        secret=True,
    )
    sasl_oauth_token: Any = option(
        None,
        "For OAUTHBEARER: a function that returns a token (text, or an `OAuthToken` with "
        "extensions); called for each new connection and when a session ends.",
    )

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def check_security(self) -> None:
        if self.uses_tls:
            self._check_tls()
        if self.uses_sasl:
            self._check_sasl()

    def _check_tls(self) -> None:
        unknown = [name for name in self.ssl_enabled_protocols if name not in TLS_VERSIONS]
        if unknown or not self.ssl_enabled_protocols:
            raise OptionError(
                f"ssl.enabled.protocols={','.join(self.ssl_enabled_protocols)!r} is not a list of "
                f"{', '.join(TLS_VERSIONS)}."
            )
        if self.ssl_context is not None:
            if not callable(getattr(self.ssl_context, "wrap_bio", None)):
                raise OptionError(
                    f"ssl.context is of type {type(self.ssl_context).__name__}, not ssl.SSLContext."
                )
            return
        for store in ("truststore", "keystore"):
            self._check_store(store)
        for one, other in (
            ("ssl_ca_location", "ssl_truststore_location"),
            ("ssl_truststore_location", "ssl_truststore_certificates"),
            ("ssl_ca_location", "ssl_truststore_certificates"),
            ("ssl_certificate_location", "ssl_keystore_location"),
            ("ssl_keystore_location", "ssl_keystore_certificate_chain"),
            ("ssl_certificate_location", "ssl_keystore_certificate_chain"),
        ):
            if getattr(self, one) and getattr(self, other):
                names = f"{one.replace('_', '.')} and {other.replace('_', '.')}"
                raise OptionError(f"{names} exclude each other.", next_step="Keep one of them.")
        if self.ssl_key_location and not self.ssl_certificate_location:
            raise OptionError(
                "ssl.key.location is given without ssl.certificate.location.",
                next_step="Name the file with the certificate of this key as well.",
            )
        if bool(self.ssl_keystore_key) != bool(self.ssl_keystore_certificate_chain):
            raise OptionError(
                "ssl.keystore.key and ssl.keystore.certificate.chain are only of use together."
            )

    def _check_store(self, store: str) -> None:
        kind = getattr(self, f"ssl_{store}_type")
        place = getattr(self, f"ssl_{store}_location")
        if kind is None and place and place.lower().endswith(_JAVA_STORES):
            kind = "Java's"
        if kind in (None, "PEM") or not place:
            return
        into = "ca.pem" if store == "truststore" else "client.pem"
        only = " -nokeys" if store == "truststore" else ""
        raise OptionError(
            f"ssl.{store}.location={place} is a {store} of type {kind}, and PEM is needed.",
            next_step=f"Convert it: 'keytool -importkeystore -srckeystore {place} -destkeystore "
            f"x.p12 -deststoretype PKCS12', then 'openssl pkcs12 -in x.p12{only} -out {into}'; "
            f"then set ssl.{store}.type=PEM.",
        )

    def _check_sasl(self) -> None:
        if self.sasl_mechanism is None:
            raise OptionError(
                f"security.protocol={self.security_protocol} needs sasl.mechanism.",
                next_step=f"Set it to one of {', '.join(MECHANISMS)}.",
            )
        if self.sasl_mechanism == "GSSAPI":
            raise OptionError(
                "sasl.mechanism=GSSAPI (Kerberos) is not supported by this client.",
                next_step=f"Use one of {', '.join(MECHANISMS)}.",
            )
        if self.sasl_mechanism == "OAUTHBEARER":
            if not callable(self.sasl_oauth_token):
                raise OptionError(
                    "sasl.mechanism=OAUTHBEARER needs sasl.oauth.token, a function that returns a "
                    "token."
                )
            return
        if self.sasl_jaas_config:
            self._read_jaas()
        if not self.sasl_username or self.sasl_password is None:
            missing = "sasl.username" if not self.sasl_username else "sasl.password"
            raise OptionError(
                f"sasl.mechanism={self.sasl_mechanism} needs {missing}.",
                next_step="Give sasl.username and sasl.password, or a sasl.jaas.config with both.",
            )

    def _read_jaas(self) -> None:
        found = jaas_options(self.sasl_jaas_config or "")
        for name in ("username", "password"):
            ours, theirs = getattr(self, f"sasl_{name}"), found.get(name)
            if ours is not None and theirs is not None and ours != theirs:
                raise OptionError(
                    f"sasl.{name} and the {name} in sasl.jaas.config differ.",
                    next_step="Keep one of them.",
                )
            if ours is None and theirs is not None:
                change(self, **{f"sasl_{name}": theirs})


def jaas_options(text: str) -> dict[str, str]:
    """The options of the login module in a `sasl.jaas.config`."""
    words = text.split(None, 2)
    flags = ("required", "requisite", "sufficient", "optional")
    if len(words) < 2 or words[1].lower().rstrip(";") not in flags:
        raise OptionError(
            "sasl.jaas.config cannot be read.",
            next_step="Its form is: org.apache.kafka.common.security.plain.PlainLoginModule "
            'required username="…" password="…";',
        )
    found: dict[str, str] = {}
    for name, quoted, plain in _JAAS_OPTION.findall(words[2] if len(words) > 2 else ""):
        found[name] = plain or re.sub(r"\\(.)", r"\1", quoted)
    return found
