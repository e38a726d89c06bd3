"""The options of the clients: Kafka's names, as keywords with underscores or as keys with dots.

One frozen dataclass for each client; `options.py` says how its rows are read. Defaults are Apache
Kafka's, but for what the operating system knows better (the sizes of socket buffers) and for what
would only be right in Java. `check` holds what options demand of each other, and makes of the
options that were given the ones that follow from them.

Every option in these tables is acted upon; a test looks for who does it. What Kafka's own clients
have besides is in `no_effect.py`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from barnabas.client import options
from barnabas.client.errors import OptionError
from barnabas.client.no_effect import NO_EFFECT
from barnabas.client.options import LONG_MAX, change, dotted, option
from barnabas.client.security_options import SecuritySettings

__all__ = [
    "AdminSettings",
    "ClientSettings",
    "ConsumerSettings",
    "ProducerSettings",
    "gather",
    "load",
    "parse_addresses",
]

logger = logging.getLogger(__name__)

Settings = TypeVar("Settings", bound="ClientSettings")
Given = frozenset[str]

_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?=[\d.])(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE
)
BY_DURATION = "by_duration:"
_JAVA_ASSIGNORS = {
    f"org.apache.kafka.clients.consumer.{name}Assignor": ours
    for name, ours in (
        ("Range", "range"),
        ("RoundRobin", "roundrobin"),
        ("Sticky", "sticky"),
        ("CooperativeSticky", "cooperative-sticky"),
    )
}


@dataclass(frozen=True, slots=True)
class ClientSettings(SecuritySettings):
    bootstrap_servers: str = option(
        "localhost:9092",
        "Brokers to ask first, as HOST:PORT,HOST:PORT. They tell of all others.",
    )
    bootstrap_controllers: str = option(
        "", "For an admin: controllers to ask instead of brokers, as HOST:PORT,HOST:PORT."
    )
    client_id: str = option(
        "barnabas", "A name for this client in the brokers' logs, metrics and quotas."
    )
    request_timeout_ms: int = option(
        30_000, "How long the answer to one request is waited for before it is sent again.", least=1
    )
    default_api_timeout_ms: int = option(
        60_000, "How long a call without a timeout of its own may take, with all retries.", least=1
    )
    socket_connection_setup_timeout_ms: int = option(
        10_000,
        "How long a broker may take to accept a connection; doubled with every failure in a row.",
        least=1,
        most=LONG_MAX,
    )
    socket_connection_setup_timeout_max_ms: int = option(
        30_000, "What that doubling ends at.", least=1, most=LONG_MAX
    )
    connections_max_idle_ms: int = option(
        540_000,
        "A connection that nobody used for so long is closed; -1 never.",
        least=-1,
        most=LONG_MAX,
    )
    reconnect_backoff_ms: int = option(
        50,
        "How long to wait before a broker is connected to again; doubled with every failure in a row.",
        least=0,
        most=LONG_MAX,
    )
    reconnect_backoff_max_ms: int = option(
        1_000, "What that doubling ends at.", least=0, most=LONG_MAX
    )
    retry_backoff_ms: int = option(
        100,
        "How long to wait before a request that failed is sent again; doubled with every failure.",
        least=0,
        most=LONG_MAX,
    )
    retry_backoff_max_ms: int = option(1_000, "What that doubling ends at.", least=0, most=LONG_MAX)
    metadata_max_age_ms: int = option(
        300_000,
        "What is known of topics and brokers is asked for again after this time, even if nothing "
        "seems wrong.",
        least=0,
        most=LONG_MAX,
    )
    metadata_recovery_strategy: str = option(
        "rebootstrap",
        "When no known broker can be reached: rebootstrap begins again with bootstrap.servers, "
        "none keeps trying the known ones.",
        choices=("rebootstrap", "none"),
    )
    metadata_recovery_rebootstrap_trigger_ms: int = option(
        300_000,
        "rebootstrap also happens when no broker answered for metadata in this time.",
        least=0,
        most=LONG_MAX,
    )
    send_buffer_bytes: int = option(
        -1, "SO_SNDBUF of connections; -1 leaves it to the operating system.", least=-1
    )
    receive_buffer_bytes: int = option(
        -1, "SO_RCVBUF of connections; -1 leaves it to the operating system.", least=-1
    )
    metrics_sample_window_ms: int = option(
        30_000,
        "Rates and averages in metrics are of the last metrics.num.samples times this.",
        least=1,
        most=LONG_MAX,
    )
    metrics_num_samples: int = option(2, "See metrics.sample.window.ms.", least=1)

    def addresses(self) -> list[tuple[str, int]]:
        """The bootstrap servers, or the controllers if those are given, as (host, port)."""
        return parse_addresses(self.bootstrap_controllers or self.bootstrap_servers)

    def check(self, given: Given) -> None:
        self.addresses()
        self.check_security()
        for name in ("retry_backoff", "reconnect_backoff", "socket_connection_setup_timeout"):
            first, most = f"{name}_ms", f"{name}_max_ms"
            if getattr(self, first) <= getattr(self, most):
                continue
            if first in given and most in given:
                raise OptionError(
                    f"{dotted(first)} ({getattr(self, first)}) is above {dotted(most)} "
                    f"({getattr(self, most)}).",
                    next_step=f"Raise {dotted(most)}.",
                )
            if first in given:
                change(self, **{most: getattr(self, first)})
            else:
                change(self, **{first: getattr(self, most)})


@dataclass(frozen=True, slots=True)
class AdminSettings(ClientSettings):
    connections_max_idle_ms: int = option(
        300_000,
        "A connection that nobody used for so long is closed; -1 never.",
        least=-1,
        most=LONG_MAX,
    )
    retries: int = option(
        options.INT_MAX,
        "How often a call tries again; default.api.timeout.ms ends it before that.",
        least=0,
    )


@dataclass(frozen=True, slots=True)
class ProducerSettings(ClientSettings):
    key_serializer: Any = option(
        None, "What makes bytes of keys: a name (json, string, int, …) or a function."
    )
    value_serializer: Any = option(None, "What makes bytes of values: a name or a function.")
    acks: str = option(
        "all",
        "Who must have a record before it counts as sent: all in-sync replicas (all, or -1), the "
        "leader (1), nobody (0).",
        choices={"all": "all", "-1": "all", "0": "0", "1": "1"},
    )
    enable_idempotence: bool = option(
        True,
        "A record that must be sent again is never written twice, nor out of order. Goes off when "
        "acks or retries are set to what excludes it.",
    )
    linger_ms: int = option(
        5, "How long a batch that is not full waits for more records.", least=0, most=LONG_MAX
    )
    batch_size: int = option(
        16_384, "How many bytes of records for one partition go into one batch.", least=0
    )
    buffer_memory: int = option(
        33_554_432,
        "How many bytes of records may wait to be sent. Beyond it, send() waits.",
        least=1_024,
        most=LONG_MAX,
    )
    max_block_ms: int = option(
        60_000,
        "How long send() may wait for metadata and for room in buffer.memory.",
        least=0,
        most=LONG_MAX,
    )
    max_request_size: int = option(
        1_048_576, "How large a request may be, and so a record, before compression.", least=1
    )
    max_in_flight_requests_per_connection: int = option(
        5,
        "How many requests to one broker may be without an answer. At most 5 with "
        "enable.idempotence.",
        least=1,
    )
    retries: int = option(
        options.INT_MAX,
        "How often a batch is sent again; delivery.timeout.ms ends it before that.",
        least=0,
    )
    delivery_timeout_ms: int = option(
        120_000,
        "A record that is not acknowledged after this time from send() on has failed. At least "
        "linger.ms and request.timeout.ms together.",
        least=1,
    )
    compression_type: str = option(
        "none",
        "What batches are compressed with.",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
    )
    compression_level: int | None = option(
        None, "The level of whichever compression.type is used.", least=-131_072, most=22
    )
    compression_gzip_level: int = option(
        -1, "The level of gzip; -1 is its default.", least=-1, most=9
    )
    compression_lz4_level: int = option(9, "The level of lz4.", least=1, most=17)
    compression_zstd_level: int = option(3, "The level of zstd.", least=-131_072, most=22)
    partitioner: Any = option(
        None,
        "Which partition a record without one goes to: round_robin, or a function "
        "(topic, key, value, partitions) -> partition. Without it: by the hash of the key, and "
        "without a key to one partition for a batch's length.",
    )
    partitioner_ignore_keys: bool = option(
        False, "Records with a key are spread as those without one are."
    )
    partitioner_adaptive_partitioning_enable: bool = option(
        True, "Records without a key go more often to partitions whose brokers are quicker."
    )
    partitioner_availability_timeout_ms: int = option(
        0,
        "Records without a key avoid a partition whose batches could not be sent for this time; "
        "0 never does.",
        least=0,
        most=LONG_MAX,
    )
    metadata_max_idle_ms: int = option(
        300_000,
        "A topic that nothing was sent to for this time is no longer kept up to date.",
        least=5_000,
        most=LONG_MAX,
    )
    interceptors: tuple[Any, ...] = option(
        (), "Objects with on_send or on_acknowledgement, called in this order."
    )
    transactional_id: str | None = option(None, "Transactions are not supported yet.")

    def check(self, given: Given) -> None:
        ClientSettings.check(self, given)
        if self.transactional_id is not None:
            raise OptionError(
                f"transactional.id={self.transactional_id!r}: this client does not support "
                "transactions yet.",
                next_step="Leave transactional.id out; with enable.idempotence nothing is written "
                "twice by retries.",
            )
        self._check_idempotence(given)
        self._check_delivery_timeout(given)
        self._choose_level(given)

    def _check_idempotence(self, given: Given) -> None:
        if not self.enable_idempotence:
            return
        against = ""
        if self.acks != "all":
            against = f"acks=all, not acks={self.acks}"
        elif self.retries == 0:
            against = "retries above 0"
        if against and "enable_idempotence" not in given:
            # Apache's producer goes without idempotence when only the other option was set.
            change(self, enable_idempotence=False)
            return
        if against:
            raise OptionError(
                f"enable.idempotence=true needs {against}.",
                next_step="Change that, or set enable.idempotence=false.",
            )
        if self.max_in_flight_requests_per_connection > 5:
            raise OptionError(
                "enable.idempotence allows at most 5 max.in.flight.requests.per.connection, not "
                f"{self.max_in_flight_requests_per_connection}.",
                next_step="Lower that, or set enable.idempotence=false.",
            )

    def _check_delivery_timeout(self, given: Given) -> None:
        least = self.linger_ms + self.request_timeout_ms
        if self.delivery_timeout_ms >= least:
            return
        if "delivery_timeout_ms" not in given:
            change(self, delivery_timeout_ms=min(least, options.INT_MAX))
            return
        raise OptionError(
            f"delivery.timeout.ms ({self.delivery_timeout_ms}) is less than linger.ms "
            f"({self.linger_ms}) and request.timeout.ms ({self.request_timeout_ms}) together.",
            next_step=f"Raise it to {least}, or lower request.timeout.ms.",
        )

    def _choose_level(self, given: Given) -> None:
        name = f"compression_{self.compression_type}_level"
        if name in given and "compression_level" not in given:
            level: int = getattr(self, name)
            change(
                self, compression_level=None if level == options.default_of(_row(name)) else level
            )
        if self.compression_level is None:
            return
        ranges = {"gzip": (-1, 9), "lz4": (1, 17), "zstd": (-131_072, 22)}
        least, most = ranges.get(self.compression_type, (self.compression_level,) * 2)
        if not least <= self.compression_level <= most or self.compression_level == 0 == most:
            raise OptionError(
                f"compression.level={self.compression_level} is not a level of "
                f"{self.compression_type}: those are {least} to {most}."
            )


@dataclass(frozen=True, slots=True)
class ConsumerSettings(ClientSettings):
    key_deserializer: Any = option(
        None, "What makes keys of bytes: a name (json, string, int, …) or a function."
    )
    value_deserializer: Any = option(None, "What makes values of bytes: a name or a function.")
    group_id: str | None = option(
        None, "The group this consumer belongs to: needed to subscribe() and to commit()."
    )
    group_instance_id: str | None = option(
        None,
        "A name of this member that stays: it may restart within session.timeout.ms and keeps its "
        "partitions.",
    )
    group_protocol: str = option(
        "classic",
        "How the group agrees on assignments. Only classic is supported yet.",
        choices=("classic", "consumer"),
    )
    partition_assignment_strategy: tuple[Any, ...] = option(
        ("range", "cooperative-sticky"),
        "How partitions are shared out, in order of preference: range, roundrobin, sticky, "
        "cooperative-sticky, or an assignor of your own. The group uses the first one all know.",
    )
    session_timeout_ms: int = option(
        45_000, "A member that sends no heartbeat for so long is put out of the group.", least=1
    )
    heartbeat_interval_ms: int = option(
        3_000, "How often a heartbeat is sent. Below session.timeout.ms.", least=1
    )
    max_poll_interval_ms: int = option(
        300_000,
        "A member that does not call poll() for so long leaves the group, so that others go on.",
        least=1,
    )
    max_poll_records: int = option(500, "How many records one poll() returns at most.", least=1)
    enable_auto_commit: bool = option(
        True, "Positions are committed by themselves. Off without a group.id."
    )
    auto_commit_interval_ms: int = option(5_000, "How often that happens.", least=0)
    auto_offset_reset: str = option(
        "latest",
        "Where to begin when there is no committed offset, or it is gone: earliest, latest, none "
        "(an error), or by_duration:PT1H (records of the last hour, in ISO 8601).",
    )
    fetch_min_bytes: int = option(
        1, "A broker waits until it has so many bytes, up to fetch.max.wait.ms.", least=0
    )
    fetch_max_bytes: int = option(
        52_428_800,
        "How many bytes a broker answers at once; a single larger batch still comes.",
        least=1,
    )
    fetch_max_wait_ms: int = option(500, "How long a broker waits for fetch.min.bytes.", least=0)
    max_partition_fetch_bytes: int = option(
        1_048_576,
        "How many of these bytes are of one partition; a single larger batch still comes.",
        least=1,
    )
    isolation_level: str = option(
        "read_uncommitted",
        "read_committed passes over records of transactions that were aborted, and waits for the "
        "end of open ones.",
        choices=("read_uncommitted", "read_committed"),
    )
    check_crcs: bool = option(True, "Checksums of batches are checked.")
    allow_auto_create_topics: bool = option(
        True, "Subscribing to a topic that is not there may make the broker create it."
    )
    exclude_internal_topics: bool = option(
        True, "A pattern does not match topics that Kafka keeps for itself."
    )
    client_rack: str = option(
        "", "Where this client is. A broker may then name a replica in the same place to read from."
    )
    interceptors: tuple[Any, ...] = option(
        (), "Objects with on_consume or on_commit, called in this order."
    )
    poison_records: str = option(
        "raise",
        "What to do with a record whose bytes cannot be decoded: raise PoisonRecordError, skip it, "
        "or send it to dead.letter.topic (dead-letter).",
        choices=("raise", "skip", "dead-letter"),
    )
    dead_letter_topic: str | None = option(
        None,
        "Where poison_records=dead-letter sends them, with headers that say why and wherefrom.",
    )

    @property
    def reset_duration_ms(self) -> int | None:
        """How far back `auto.offset.reset=by_duration:…` goes; None for the other values."""
        if not self.auto_offset_reset.startswith(BY_DURATION):
            return None
        return parse_duration_ms(self.auto_offset_reset.removeprefix(BY_DURATION))

    def check(self, given: Given) -> None:
        ClientSettings.check(self, given)
        self._check_group(given)
        self._check_reset()
        if self.fetch_min_bytes > self.fetch_max_bytes:
            raise OptionError(
                f"fetch.min.bytes ({self.fetch_min_bytes}) is above fetch.max.bytes "
                f"({self.fetch_max_bytes}), so every fetch would wait for fetch.max.wait.ms.",
                next_step="Lower fetch.min.bytes.",
            )
        if self.poison_records == "dead-letter" and not self.dead_letter_topic:
            raise OptionError("poison.records=dead-letter needs dead.letter.topic.")

    def _check_group(self, given: Given) -> None:
        if self.group_id is not None and not self.group_id.strip():
            raise OptionError(
                "group.id is empty.",
                next_step="Give the group a name, or leave group.id out to read without a group.",
            )
        if self.group_instance_id == "":
            raise OptionError("group.instance.id is empty.", next_step="Name it or leave it out.")
        if self.group_protocol == "consumer":
            raise OptionError(
                "group.protocol=consumer is not supported by this client yet.",
                next_step="Use group.protocol=classic; one group may have members of both.",
            )
        if self.group_id is None and self.enable_auto_commit:
            if "enable_auto_commit" in given:
                raise OptionError(
                    "enable.auto.commit=true needs a group.id, under which offsets are kept.",
                    next_step="Give one, or set enable.auto.commit=false.",
                )
            change(self, enable_auto_commit=False)
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise OptionError(
                f"heartbeat.interval.ms ({self.heartbeat_interval_ms}) must be below "
                f"session.timeout.ms ({self.session_timeout_ms}).",
                next_step=f"Set it to {max(self.session_timeout_ms // 3, 1)} or so.",
            )
        change(
            self,
            partition_assignment_strategy=tuple(
                _JAVA_ASSIGNORS.get(each, each) if isinstance(each, str) else each
                for each in self.partition_assignment_strategy
            ),
        )
        if not self.partition_assignment_strategy:
            raise OptionError(
                "partition.assignment.strategy is empty.",
                next_step="Name at least one, for example cooperative-sticky.",
            )

    def _check_reset(self) -> None:
        value = self.auto_offset_reset.lower()
        if value in ("earliest", "latest", "none"):
            change(self, auto_offset_reset=value)
            return
        if value.startswith(BY_DURATION):
            duration = self.auto_offset_reset[len(BY_DURATION) :]
            if parse_duration_ms(duration) is not None:
                change(self, auto_offset_reset=BY_DURATION + duration)
                return
        raise OptionError(
            f"auto.offset.reset={self.auto_offset_reset!r} is not one of earliest, latest, none, "
            "by_duration:PnDTnHnMn.nS.",
            next_step="For example by_duration:PT90M for the last ninety minutes.",
        )


TABLES: dict[str, type[ClientSettings]] = {
    "producer": ProducerSettings,
    "consumer": ConsumerSettings,
    "admin": AdminSettings,
}

_CLASS_OPTIONS = ("key_serializer", "value_serializer", "key_deserializer", "value_deserializer")


def load(
    cls: type[Settings], options_given: Mapping[str, Any], *, ignored: list[str] | None = None
) -> Settings:
    """Settings from options under either spelling; see `options.load`."""
    elsewhere = dict(NO_EFFECT)
    for client, table in TABLES.items():
        for row in fields(table):
            elsewhere.setdefault(dotted(row.name), f"it is an option of the {client}")
    return options.load(
        cls, options_given, ignored=ignored, elsewhere=elsewhere, java_classes=_CLASS_OPTIONS
    )


def gather(
    cls: type[Settings], given: Mapping[str, Any] | Settings | None, keywords: Mapping[str, Any]
) -> Settings:
    """What a client was made with: `Producer({…}, linger_ms=5)`, or settings that are ready."""
    if isinstance(given, cls):
        if keywords:
            raise OptionError(f"{cls.__name__} are given, and options besides them.")
        return given
    if given is not None and not isinstance(given, Mapping):
        raise OptionError(
            f"Options are a mapping, not {type(given).__name__}.",
            next_step="Give keywords (bootstrap_servers=…) or a dict with Kafka's names.",
        )
    return load(cls, options.together(given, keywords))


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


def parse_duration_ms(text: str) -> int | None:
    """An ISO 8601 duration of days and less, such as P1DT2H or PT0.5S; None if it is not one."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds, fraction = (part or "0" for part in match.groups())
    whole = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
    return whole * 1_000 + int(fraction.ljust(9, "0")) // 1_000_000


def _row(name: str) -> Any:
    return next(row for row in fields(ProducerSettings) if row.name == name)
