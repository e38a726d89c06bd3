"""The settings of the group coordinator, and its bounds.

`GroupCoordinatorConfig` holds what an operator can set, under Kafka's names with dots as
underscores. `Limits` holds the bounds that keep one peer from exhausting the node; Kafka has no
settings for them, and they are far above what clients do.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupCoordinatorConfig:
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1_000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5_000
    offsets_topic_num_partitions: int = 50
    offsets_topic_compression_codec: int = 0
    # A member that never got its first answer cannot send heartbeats, so it gets this long instead.
    new_member_join_timeout_ms: int = 300_000


@dataclass(frozen=True, slots=True)
class Limits:
    # Groups in one shard: with 50 partitions, half a million groups on a single node.
    groups_per_shard: int = 10_000
    # Member ids handed out and not used yet. Past this the oldest is forgotten: its owner is told
    # UNKNOWN_MEMBER_ID when it comes, and asks again.
    pending_members_per_group: int = 5_000
    protocols_per_member: int = 100
    # Names and metadata of all protocols of one member.
    protocol_bytes_per_member: int = 4 * 1024 * 1024
    # The same, of all members together.
    protocol_bytes_per_group: int = 64 * 1024 * 1024


DEFAULT_LIMITS = Limits()
