"""The tables of client options: names, conversions, ranges, conflicts, and who acts upon them."""

from __future__ import annotations

import logging
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import barnabas
from barnabas.client import manual, options
from barnabas.client.errors import OptionError
from barnabas.client.no_effect import NO_EFFECT
from barnabas.client.security_options import jaas_options
from barnabas.client.settings import (
    TABLES,
    AdminSettings,
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
    gather,
    load,
    parse_duration_ms,
)

HERE = Path(__file__).parent
MANUAL = HERE.parent.parent / "docs" / "clients.md"


def kafkas() -> list[tuple[str, str, str, str, str]]:
    """(option, client, type, default, allowed) of Apache Kafka's clients."""
    found = []
    for line in (HERE / "kafka_options.tsv").read_text().splitlines():
        if not line.startswith("#"):
            name, clients, *rest = line.split("\t")
            found += [(name, client, *rest) for client in clients.split(",")]
    return found  # type: ignore[return-value]


# Where our default is another one, and why.
OTHER_DEFAULTS = {
    "bootstrap.servers": "this machine's broker",
    "client.id": "says what the client is",
    "interceptor.classes": "",
    "partition.assignment.strategy": "names instead of classes",
    "receive.buffer.bytes": "the operating system knows better",
    "sasl.mechanism": "GSSAPI is not supported",
    "send.buffer.bytes": "the operating system knows better",
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
}


@pytest.mark.parametrize(("name", "client", "kind", "default", "allowed"), kafkas())
def test_every_option_of_kafka_is_known_with_its_default(
    name: str, client: str, kind: str, default: str, allowed: str
) -> None:
    rows = {options.dotted(row.name): row for row in fields(TABLES[client])}
    row = rows.get(name)
    if row is None:
        assert name in NO_EFFECT
        return
    assert name not in NO_EFFECT
    wanted = {"boolean": "bool", "int": "int", "long": "int", "short": "int", "list": "tuple"}
    if kind in wanted and name not in ("bootstrap.servers", "bootstrap.controllers"):
        assert options.kind_of(row).startswith(wanted[kind])
    if name in OTHER_DEFAULTS:
        return
    ours = row.default
    if default == "null" or default == "<required>":
        assert ours is None
    elif options.kind_of(row) == "bool":
        assert str(ours).lower() == default
    elif isinstance(ours, tuple):
        assert ", ".join(ours) == default.strip("[]")
    else:
        assert str(ours) == default.strip("[]")


@pytest.mark.parametrize(("name", "client", "kind", "default", "allowed"), kafkas())
def test_ranges_are_kafkas(name: str, client: str, kind: str, default: str, allowed: str) -> None:
    """At least as narrow, and never narrower than by one (0 where it makes no sense)."""
    row = {options.dotted(row.name): row for row in fields(TABLES[client])}.get(name)
    bounds = re.fullmatch(r"\[(-?\d+),\.\.\.,?(-?\d+)?\](?: or (-1))?", allowed)
    if row is None or bounds is None:
        return
    least = int(bounds[3] or bounds[1])
    stricter = {"buffer.memory": 1024}
    assert row.metadata["least"] in (least, max(least, 1), stricter.get(name))
    if bounds[2]:
        assert row.metadata["most"] == int(bounds[2])


@pytest.mark.parametrize("table", TABLES.values())
def test_defaults_are_allowed_and_agree(table: type[ClientSettings]) -> None:
    settings = load(table, {})
    for row in fields(table):
        value = getattr(settings, row.name)
        if value is not None and value != "":
            assert options.convert(row, value) == value, row.name


@pytest.mark.parametrize(
    ("cls", "given", "text"),
    [
        (ClientSettings, {"bootstrap.servers": "h:x"}, "'h:x' in bootstrap.servers is not HOST:P"),
        (ClientSettings, {"bootstrap.servers": ["a:1", "b"]}, None),
        (ClientSettings, {"bootstrap.servers": None}, "bootstrap.servers is None"),
        (ClientSettings, {"bootstrap.servers": b"a:1"}, "of type bytes, and text is needed"),
        (ClientSettings, {7: 8}, "An option's name is text, not 7"),
        (ClientSettings, {"request.timeout.ms": "soon"}, "is not a whole number"),
        (ClientSettings, {"request.timeout.ms": 1.5}, "is not a whole number"),
        (ClientSettings, {"request.timeout.ms": True}, "is not a whole number"),
        (ClientSettings, {"request.timeout.ms": None}, "request.timeout.ms is None"),
        (ClientSettings, {"request.timeout.ms": 0}, "too small: the least is 1"),
        (ClientSettings, {"request.timeout.ms": 2**31}, "too large: the most is 2147483647"),
        (ClientSettings, {"metadata.max.age.ms": 2**31}, None),
        (ClientSettings, {"boostrap_servers": "a"}, "Did you mean bootstrap.servers"),
        (ClientSettings, {"qwertz": 1}, "See the list of client options"),
        (ClientSettings, {"security.protocol": "ssl"}, None),
        (ClientSettings, {"security.protocol": "TLS"}, "not one of PLAINTEXT, SSL"),
        (
            ClientSettings,
            {"retry.backoff.ms": 10, "retry.backoff.max.ms": 5},
            r"retry.backoff.ms \(10\) is above retry.backoff.max.ms \(5\). Raise retry.backoff.max",
        ),
        (ProducerSettings, {"acks": 1}, None),
        (ProducerSettings, {"acks": "two"}, "acks='two' is not one of all, -1, 0, 1"),
        (ProducerSettings, {"acks": 1, "enable.idempotence": True}, "needs acks=all, not acks=1"),
        (ProducerSettings, {"retries": 0, "enable.idempotence": "true"}, "needs retries above 0"),
        (ProducerSettings, {"max_in_flight_requests_per_connection": 6}, "at most 5 max.in.flight"),
        (
            ProducerSettings,
            {"max_in_flight_requests_per_connection": 6, "enable_idempotence": False},
            None,
        ),
        (
            ProducerSettings,
            {"delivery.timeout.ms": 30_004},
            r"delivery.timeout.ms \(30004\) is less than linger.ms \(5\) and request.timeout.ms "
            r"\(30000\) together. Raise it to 30005",
        ),
        (ProducerSettings, {"transactional.id": "x"}, "does not support transactions yet"),
        (ProducerSettings, {"transactional.id": None}, None),
        (ProducerSettings, {"compression.type": "lzma"}, "not one of none, gzip, snappy"),
        (ProducerSettings, {"compression.gzip.level": 10}, "too large: the most is 9"),
        (
            ProducerSettings,
            {"compression.type": "gzip", "compression.level": 12},
            "compression.level=12 is not a level of gzip: those are -1 to 9",
        ),
        (ProducerSettings, {"metadata.max.idle.ms": 10}, "the least is 5000"),
        (ConsumerSettings, {"group.id": "  "}, "group.id is empty. Give the group a name"),
        (ConsumerSettings, {"group.instance.id": ""}, "group.instance.id is empty"),
        (ConsumerSettings, {"group.protocol": "consumer"}, "not supported by this client yet"),
        (ConsumerSettings, {"group.protocol": "Classic"}, None),
        (ConsumerSettings, {"enable.auto.commit": "true"}, "needs a group.id"),
        (ConsumerSettings, {"enable.auto.commit": "false"}, None),
        (
            ConsumerSettings,
            {"heartbeat.interval.ms": 45_000},
            r"heartbeat.interval.ms \(45000\) must be below session.timeout.ms \(45000\). Set",
        ),
        (ConsumerSettings, {"auto.offset.reset": "newest"}, "by_duration:PnDTnHnMn.nS"),
        (ConsumerSettings, {"auto.offset.reset": "by_duration:1h"}, "by_duration:PnDTnHnMn.nS"),
        (ConsumerSettings, {"auto.offset.reset": "by_duration:-PT1H"}, "by_duration:PnDTnHnMn.nS"),
        (
            ConsumerSettings,
            {"fetch.min.bytes": 11, "fetch.max.bytes": 10},
            r"fetch.min.bytes \(11\) is above fetch.max.bytes \(10\)",
        ),
        (ConsumerSettings, {"partition.assignment.strategy": " , "}, "strategy is empty"),
        (ConsumerSettings, {"isolation.level": "READ_COMMITTED"}, None),
        (ConsumerSettings, {"poison.records": "eat"}, "not one of raise, skip, dead-letter"),
        (ConsumerSettings, {"poison_records": "dead-letter"}, "needs dead.letter.topic"),
        (ConsumerSettings, {"max.poll.records": 0}, "too small"),
        (AdminSettings, {"bootstrap.controllers": "c:1"}, None),
    ],
)
def test_what_is_refused_and_how(cls: Any, given: dict[Any, Any], text: str | None) -> None:
    if text is None:
        load(cls, given)
        return
    with pytest.raises(OptionError, match=text):
        load(cls, given)


SECURE = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
USER = {"sasl.username": "me", "sasl.password": "secret"}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (SECURE, "PLAIN needs sasl.username"),
        ({**SECURE, "sasl.username": "me"}, "PLAIN needs sasl.password"),
        ({**SECURE, **USER}, None),
        ({**SECURE, "sasl.mechanism": "GSSAPI"}, r"GSSAPI \(Kerberos\) is not supported"),
        ({**SECURE, "sasl.mechanism": "oauthbearer"}, "needs sasl.oauth.token"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "needs sasl.mechanism"),
        ({**SECURE, "sasl.jaas.config": "nonsense"}, "sasl.jaas.config cannot be read"),
        (
            {
                **SECURE,
                **USER,
                "sasl.jaas.config": 'x.Y required username="you" password="secret";',
            },
            "sasl.username and the username in sasl.jaas.config differ",
        ),
        ({"ssl.truststore.location": "x.jks"}, None),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "x.jks"},
            "PEM is needed. Convert it: 'keytool .*-nokeys",
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.keystore.location": "x",
                "ssl.keystore.type": "pkcs12",
            },
            "of type PKCS12",
        ),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "a", "ssl.truststore.location": "b"},
            "ssl.ca.location and ssl.truststore.location exclude each other",
        ),
        ({"security.protocol": "SSL", "ssl.key.location": "a"}, "without ssl.certificate.location"),
        ({"security.protocol": "SSL", "ssl.keystore.key": "a"}, "only of use together"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "SSLv3"}, "not a list of TLSv1"),
        ({"security.protocol": "SSL", "ssl_context": object()}, "not ssl.SSLContext"),
    ],
)
def test_security_options_fit_together(given: dict[str, Any], text: str | None) -> None:
    if text is None:
        load(ClientSettings, given)
        return
    with pytest.raises(OptionError, match=text):
        load(ClientSettings, given)


def test_jaas_gives_user_and_password() -> None:
    text = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required\n"
        '  username="a\\"b" password="p\\\\w; =" tokenauth=true;'
    )
    assert jaas_options(text) == {"username": 'a"b', "password": "p\\w; =", "tokenauth": "true"}
    settings = load(ClientSettings, {**SECURE, "sasl.jaas.config": text})
    assert (settings.sasl_username, settings.sasl_password) == ('a"b', "p\\w; =")


def test_no_secret_is_shown() -> None:
    settings = load(
        ClientSettings,
        {
            **SECURE,
            "sasl.username": "me",
            "sasl.password": " s3cret ",
            "ssl.key.password": "k3y",
        },
    )
    assert settings.sasl_password == " s3cret "
    assert "s3cret" not in repr(settings)
    assert "k3y" not in repr(settings)


def test_what_follows_from_other_options() -> None:
    producer = load(ProducerSettings, {"acks": "-1"})
    assert (producer.acks, producer.enable_idempotence) == ("all", True)
    assert not load(ProducerSettings, {"acks": 1}).enable_idempotence
    assert not load(ProducerSettings, {"retries": 0}).enable_idempotence
    assert load(ProducerSettings, {"request.timeout.ms": 200_000}).delivery_timeout_ms == 200_005
    level = {"compression.type": "zstd", "compression.zstd.level": 7}
    assert load(ProducerSettings, level).compression_level == 7
    assert load(ProducerSettings, {**level, "compression.zstd.level": 3}).compression_level is None
    assert load(ProducerSettings, {**level, "compression.type": "lz4"}).compression_level is None
    consumer = load(ConsumerSettings, {})
    assert not consumer.enable_auto_commit
    assert load(ConsumerSettings, {"group.id": "g"}).enable_auto_commit
    assert load(ClientSettings, {"retry.backoff.ms": 5_000}).retry_backoff_max_ms == 5_000
    assert load(ClientSettings, {"retry.backoff.max.ms": 5}).retry_backoff_ms == 5


def test_assignors_by_name_by_class_and_as_objects() -> None:
    own = object()
    java = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    settings = load(ConsumerSettings, {"partition.assignment.strategy": f"range, {java}"})
    assert settings.partition_assignment_strategy == ("range", "cooperative-sticky")
    settings = load(ConsumerSettings, {"partition_assignment_strategy": [own, "sticky"]})
    assert settings.partition_assignment_strategy == (own, "sticky")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1H", 3_600_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt90m", 5_400_000),
        ("PT0.001S", 1),
        ("P2D", 172_800_000),
        ("PT0S", 0),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("1H", None),
        ("P1H", None),
        ("PT1.S", None),
        ("P1W", None),
    ],
)
def test_durations(text: str, ms: int | None) -> None:
    assert parse_duration_ms(text) == ms
    if ms is not None:
        settings = load(ConsumerSettings, {"auto.offset.reset": f"BY_DURATION:{text}"})
        assert settings.reset_duration_ms == ms
    assert load(ConsumerSettings, {"auto.offset.reset": "Earliest"}).reset_duration_ms is None


def test_both_spellings_and_both_ways_of_giving() -> None:
    one = gather(ProducerSettings, {"linger.ms": "7"}, {"batch_size": 5})
    two = gather(ProducerSettings, None, {"linger_ms": 7, "batch_size": "5"})
    assert one == two
    assert gather(ProducerSettings, one, {}) is one
    assert gather(ProducerSettings, {"linger.ms": 7}, {"linger_ms": 7}).linger_ms == 7
    with pytest.raises(OptionError, match=r"linger\.ms is given twice: 7 and 8"):
        gather(ProducerSettings, {"linger.ms": 7}, {"linger_ms": 8})
    with pytest.raises(OptionError, match="and options besides them"):
        gather(ProducerSettings, one, {"linger_ms": 7})
    with pytest.raises(OptionError, match="Options are a mapping, not str"):
        gather(ProducerSettings, "localhost:9092", {})  # type: ignore[arg-type]


def test_what_has_no_effect_is_told_to_code_and_taken_from_files(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = {
        "ssl.provider": "x",
        "fetch.min.bytes": 1,
        "key.serializer": "org.example.Serializer",
        "linger.ms": 1,
    }
    with caplog.at_level(logging.WARNING, logger="barnabas.client.options"):
        assert load(ProducerSettings, given).linger_ms == 1
    assert [record.getMessage() for record in caplog.records] == [
        "option ssl.provider has no effect: TLS is OpenSSL's",
        "option fetch.min.bytes has no effect: it is an option of the consumer",
        "option key.serializer has no effect: it names a Java class",
    ]
    caplog.clear()
    ignored: list[str] = []
    load(ProducerSettings, given, ignored=ignored)
    assert ignored == ["ssl.provider", "fetch.min.bytes", "key.serializer"]
    assert not caplog.records
    with pytest.raises(OptionError, match=r"Did you mean linger\.ms"):
        load(ProducerSettings, {"linger.sm": 1}, ignored=ignored)


NUMBERS = [
    (table, row)
    for table in TABLES.values()
    for row in fields(table)
    if options.kind_of(row) in ("int", "float")
]


@pytest.mark.parametrize(("table", "row"), NUMBERS, ids=lambda x: getattr(x, "name", ""))
@given(number=st.integers(-(2**64), 2**64))
def test_numbers_are_in_their_range_or_refused(table: Any, row: Any, number: int) -> None:
    inside = row.metadata["least"] <= number <= row.metadata["most"]
    for value in (number, str(number)):
        if inside:
            assert options.convert(row, value) == number
        else:
            with pytest.raises(OptionError, match=re.escape(options.dotted(row.name))):
                options.convert(row, value)


def test_the_manual_is_up_to_date() -> None:
    text = MANUAL.read_text(encoding="utf-8")
    assert manual.renew(text) == text, "run: python -m barnabas.client.manual docs/clients.md"


# -- who acts upon an option

# Options that are read under another name, and where.
READ_ELSEWHERE = {
    "bootstrap_servers": "settings.py: addresses()",
    "compression_gzip_level": "settings.py: compression_level",
    "compression_lz4_level": "settings.py: compression_level",
    "compression_zstd_level": "settings.py: compression_level",
    "group_protocol": "settings.py: anything else than classic is refused",
    "security_protocol": "security_options.py: uses_tls, uses_sasl",
    "sasl_jaas_config": "security_options.py: sasl_username, sasl_password",
    "ssl_keystore_type": "security_options.py: anything else than PEM is refused",
    "ssl_truststore_type": "security_options.py: anything else than PEM is refused",
    "transactional_id": "settings.py: anything is refused",
}
TABLE_FILES = {"settings.py", "security_options.py", "options.py", "manual.py"}
SOURCES = {
    path: path.read_text()
    for path in (Path(barnabas.__file__).parent / "client").rglob("*.py")
    if path.name not in TABLE_FILES
}


def is_read(attribute: str) -> bool:
    use = re.compile(rf"\b_?settings\.{attribute}\b")
    return any(use.search(text) for text in SOURCES.values())


ALL_OPTIONS = sorted({row.name for table in TABLES.values() for row in fields(table)})


@pytest.mark.parametrize("name", ALL_OPTIONS)
def test_an_option_is_read_by_somebody(name: str) -> None:
    assert is_read(name) or name in READ_ELSEWHERE
