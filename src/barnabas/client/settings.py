"""The options of the clients: Kafka's names, as keywords with underscores or as keys with dots.

One frozen dataclass for each client. A field's name with dots instead of underscores is the option's
name, its type is how text is read, its default is Apache Kafka's. A wrong value says what is allowed;
an unknown name is an error that suggests the nearest one. Options that only mean something to a Java
client (class names, JMX, its interceptors) are known here by prefix so that a properties file written
for it can be used unchanged; `ignored` tells which those were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from barnabas.client.errors import OptionError

Settings = TypeVar("Settings", bound="ClientSettings")

_JAVA_ONLY = (
    "key.serializer",
    "value.serializer",
    "interceptor.classes",
    "metric.reporters",
    "metrics.",
    "auto.include.jmx.reporter",
    "enable.metrics.push",
    "client.dns.lookup",
    "config.providers",
    "exclude.internal.topics",
    "group.protocol",
    "partitioner.class",
    "partitioner.availability.timeout.ms",
    "partitioner.adaptive.partitioning.enable",
    "socket.connection.setup.timeout.max.ms",
    "metadata.max.idle.ms",
    "metadata.recovery.",
    "retries",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "ssl.",
    "sasl.",
)

_CHOICES = {
    "security_protocol": ("PLAINTEXT",),
    "acks": ("all", "-1", "0", "1"),
    "compression_type": ("none", "gzip", "snappy", "lz4", "zstd"),
    "isolation_level": ("read_uncommitted", "read_committed"),
}
_LEAST = {
    "request_timeout_ms": 1,
    "default_api_timeout_ms": 1,
    "batch_size": 0,
    "linger_ms": 0,
    "buffer_memory": 1024,
    "max_block_ms": 0,
    "max_request_size": 1,
    "max_in_flight_requests_per_connection": 1,
    "delivery_timeout_ms": 1,
    "max_poll_records": 1,
    "fetch_min_bytes": 0,
    "fetch_max_bytes": 1,
    "fetch_max_wait_ms": 0,
    "max_partition_fetch_bytes": 1,
    "session_timeout_ms": 1,
    "heartbeat_interval_ms": 1,
    "max_poll_interval_ms": 1,
}


@dataclass(frozen=True, slots=True)
class ClientSettings:
    bootstrap_servers: str = "localhost:9092"
    bootstrap_controllers: str = ""
    client_id: str = "barnabas"
    client_rack: str = ""
    security_protocol: str = "PLAINTEXT"
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    socket_connection_setup_timeout_ms: int = 10_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    connections_max_idle_ms: int = 540_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1

    def addresses(self) -> list[tuple[str, int]]:
        """The bootstrap servers, or the controllers if those are given, as (host, port)."""
        return parse_addresses(self.bootstrap_controllers or self.bootstrap_servers)


@dataclass(frozen=True, slots=True)
class ProducerSettings(ClientSettings):
    acks: str = "all"
    linger_ms: int = 5
    batch_size: int = 16_384
    buffer_memory: int = 33_554_432
    max_block_ms: int = 60_000
    max_request_size: int = 1_048_576
    compression_type: str = "none"
    compression_level: int | None = None
    enable_idempotence: bool = True
    max_in_flight_requests_per_connection: int = 5
    delivery_timeout_ms: int = 120_000
    partitioner_ignore_keys: bool = False
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class ConsumerSettings(ClientSettings):
    group_id: str | None = None
    group_instance_id: str | None = None
    auto_offset_reset: str = "latest"
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1_048_576
    isolation_level: str = "read_uncommitted"
    check_crcs: bool = True
    allow_auto_create_topics: bool = True
    partition_assignment_strategy: str = "range"
    key_deserializer: Any = None
    value_deserializer: Any = None
    poison_records: str = "raise"
    dead_letter_topic: str | None = None
    interceptors: tuple[Any, ...] = ()
    exclude_internal_topics: bool = True


def parse_addresses(text: str) -> list[tuple[str, int]]:
    """`host:port,host:port`; the port defaults to 9092; IPv6 hosts stand in brackets."""
    found: list[tuple[str, int]] = []
    for item in text.split(","):
        item = item.strip()
        if not item:
            continue
        if "://" in item:
            item = item.split("://", 1)[1]
        host, separator, port_text = item.rpartition(":")
        if not separator or (":" in host and not host.endswith("]")):
            host, port_text = item, "9092"
        host = host.strip("[]")
        if not port_text.isdigit() or not 0 < int(port_text) < 65_536 or not host:
            raise OptionError(
                f"{item!r} in bootstrap.servers is not HOST:PORT.",
                next_step="For example localhost:9092, or [::1]:9092.",
            )
        found.append((host, int(port_text)))
    if not found:
        raise OptionError("bootstrap.servers is empty.", next_step="Give at least one HOST:PORT.")
    return found


def load(
    cls: type[Settings], options: Mapping[str, Any], *, ignored: list[str] | None = None
) -> Settings:
    """Settings from options under either spelling. Unknown names raise unless `ignored` takes them."""
    known = {field.name: field for field in fields(cls)}
    values: dict[str, Any] = {}
    for name, value in options.items():
        key = name.replace(".", "_").replace("-", "_")
        if key in known:
            values[key] = _convert(key, str(known[key].type), value)
            continue
        dotted = name.replace("_", ".")
        java_only = any(dotted == p or (p[-1] == "." and dotted.startswith(p)) for p in _JAVA_ONLY)
        other_client = any(
            key in {f.name for f in fields(other)} for other in (ProducerSettings, ConsumerSettings)
        )
        if ignored is not None or other_client or java_only:
            if ignored is not None:
                ignored.append(dotted)
            continue
        raise _unknown(dotted, [n.replace("_", ".") for n in known])
    settings = cls(**values)
    _check_together(settings)
    return settings


def _check_together(settings: ClientSettings) -> None:
    settings.addresses()
    if isinstance(settings, ProducerSettings):
        if settings.enable_idempotence and settings.acks not in ("all", "-1"):
            # Apache's producer turns idempotence off when only acks was set; so does this one.
            object.__setattr__(settings, "enable_idempotence", False)
        if settings.enable_idempotence and settings.max_in_flight_requests_per_connection > 5:
            raise OptionError(
                "enable.idempotence allows at most 5 max.in.flight.requests.per.connection, not "
                f"{settings.max_in_flight_requests_per_connection}."
            )
    if (
        isinstance(settings, ConsumerSettings)
        and settings.heartbeat_interval_ms >= settings.session_timeout_ms
    ):
        raise OptionError(
            f"heartbeat.interval.ms ({settings.heartbeat_interval_ms}) must be below "
            f"session.timeout.ms ({settings.session_timeout_ms})."
        )


def _convert(name: str, kind: str, value: Any) -> Any:
    dotted = name.replace("_", ".")
    if kind in ("Any", "tuple[Any, ...]"):
        return value
    if value is None and "None" in kind:
        return None
    if kind.startswith("int"):
        try:
            number = int(value)
        except (TypeError, ValueError):
            raise OptionError(f"{dotted}={value!r} is not a whole number.") from None
        least = _LEAST.get(name)
        if least is not None and number < least:
            raise OptionError(f"{dotted}={number} is too small: the least is {least}.")
        return number
    if kind == "bool":
        if isinstance(value, bool):
            return value
        text = str(value).strip().lower()
        if text not in ("true", "false"):
            raise OptionError(f"{dotted}={value!r} is neither true nor false.")
        return text == "true"
    if isinstance(value, (list, tuple)):
        value = ",".join(str(item) for item in value)
    text = str(value).strip()
    choices = _CHOICES.get(name)
    if choices is not None and text not in choices:
        if name == "security_protocol":
            raise OptionError(
                f"{dotted}={text} is not supported by this client.",
                next_step="Use a PLAINTEXT listener of the broker.",
            )
        raise OptionError(f"{dotted}={text!r} is not one of {', '.join(choices)}.")
    return text


def _unknown(name: str, known: list[str]) -> OptionError:
    import difflib

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"Did you mean {near[0]}?" if near else "See the list of client options in the manual."
    return OptionError(f"There is no client option {name!r}.", next_step=hint)
