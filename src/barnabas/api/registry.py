"""Which APIs a broker serves. A new one is a new file and a line here."""

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
)


def load_handlers() -> dict[ApiKey, ModuleType]:
    modules = [import_module(f"barnabas.api.{name}") for name in SERVED]
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
