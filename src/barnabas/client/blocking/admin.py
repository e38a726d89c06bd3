"""The admin client: everything about a cluster that is not records.

`Admin(bootstrap_servers=…)` connects when first used and may be shared between threads;
`bootstrap_controllers=…` asks the controllers themselves, which answer less. Calls about several
things return one answer for each, with an exception in place of an answer that failed; calls about
one thing raise. The parts are in `barnabas.client.blocking.administration`.
"""

from __future__ import annotations

from typing import Any

from barnabas.client.blocking.administration.configs import ConfigAdmin
from barnabas.client.blocking.administration.groups import GroupAdmin
from barnabas.client.blocking.administration.nodes import NodeAdmin
from barnabas.client.blocking.administration.quorum import QuorumAdmin
from barnabas.client.blocking.administration.replicas import ReplicaAdmin
from barnabas.client.blocking.administration.topics import TopicAdmin
from barnabas.client.blocking.cluster import Cluster
from barnabas.client.settings import ClientSettings, load


class Admin(TopicAdmin, GroupAdmin, ConfigAdmin, NodeAdmin, QuorumAdmin, ReplicaAdmin):
    """Options are Kafka's, with underscores as keywords or with dots in a dict."""

    def __init__(
        self,
        options: dict[str, Any] | None = None,
        *,
        patience_ms: int = 0,
        **more: Any,
    ) -> None:
        settings = load(ClientSettings, {**(options or {}), **more})
        super().__init__(Cluster(settings, patience_ms=patience_ms))

    def close(self) -> None:
        self.cluster.close()

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
