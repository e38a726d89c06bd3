"""The admin clients: everything about a cluster that is not records.

`Admin(bootstrap_servers=…)` connects when first used and may be shared between threads; `AsyncAdmin` is
the same with `await`, made inside a coroutine. `bootstrap_controllers=…` asks the controllers
themselves, which answer less. Calls about several things return one answer for each, with an exception
in place of an answer that failed; calls about one thing raise. The parts are in
`barnabas.client.administration`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

from barnabas.client.administration.configs import ConfigAdmin
from barnabas.client.administration.groups import GroupAdmin
from barnabas.client.administration.nodes import NodeAdmin
from barnabas.client.administration.quorum import QuorumAdmin
from barnabas.client.administration.replicas import ReplicaAdmin
from barnabas.client.administration.topics import TopicAdmin
from barnabas.client.cluster import Cluster
from barnabas.client.faces import blocking
from barnabas.client.lifetime import look_after, warn_unclosed
from barnabas.client.pump import Pump
from barnabas.client.reactor import Reactor
from barnabas.client.settings import AdminSettings, gather


class AdminEngine(TopicAdmin, GroupAdmin, ConfigAdmin, NodeAdmin, QuorumAdmin, ReplicaAdmin):
    """The calls, as coroutines over a cluster."""

    def __init__(self, settings: AdminSettings, reactor: Reactor, patience_ms: float = 0) -> None:
        retries = settings.retries
        super().__init__(Cluster(settings, reactor, patience_ms=patience_ms, most_retries=retries))

    async def close(self) -> None:
        """End the connections. Idempotent."""
        self.cluster.close()


class AsyncAdmin(AdminEngine):
    """Options are Kafka's, with underscores as keywords or with dots in a dict."""

    def __init__(
        self,
        options: Mapping[str, Any] | AdminSettings | None = None,
        /,
        *,
        patience_ms: float = 0,
        **more: Any,
    ) -> None:
        from barnabas.client.looping import AsyncioReactor

        settings = gather(AdminSettings, options, more)
        super().__init__(settings, AsyncioReactor(), patience_ms)

    def __del__(self) -> None:
        warn_unclosed(self, getattr(self, "cluster", None))

    async def __aenter__(self) -> AsyncAdmin:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class Admin:
    """Options are Kafka's, with underscores as keywords or with dots in a dict."""

    def __init__(
        self,
        options: Mapping[str, Any] | AdminSettings | None = None,
        /,
        *,
        patience_ms: float = 0,
        **more: Any,
    ) -> None:
        self._settings = gather(AdminSettings, options, more)
        self._pump = Pump()
        self._engine = AdminEngine(self._settings, self._pump.reactor, patience_ms)
        look_after(self, self._pump, self._engine.cluster, self._engine.close)

    @property
    def cluster(self) -> Cluster:
        return self._engine.cluster

    @property
    def timeout_ms(self) -> int:
        return self._engine.timeout_ms

    def of_controller(self, host: str, port: int) -> Admin:
        """Another client with the same options, which asks one controller only."""
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return Admin(replace(self._settings, bootstrap_controllers=place))

    ask_any = blocking(AdminEngine.ask_any)

    list_topics = blocking(AdminEngine.list_topics)
    find_topics = blocking(AdminEngine.find_topics)
    describe_topics = blocking(AdminEngine.describe_topics)
    create_topics = blocking(AdminEngine.create_topics)
    delete_topics = blocking(AdminEngine.delete_topics)
    create_partitions = blocking(AdminEngine.create_partitions)
    list_offsets = blocking(AdminEngine.list_offsets)
    delete_records = blocking(AdminEngine.delete_records)
    end_offsets_of_epochs = blocking(AdminEngine.end_offsets_of_epochs)
    describe_producers = blocking(AdminEngine.describe_producers)

    list_groups = blocking(AdminEngine.list_groups)
    describe_groups = blocking(AdminEngine.describe_groups)
    group_offsets = blocking(AdminEngine.group_offsets)
    alter_group_offsets = blocking(AdminEngine.alter_group_offsets)
    delete_group_offsets = blocking(AdminEngine.delete_group_offsets)
    delete_groups = blocking(AdminEngine.delete_groups)
    remove_members = blocking(AdminEngine.remove_members)

    describe_configs = blocking(AdminEngine.describe_configs)
    alter_configs = blocking(AdminEngine.alter_configs)
    replace_configs = blocking(AdminEngine.replace_configs)
    list_config_resources = blocking(AdminEngine.list_config_resources)

    describe_cluster = blocking(AdminEngine.describe_cluster)
    unregister_broker = blocking(AdminEngine.unregister_broker)
    describe_features = blocking(AdminEngine.describe_features)
    update_features = blocking(AdminEngine.update_features)
    broker_versions = blocking(AdminEngine.broker_versions)
    describe_log_dirs = blocking(AdminEngine.describe_log_dirs)

    describe_quorum = blocking(AdminEngine.describe_quorum)
    add_voter = blocking(AdminEngine.add_voter)
    remove_voter = blocking(AdminEngine.remove_voter)

    elect_leaders = blocking(AdminEngine.elect_leaders)
    alter_partition_reassignments = blocking(AdminEngine.alter_partition_reassignments)
    list_partition_reassignments = blocking(AdminEngine.list_partition_reassignments)
    alter_replica_log_dirs = blocking(AdminEngine.alter_replica_log_dirs)

    def close(self) -> None:
        """End the connections; calls of other threads fail. Idempotent."""
        with self._pump.lock:
            self._engine.cluster.close()
        self._pump.close()

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
