"""The settings of a node that the server acts upon, by attribute and type.

The attributes are filled from the table (`broker_def`); this page only tells the type checker and
the reader what is there. A test holds it against the table. Settings that have no effect here are
reachable by their own name through `BrokerConfig.values`.
"""

from __future__ import annotations


class BrokerSettings:
    """Attributes of `BrokerConfig` that come straight from the table."""

    node_id: int
    broker_id: int
    broker_rack: str | None
    num_recovery_threads_per_data_dir: int
    request_timeout_ms: int
    delete_topic_enable: bool
    auto_create_topics_enable: bool
    num_partitions: int
    default_replication_factor: int
    broker_heartbeat_interval_ms: int
    broker_session_timeout_ms: int
    initial_broker_registration_timeout_ms: int
    controlled_shutdown_enable: bool
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    message_max_bytes: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    inter_broker_listener_name: str | None
    security_inter_broker_protocol: str
    controller_listener_names: tuple[str, ...]
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_listen_backlog_size: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: str
    max_connection_creation_rate: int
    connections_max_idle_ms: int
    queued_max_requests: int
    queued_max_request_bytes: int
    log_dir: tuple[str, ...]
    log_initial_task_delay_ms: int
    log_segment_bytes: int
    log_roll_ms: int | None
    log_roll_hours: int
    log_roll_jitter_ms: int | None
    log_roll_jitter_hours: int
    log_retention_ms: int | None
    log_retention_minutes: int | None
    log_retention_hours: int
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_index_size_max_bytes: int
    log_index_interval_bytes: int
    log_flush_interval_messages: int
    log_flush_interval_ms: int | None
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_segment_delete_delay_ms: int
    log_preallocate: bool
    log_cleanup_policy: tuple[str, ...]
    log_message_timestamp_type: str
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_after_max_ms: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
    log_cleaner_enable: bool
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_buffer_size: int
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_backoff_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_delete_retention_ms: int
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_max_compaction_lag_ms: int
    min_insync_replicas: int
    unclean_leader_election_enable: bool
    replica_high_watermark_checkpoint_interval_ms: int
    controller_quorum_voters: tuple[str, ...]
    controller_quorum_bootstrap_servers: tuple[str, ...]
    metadata_log_segment_bytes: int
    metadata_log_segment_ms: int
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_max_idle_interval_ms: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_load_buffer_size: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    max_decompressed_message_bytes: int
    barnabas_flush_before_ack: bool
    barnabas_adopt_topic_directories: bool
    barnabas_format_if_empty: bool
    barnabas_metrics_host: str
    barnabas_metrics_port: int
    barnabas_request_log_enable: bool
    min_incremental_fetch_session_eviction_ms: int
    unstable_api_versions_enable: bool
    offsets_topic_compression_codec: int
    controller_quorum_auto_join_enable: bool
    controller_quorum_election_timeout_ms: int
    controller_quorum_election_backoff_max_ms: int
    controller_quorum_fetch_timeout_ms: int
    controller_quorum_request_timeout_ms: int
    controller_quorum_retry_backoff_ms: int
    controller_quorum_fetch_max_bytes: int
    controller_quorum_fetch_snapshot_max_bytes: int
    unclean_leader_election_interval_ms: int
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    num_replica_fetchers: int
    replica_lag_time_max_ms: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_socket_timeout_ms: int
    replica_selector_class: str | None
    replication_quota_window_num: int
    alter_log_dirs_replication_quota_window_num: int
    alter_log_dirs_replication_quota_window_size_seconds: int
    replication_quota_window_size_seconds: int
