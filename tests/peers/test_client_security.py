"""Our clients against an Apache Kafka broker that demands TLS, SASL or both, on both faces."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import run as run_command
from barnabas.client.admin import Admin
from barnabas.client.core.sasl import OAuthToken
from barnabas.client.errors import (
    AuthenticationError,
    CertificateNotTrusted,
    ClientCertificateRefused,
    ConnectionLost,
    HostNameMismatch,
    MechanismNotEnabled,
    NoBrokerReachable,
    ProtocolMismatch,
    TlsError,
)
from tests.client import certificates as making
from tests.client.admins import KINDS, make_admin
from tests.client.certificates import PASSWORD, Certificates
from tests.peers import apache

PROTOCOLS = {
    "TLS": "SSL",
    "ELSEWHERE": "SSL",
    "MUTUAL": "SSL",
    "LOGIN": "SASL_PLAINTEXT",
    "BRIEF": "SASL_PLAINTEXT",
    "BOTH": "SASL_SSL",
}
MODULES = "org.apache.kafka.common.security"
USERS = {"alice": "alice's secret", "bob": "p+w o"}
LIFETIME_MS = 1_500


@dataclass
class SecureBroker:
    bootstrap: str
    ports: dict[str, int]
    certificates: Certificates

    def options(self, listener: str, **more: Any) -> dict[str, Any]:
        found = {
            "bootstrap_servers": f"localhost:{self.ports[listener]}",
            "default_api_timeout_ms": 20_000,
            "retry_backoff_ms": 10,
        }
        if listener in PROTOCOLS:
            found["security_protocol"] = PROTOCOLS[listener]
        if "SSL" in PROTOCOLS.get(listener, ""):
            found["ssl_ca_location"] = self.certificates.authority
        return {**found, **more}


def properties(ports: dict[str, int], certificates: Certificates) -> dict[str, str]:
    controller = apache.free_port()
    listeners = [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
    users = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
    found = {
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{controller}"]),
        "advertised.listeners": ",".join(f"{name}://localhost:{ports[name]}" for name in ports),
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT"]
            + [f"{name}:{protocol}" for name, protocol in PROTOCOLS.items()]
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.authority,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.both("server"),
        "listener.name.elsewhere.ssl.keystore.type": "PEM",
        "listener.name.elsewhere.ssl.keystore.location": certificates.both("elsewhere"),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.brief.plain.connections.max.reauth.ms": str(LIFETIME_MS),
    }
    for listener in ("login", "brief", "both"):
        at = f"listener.name.{listener}"
        found |= {
            f"{at}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            f"{at}.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required {users};",
            f"{at}.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
            f"{at}.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
            f"{at}.oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule "
            'required unsecuredLoginStringClaim_sub="broker";',
        }
    found["listener.name.brief.sasl.enabled.mechanisms"] = "PLAIN"
    return found


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    if (reason := apache.missing() or making.missing()) is not None:
        pytest.skip(reason)
    certificates = making.make(tmp_path_factory.mktemp("certificates"))
    directory: Path = tmp_path_factory.mktemp("secure")
    ports = {name: apache.free_port() for name in ("PLAINTEXT", *PROTOCOLS)}
    file = apache.write_properties(directory, ports["PLAINTEXT"], properties(ports, certificates))
    apache.format_storage(file)
    broker = apache.ApacheBroker(directory, f"127.0.0.1:{ports['PLAINTEXT']}")
    broker.start()
    try:
        for user, password in USERS.items():
            for name in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                apache.run_tool(
                    "ConfigCommand",
                    [
                        *("--bootstrap-server", broker.bootstrap, "--alter", "--entity-type"),
                        *("users", "--entity-name", user, "--add-config"),
                        f"{name}=[password={password}]",
                    ],
                ).check()
        yield SecureBroker(broker.bootstrap, ports, certificates)
    finally:
        broker.stop()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def works(kind: str, options: dict[str, Any]) -> None:
    """Through the bootstrap connection and through those of the brokers that it names."""
    with make_admin(kind, **options) as admin:
        assert isinstance(admin.list_topics(), list)
        assert admin.describe_log_dirs()


def unsecured_token(user: str = "alice", lifetime_s: int = 600) -> str:
    def part(claims: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")

    now = int(time.time())
    claims = {"sub": user, "iat": now - 5, "exp": now + lifetime_s}
    return f"{part({'alg': 'none'})}.{part(claims)}."


# -- TLS


def test_tls(secure: SecureBroker, kind: str) -> None:
    works(kind, secure.options("TLS"))


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_each_version_of_tls(secure: SecureBroker, kind: str, version: str) -> None:
    works(kind, secure.options("TLS", ssl_enabled_protocols=version))


def test_a_client_certificate(secure: SecureBroker, kind: str) -> None:
    certificates = secure.certificates
    works(
        kind,
        secure.options(
            "MUTUAL",
            ssl_certificate_location=certificates.certificate("locked"),
            ssl_key_location=certificates.key("locked"),
            ssl_key_password=PASSWORD,
        ),
    )


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_no_client_certificate(secure: SecureBroker, kind: str, version: str) -> None:
    with pytest.raises(TlsError) as caught:
        works(kind, secure.options("MUTUAL", ssl_enabled_protocols=version))
    assert isinstance(caught.value, ClientCertificateRefused)
    assert str(secure.ports["MUTUAL"]) in str(caught.value)


def test_another_name_in_the_certificate(secure: SecureBroker, kind: str) -> None:
    with pytest.raises(HostNameMismatch, match="localhost"):
        works(kind, secure.options("ELSEWHERE"))
    works(kind, secure.options("ELSEWHERE", ssl_endpoint_identification_algorithm=""))


def test_an_authority_that_is_not_trusted(secure: SecureBroker, kind: str) -> None:
    with pytest.raises(CertificateNotTrusted, match=r"ssl\.ca\.location"):
        works(kind, secure.options("TLS", ssl_ca_location=secure.certificates.stranger))


def test_tls_to_a_listener_without(secure: SecureBroker, kind: str) -> None:
    options = secure.options("PLAINTEXT", security_protocol="SSL")
    with pytest.raises(NoBrokerReachable) as caught:
        works(kind, options)
    assert isinstance(caught.value.failures[0], ConnectionLost)
    assert "PLAINTEXT" in str(caught.value)


def test_no_tls_to_a_listener_with(secure: SecureBroker, kind: str) -> None:
    with pytest.raises(NoBrokerReachable) as caught:
        works(kind, secure.options("TLS", security_protocol="PLAINTEXT"))
    (failure,) = caught.value.failures
    assert isinstance(failure, (ProtocolMismatch, ConnectionLost))


# -- SASL


@pytest.mark.parametrize("listener", ["LOGIN", "BOTH"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_users_and_passwords(
    secure: SecureBroker, kind: str, listener: str, mechanism: str
) -> None:
    for user, password in USERS.items():
        works(
            kind,
            secure.options(
                listener, sasl_mechanism=mechanism, sasl_username=user, sasl_password=password
            ),
        )


def test_jaas(secure: SecureBroker, kind: str) -> None:
    text = (
        f'{MODULES}.scram.ScramLoginModule required username="alice" password="{USERS["alice"]}";'
    )
    works(kind, secure.options("BOTH", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=text))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_wrong_passwords(secure: SecureBroker, kind: str, mechanism: str, user: str) -> None:
    options = secure.options(
        "LOGIN", sasl_mechanism=mechanism, sasl_username=user, sasl_password="guess"
    )
    with pytest.raises(AuthenticationError) as caught:
        works(kind, options)
    assert caught.value.mechanism == mechanism
    assert f"localhost:{secure.ports['LOGIN']}" in str(caught.value)
    assert "sasl.password" in str(caught.value)


def test_a_mechanism_that_is_not_enabled(secure: SecureBroker, kind: str) -> None:
    options = secure.options(
        "BRIEF", sasl_mechanism="SCRAM-SHA-256", sasl_username="alice", sasl_password="x"
    )
    with pytest.raises(MechanismNotEnabled) as caught:
        works(kind, options)
    assert caught.value.offered == ("PLAIN",)


def test_tokens(secure: SecureBroker, kind: str) -> None:
    options = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token": unsecured_token}
    works(kind, secure.options("BOTH", **options))
    options["sasl_oauth_token"] = lambda: OAuthToken(unsecured_token(), {"traceId": "7"})
    works(kind, secure.options("LOGIN", **options))


def test_an_awaited_token(secure: SecureBroker) -> None:
    async def token() -> str:
        return unsecured_token()

    works(
        "asyncio",
        secure.options("LOGIN", sasl_mechanism="OAUTHBEARER", sasl_oauth_token=token),
    )


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (lambda: unsecured_token(lifetime_s=-600), "LOGIN"),
        (lambda: 5, "returned int"),
        (lambda: 1 // 0, "raised ZeroDivisionError"),
    ],
)
def test_tokens_that_are_refused(secure: SecureBroker, kind: str, token: Any, words: str) -> None:
    options = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token": token}
    with pytest.raises(AuthenticationError) as caught:
        works(kind, secure.options("LOGIN", **options))
    assert words.replace("LOGIN", str(secure.ports["LOGIN"])) in str(caught.value)
    assert "sasl.oauth.token" in str(caught.value)


def test_a_login_to_a_listener_without(secure: SecureBroker, kind: str) -> None:
    options = secure.options("PLAINTEXT", security_protocol="SASL_PLAINTEXT")
    with pytest.raises(AuthenticationError, match="does not authenticate anybody"):
        works(
            kind, {**options, "sasl_mechanism": "PLAIN", "sasl_username": "a", "sasl_password": "b"}
        )


def test_no_login_to_a_listener_with(secure: SecureBroker, kind: str) -> None:
    options = secure.options("LOGIN", security_protocol="PLAINTEXT", default_api_timeout_ms=500)
    with pytest.raises(Exception, match="demands authentication"):
        works(kind, options)


def test_commands_read_a_file_that_was_written_for_java(
    secure: SecureBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\n"
        "ssl.protocol=TLSv1.3\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={secure.certificates.authority}\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.jaas.config={MODULES}.scram.ScramLoginModule required \\\n"
        f'  username="alice" password="{USERS["alice"]}";\n'
        "key.deserializer=org.apache.kafka.common.serialization.StringDeserializer\n"
        "auto.offset.reset=earliest\n"
    )
    at = f"localhost:{secure.ports['BOTH']}"
    topic = f"from-a-file-{tmp_path.name}"
    for verb in (["create", topic], ["describe", topic], ["delete", topic]):
        code = run_command(["topic", *verb, "-b", at, "--command-config", str(file)])
        printed = capsys.readouterr()
        assert (code, printed.err) == (0, ""), printed
    options = ["-X", "security.protocol=SASL_SSL", "-X", "sasl.mechanism=PLAIN"]
    assert run_command(["topic", "list", "-b", at, *options]) == 2
    assert "PLAIN needs sasl.username" in capsys.readouterr().err


def test_a_session_is_renewed_before_it_ends(secure: SecureBroker) -> None:
    """The broker closes a connection whose session is over; this one stays the same."""
    options = secure.options(
        "BRIEF", sasl_mechanism="PLAIN", sasl_username="alice", sasl_password=USERS["alice"]
    )
    with Admin(options) as admin:
        admin.describe_log_dirs()
        cluster = admin.cluster
        before = cluster._routes[(1, "")].connection
        assert before is not None
        end = time.monotonic() + 2.5 * LIFETIME_MS / 1000
        answered = 0
        while time.monotonic() < end:
            admin.describe_log_dirs()
            answered += 1
        assert cluster._routes[(1, "")].connection is before
        assert before.ready
        assert answered > 10
