"""What a manager gets and what it gives.

A manager looks at a `View` and answers with a `Decision`: the records that make it so, and the
response for the one who asked. It changes nothing; replaying the records does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from barnabas.metadata.features import ELR_VERSION
from barnabas.metadata.image import BrokerRegistration, ResourceType
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig
    from barnabas.controller.kraft.replica_index import ReplicaIndex
    from barnabas.metadata.image import MetadataImage
    from barnabas.seams import Randomness
    from barnabas.wire.message import Message

R = TypeVar("R")

MAX_RECORDS_PER_OPERATION: Final = 10_000


@dataclass(frozen=True, slots=True)
class View:
    """Everything that a decision may depend on."""

    image: MetadataImage
    config: BrokerConfig
    """This node's settings, with what was set at run time."""
    static_config: BrokerConfig
    node_id: int
    cluster_id: str
    next_offset: int
    randomness: Randomness
    now_ms: int
    monotonic_ms: int
    """For how long things last; `now_ms` may jump."""
    replicas: ReplicaIndex
    """Which partitions a broker has, in step with `image`."""

    @property
    def level(self) -> int:
        return self.image.features.metadata_version

    @property
    def elr_enabled(self) -> bool:
        return bool(self.image.features.finalized_levels.get(ELR_VERSION))

    def min_isr(self, topic: str) -> int:
        own = self.image.config(ResourceType.TOPIC, topic).get("min.insync.replicas", "")
        return int(own) if own.isdecimal() else self.config.min_insync_replicas

    def unclean_election_enabled(self, topic: str) -> bool:
        own = self.image.config(ResourceType.TOPIC, topic).get("unclean.leader.election.enable")
        return (
            own.lower() == "true" if own is not None else self.config.unclean_leader_election_enable
        )

    def registered(self, broker_id: int, broker_epoch: int) -> BrokerRegistration:
        """The broker that speaks in this epoch; an earlier incarnation is refused."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            raise ApiError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"No broker registration found for broker id {broker_id}",
            )
        if broker.epoch != broker_epoch:
            raise ApiError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}",
            )
        return broker


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    records: Sequence[Message]
    response: R


def check_size(records: Sequence[Message]) -> None:
    """What one request may change is bounded; records of one request are one batch."""
    if len(records) > MAX_RECORDS_PER_OPERATION:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
        )
