"""The settings of replication, as the broker's configuration names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig

RACK_AWARE_SELECTORS = ("org.apache.kafka.common.replica.RackAwareReplicaSelector",)


@dataclass(frozen=True, slots=True)
class ReplicaSettings:
    lag_time_max_ms: int = 30_000
    num_replica_fetchers: int = 1
    fetch_backoff_ms: int = 1_000
    fetch_max_bytes: int = 1 << 20
    fetch_min_bytes: int = 1
    fetch_response_max_bytes: int = 10 << 20
    fetch_wait_max_ms: int = 500
    rack_aware_selector: bool = False
    quota_window_num: int = 11
    quota_window_size_ms: int = 1_000
    alter_log_dirs_quota_window_num: int = 11
    alter_log_dirs_quota_window_size_ms: int = 1_000

    @classmethod
    def of(cls, config: BrokerConfig) -> ReplicaSettings:
        return cls(
            lag_time_max_ms=config.replica_lag_time_max_ms,
            num_replica_fetchers=config.num_replica_fetchers,
            fetch_backoff_ms=config.replica_fetch_backoff_ms,
            fetch_max_bytes=config.replica_fetch_max_bytes,
            fetch_min_bytes=config.replica_fetch_min_bytes,
            fetch_response_max_bytes=config.replica_fetch_response_max_bytes,
            fetch_wait_max_ms=config.replica_fetch_wait_max_ms,
            rack_aware_selector=config.replica_selector_class in RACK_AWARE_SELECTORS,
            quota_window_num=config.replication_quota_window_num,
            quota_window_size_ms=config.replication_quota_window_size_seconds * 1000,
            alter_log_dirs_quota_window_num=config.alter_log_dirs_replication_quota_window_num,
            alter_log_dirs_quota_window_size_ms=(
                config.alter_log_dirs_replication_quota_window_size_seconds * 1000
            ),
        )
