"""The configuration of one topic's logs.

Every topic setting has a server-wide default: most have a broker setting of their own
(`retention.ms` falls back to `log.retention.ms`, then to the minutes, then to the hours). The chain
is the table `TOPIC_SYNONYMS`; the same table drives what DescribeConfigs shows.

`LogConfig` is what the log layer reads: frozen, typed, one attribute a topic setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.config.definition import LONG_MAX, ConfigDef, ConfigError

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig


class Synonym(NamedTuple):
    """A broker setting that stands in for a topic setting, and the unit it is counted in."""

    name: str
    factor: int = 1


_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000

TOPIC_SYNONYMS: Final[Mapping[str, tuple[Synonym, ...]]] = {
    "segment.bytes": (Synonym("log.segment.bytes"),),
    "segment.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR_MS)),
    "segment.jitter.ms": (
        Synonym("log.roll.jitter.ms"),
        Synonym("log.roll.jitter.hours", _HOUR_MS),
    ),
    "segment.index.bytes": (Synonym("log.index.size.max.bytes"),),
    "flush.messages": (Synonym("log.flush.interval.messages"),),
    "flush.ms": (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    "retention.bytes": (Synonym("log.retention.bytes"),),
    "retention.ms": (
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", _MINUTE_MS),
        Synonym("log.retention.hours", _HOUR_MS),
    ),
    "max.message.bytes": (Synonym("message.max.bytes"),),
    "index.interval.bytes": (Synonym("log.index.interval.bytes"),),
    "delete.retention.ms": (Synonym("log.cleaner.delete.retention.ms"),),
    "min.compaction.lag.ms": (Synonym("log.cleaner.min.compaction.lag.ms"),),
    "max.compaction.lag.ms": (Synonym("log.cleaner.max.compaction.lag.ms"),),
    "file.delete.delay.ms": (Synonym("log.segment.delete.delay.ms"),),
    "min.cleanable.dirty.ratio": (Synonym("log.cleaner.min.cleanable.ratio"),),
    "cleanup.policy": (Synonym("log.cleanup.policy"),),
    "unclean.leader.election.enable": (Synonym("unclean.leader.election.enable"),),
    "min.insync.replicas": (Synonym("min.insync.replicas"),),
    "compression.type": (Synonym("compression.type"),),
    "compression.gzip.level": (Synonym("compression.gzip.level"),),
    "compression.lz4.level": (Synonym("compression.lz4.level"),),
    "compression.zstd.level": (Synonym("compression.zstd.level"),),
    "preallocate": (Synonym("log.preallocate"),),
    "message.timestamp.type": (Synonym("log.message.timestamp.type"),),
    "message.timestamp.before.max.ms": (Synonym("log.message.timestamp.before.max.ms"),),
    "message.timestamp.after.max.ms": (Synonym("log.message.timestamp.after.max.ms"),),
    "local.retention.ms": (Synonym("log.local.retention.ms"),),
    "local.retention.bytes": (Synonym("log.local.retention.bytes"),),
}


@cache
def topic_def() -> ConfigDef:
    """The table of topic settings."""
    from barnabas.config.tables import topics

    return ConfigDef.of(topics.KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """A topic's settings. Attributes are the names of the settings in snake_case."""

    cleanup_policy: frozenset[str] = frozenset(("delete",))
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    internal_segment_bytes: int | None = None
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False
    # Of the broker, for all of its topics.
    max_decompressed_message_bytes: int = 104_857_600

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def segment_size(self) -> int:
        """The size at which segments roll, with the one that only tests may set before all."""
        return (
            self.segment_bytes
            if self.internal_segment_bytes is None
            else self.internal_segment_bytes
        )

    @classmethod
    def of(
        cls, overrides: Mapping[str, object] | None = None, broker: BrokerConfig | None = None
    ) -> LogConfig:
        """A topic's settings from its own overrides (strings or values) over a broker's defaults.

        Names that are no topic settings are passed over; a wrong value is a `ConfigError`.
        """
        values = {} if broker is None else dict(broker.topic_defaults)
        if overrides:
            values.update(topic_def().parse_given(overrides))
        policy = values.get("cleanup.policy")
        if policy is not None:
            values["cleanup.policy"] = frozenset(policy)
        if broker is not None:
            values["max.decompressed.message.bytes"] = broker.max_decompressed_message_bytes
        return cls(**{attribute_name(name): value for name, value in values.items()})


def attribute_name(name: str) -> str:
    return name.replace(".", "_")


def broker_topic_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a broker's settings say for every topic setting that has a broker setting."""
    defaults: dict[str, Any] = {}
    for name, synonyms in TOPIC_SYNONYMS.items():
        for synonym in synonyms:
            value = values[synonym.name]
            if value is not None:
                defaults[name] = scaled(value, synonym.factor)
                break
    return defaults


def scaled(value: Any, factor: int) -> Any:
    """A broker's value in the topic's unit; negative numbers mean unlimited and stay so."""
    if factor == 1:
        return value
    return -1 if value < 0 else value * factor


def validate_topic_configs(
    overrides: Mapping[str, str | None], defaults: Mapping[str, Any]
) -> None:
    """What Kafka checks before it accepts a topic's configuration; raises `ConfigError`.

    `defaults` are the values that hold where the topic sets nothing.
    """
    table = topic_def()
    for name in overrides:
        if name not in table:
            raise ConfigError(f"Unknown topic config name: {name}", name)
    parsed = {**defaults, **table.parse_given(overrides)}
    lowest, highest = parsed["min.compaction.lag.ms"], parsed["max.compaction.lag.ms"]
    if lowest > highest:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({lowest}) > "
            f"max.compaction.lag.ms ({highest})",
            "min.compaction.lag.ms",
        )
    if parsed.get("remote.storage.enable"):
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
            "remote.storage.enable",
        )
