"""Which APIs a broker serves, and which a controller. A new one is a new file and a line here."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from barnabas.wire.api_keys import ApiKey

SERVED = (
    "produce",
    "fetch",
    "list_offsets",
    "metadata",
    "offset_commit",
    "offset_fetch",
    "find_coordinator",
    "join_group",
    "heartbeat",
    "leave_group",
    "sync_group",
    "describe_groups",
    "list_groups",
    "api_versions",
    "create_topics",
    "delete_topics",
    "delete_records",
    "init_producer_id",
    "offset_for_leader_epoch",
    "describe_configs",
    "alter_configs",
    "alter_replica_log_dirs",
    "describe_log_dirs",
    "create_partitions",
    "delete_groups",
    "incremental_alter_configs",
    "offset_delete",
    "describe_quorum",
    "update_features",
    "describe_cluster",
    "describe_producers",
    "list_config_resources",
    "describe_topic_partitions",
    "elect_leaders",
    "alter_partition_reassignments",
    "list_partition_reassignments",
    "unregister_broker",
    "add_raft_voter",
    "remove_raft_voter",
)

CONTROLLER_SERVED = (
    "metadata_fetch",
    "api_versions",
    "create_topics",
    "delete_topics",
    "describe_configs",
    "alter_configs",
    "create_partitions",
    "elect_leaders",
    "incremental_alter_configs",
    "alter_partition_reassignments",
    "list_partition_reassignments",
    "vote",
    "begin_quorum_epoch",
    "end_quorum_epoch",
    "describe_quorum",
    "alter_partition",
    "update_features",
    "envelope",
    "fetch_snapshot",
    "describe_cluster",
    "broker_registration",
    "broker_heartbeat",
    "unregister_broker",
    "allocate_producer_ids",
    "controller_registration",
    "assign_replicas_to_dirs",
    "add_raft_voter",
    "remove_raft_voter",
    "update_raft_voter",
)
FORWARDED = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
"""What brokers pass on to the active controller for their clients."""


def load_handlers(served: tuple[str, ...] = SERVED) -> dict[ApiKey, ModuleType]:
    modules = [import_module(f"barnabas.api.{name}") for name in served]
    return {module.KEY: module for module in modules}


def advertised_versions(
    handlers: dict[ApiKey, ModuleType], *, unstable: bool
) -> dict[ApiKey, tuple[int, int]]:
    """What ApiVersions says, in the order of the keys."""
    shown = {}
    for key in sorted(handlers):
        module = handlers[key]
        versions = getattr(module, "ADVERTISED_VERSIONS", module.VERSIONS)
        if not unstable:
            versions = getattr(module, "STABLE_VERSIONS", versions)
        shown[key] = versions
    return shown
