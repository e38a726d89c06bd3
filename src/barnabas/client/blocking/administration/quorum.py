"""The controllers' quorum: who votes, who leads, how far each replica is; voters added and removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from barnabas.client.blocking.administration.base import AdminBase
from barnabas.client.errors import broker_error
from barnabas.wire.errors import ErrorCode

METADATA_TOPIC = "__cluster_metadata"


class Endpoint(NamedTuple):
    """Where a controller listens, by the listener's name."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    node_id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[Endpoint, ...]] = field(default_factory=dict)

    @property
    def leader(self) -> QuorumReplica | None:
        return next((v for v in self.voters if v.node_id == self.leader_id), None)


class QuorumAdmin(AdminBase):
    def describe_quorum(self) -> QuorumDescription:
        """Leader, epoch and replicas of the controllers' metadata log."""
        from barnabas.wire.messages import describe_quorum as api

        request = api.DescribeQuorumRequest(
            topics=[
                api.DescribeQuorumRequestTopicData(
                    topic_name=METADATA_TOPIC,
                    partitions=[api.DescribeQuorumRequestPartitionData(partition_index=0)],
                )
            ]
        )

        def attempt() -> Any:
            response = self._for_leader().request(request, what="the description of the quorum")
            if response.error_code != ErrorCode.NONE:
                raise broker_error(response.error_code, response.error_message)
            partition = response.topics[0].partitions[0]
            if partition.error_code != ErrorCode.NONE:
                raise broker_error(partition.error_code, partition.error_message)
            return response

        response = self.cluster.retry("the description of the quorum", attempt)
        partition = response.topics[0].partitions[0]
        return QuorumDescription(
            partition.leader_id,
            partition.leader_epoch,
            partition.high_watermark,
            tuple(_replica(r) for r in partition.current_voters),
            tuple(_replica(r) for r in partition.observers),
            {
                node.node_id: tuple(Endpoint(at.name, at.host, at.port) for at in node.listeners)
                for node in response.nodes
            },
        )

    def add_voter(
        self,
        node_id: int,
        directory_id: bytes,
        endpoints: Sequence[Endpoint],
        *,
        cluster_id: str | None = None,
    ) -> None:
        """Make a controller that has caught up a voter; returns once that is committed."""
        from barnabas.wire.messages import add_raft_voter as api

        request = api.AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=self.timeout_ms,
            voter_id=node_id,
            voter_directory_id=directory_id,
            listeners=[api.Listener(name=e.listener, host=e.host, port=e.port) for e in endpoints],
        )
        self._change(request, f"controller {node_id} as a voter")

    def remove_voter(
        self, node_id: int, directory_id: bytes, *, cluster_id: str | None = None
    ) -> None:
        """Take a controller out of the voters; returns once that is committed."""
        from barnabas.wire.messages import remove_raft_voter as api

        request = api.RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=node_id, voter_directory_id=directory_id
        )
        self._change(request, f"the removal of voter {node_id}")

    def _change(self, request: Any, what: str) -> None:
        def attempt() -> None:
            response = self._for_leader().request(
                request, what=what, timeout_ms=self.timeout_ms + 1_000
            )
            if response.error_code != ErrorCode.NONE:
                raise broker_error(response.error_code, response.error_message)

        self.cluster.retry(what, attempt)

    def _for_leader(self) -> Any:
        """Brokers forward to the leader of the quorum; controllers must be asked directly."""
        if self.cluster.asks_controllers:
            return self.cluster.connection(self.cluster.controller())
        return self.cluster.any_connection()


def _replica(state: Any) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )
